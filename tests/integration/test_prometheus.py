"""A real Prometheus scrapes a real group: every query of dashboard and alerts parses and answers.

It needs `prometheus` and `promtool`, of Debian's package `prometheus`. Elsewhere the tests skip.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from coop_consumer import Context, Record, Worker, WorkerPool
from tests.integration.exporting import exporting
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.stock import eventually

MakeJob = Callable[..., Job]
DEPLOY = Path(__file__).parents[2] / "deploy"
PANELS = json.loads((DEPLOY / "grafana/coop-consumer.json").read_text(encoding="utf-8"))["panels"]
QUERIES = [it["expr"] for panel in PANELS for it in panel.get("targets", ())]
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
MAY_BE_EMPTY = ("coop_group_useful_members",)
"""What a healthy group has no sample of: a limit."""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("promtool") is None,
        reason="needs prometheus and promtool: apt-get install prometheus",
    ),
]


def promtool(*words: str, folder: Path) -> str:
    ended = subprocess.run(
        ["promtool", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"
    return ended.stdout


def test_the_files_are_what_prometheus_takes() -> None:
    folder = DEPLOY / "prometheus"
    promtool("check", "config", "prometheus.yaml", folder=folder)
    assert "SUCCESS" in promtool("check", "rules", "alerts.yaml", folder=folder)


def test_each_alert_fires_when_it_should_and_is_quiet_when_it_should() -> None:
    promtool("test", "rules", "alerts_test.yaml", folder=DEPLOY / "prometheus")


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus."""

    address: str

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API."""
        where = f"http://{self.address}/api/v1/{path}?{urlencode(parameters)}"
        with urlopen(where, timeout=WAIT_S) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def query(self, query: str) -> list[Any]:
        """What a query finds now."""
        found: list[Any] = self.ask("query", query=query)["result"]
        return found

    @property
    def is_ready(self) -> bool:
        try:
            with urlopen(f"http://{self.address}/-/ready", timeout=WAIT_S) as answer:
                return bool(answer.status == 200)
        except (URLError, ConnectionError):
            return False


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return f"127.0.0.1:{found.getsockname()[1]}"


@contextmanager
def prometheus(folder: Path, token: Path, *targets: str) -> Iterator[Prometheus]:
    """Run one that scrapes these every second, and gives them all a token."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {
                "job_name": "coop",
                "authorization": {"credentials_file": str(token)},
                "static_configs": [{"targets": list(targets)}],
            },
        ],
    }
    (folder / "prometheus.yaml").write_text(json.dumps(config))  # YAML takes JSON
    address = free_address()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *("prometheus", f"--config.file={folder}/prometheus.yaml"),
                *(f"--web.listen-address={address}", f"--storage.tsdb.path={folder}/data"),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        running = Prometheus(address)
        eventually(lambda: running.is_ready)
        yield running
    finally:
        process.terminate()
        process.wait()


class Totals(Worker):
    """Keeps state and sends outputs, so that there is something of everything."""

    keyed_state = True

    def setup(self, context: Context) -> None:
        self._context = context
        [self._outputs] = context.config.output_names

    def process(self, record: Record) -> None:
        state = self._context.state
        count = int(state.get(record) or b"0") + 1
        state.put(record, b"%d" % count)
        self._context.send(record, self._outputs, record.key, b"%d" % count)

    def flush(self) -> None:
        """Nothing is buffered; it is measured all the same."""


def at_any(query: str) -> str:
    """A query of the dashboard, for any group, as Grafana would ask it."""
    return query.replace("$group", ".+").replace("$__rate_interval", "10s")


def test_every_query_of_dashboard_and_alerts_parses_and_answers(
    job: MakeJob, topic: Callable[[int], str], tmp_path: Path
) -> None:
    outputs = topic(1)
    its = job(
        2,
        **{
            "processing.guarantee": "exactly_once",
            "output.topics": outputs,
            "statistics.interval.ms": 1_000,
        },
    )
    its.produce([f"key-{number}" for number in range(50)])
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(32), encoding="utf-8")
    served = {"ops.address": "127.0.0.1:0", "ops.token.file": str(token)}
    settings = {**its.settings, **served}
    with (
        WorkerPool(Totals, settings, [its.topic], workers=2) as pool,
        exporting(its, its.group) as exporter,
    ):
        assert pool._ops is not None
        # The member asks for the token, and the exporter takes who has one, too.
        with prometheus(tmp_path, token, pool._ops.address, exporter.address) as its_prometheus:
            eventually(lambda: len(its_prometheus.query("up == 1")) == 2)
            eventually(lambda: its_prometheus.query('coop_group_members{state="working"} == 1'))
            eventually(lambda: its_prometheus.query("coop_client_brokers_up"))

            def move() -> bool:
                its.produce(["key-1", "key-2"])
                return bool(its_prometheus.query("rate(coop_transactions_total[10s]) > 0"))

            def answers(query: str) -> bool:
                return move() and bool(its_prometheus.query(query))

            eventually(move)
            for query in map(at_any, QUERIES):
                if any(name in query for name in MAY_BE_EMPTY):
                    its_prometheus.query(query)
                else:
                    eventually(partial(answers, query))
            rules = its_prometheus.ask("rules")["groups"][0]["rules"]
            eventually(
                lambda: (
                    {it["health"] for it in its_prometheus.ask("rules")["groups"][0]["rules"]}
                    == {"ok"}
                )
            )
            assert len(rules) == len(re.findall(r"alert:", ALERTS.read_text(encoding="utf-8")))
            assert not its_prometheus.query('ALERTS{alertstate="firing", severity="page"}')
