"""Whether a member is alive and ready, by file and by `probe`, on real processes and brokers."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from time import monotonic, time
from typing import Any, Self

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import CooperativeConsumer, Health, Record, live, ready
from coop_consumer.ops.health_file import asked
from tests.support.brokers import own_broker
from tests.support.command import Command
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.pools import Gate
from tests.support.stock import eventually

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
Start = Callable[..., Command]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "health.json"


def reason(path: Path, probe: str = "ready") -> str:
    """The first reason that the file has for a no; "" for a yes."""
    answer = asked(path, probe, time())
    found: dict[str, Any] = json.loads(answer.text)
    return "" if answer.ok else str(found["reasons"][0]["reason"])


def is_live(path: Path) -> bool:
    return asked(path, "live", time()).ok


def probe(path: Path, what: str) -> int:
    """The exit code of `coop-consumer probe`."""
    words = ["probe", what, "--health-file", str(path)]
    line = [sys.executable, "-m", "coop_consumer.cli", *words]
    return subprocess.run(line, capture_output=True, check=False).returncode


def reasons_of(health: Health) -> list[tuple[str, tuple[str, ...], str]]:
    """Why a member is not ready: each kind, for whom it waits, and what it is about."""
    return [(it.kind, it.members, it.subject) for it in ready(health).reasons]


def all_have_stepped_since(began_s: float, health: Health) -> bool:
    """Whether each thread of a member has taken a step since then."""
    return all(idle_s < monotonic() - began_s for idle_s in health.idle_s.values())


def test_a_member_is_ready_while_its_handler_runs_drains_and_has_ended(
    job: MakeJob, started: Start, path: Path
) -> None:
    orders = job()
    orders.produce(["a"])
    run = started(orders, "Led", "--health-file", str(path))
    run.wait_for("begin 0")
    eventually(lambda: reason(path) == "")
    assert (probe(path, "live"), probe(path, "ready")) == (0, 0)
    run.process.terminate()
    eventually(lambda: reason(path) == "draining")
    assert is_live(path)
    run.go_on()
    assert run.end() == 0
    assert reason(path) == "ended"
    assert probe(path, "ready") == 3


def test_a_handler_that_takes_long_is_no_illness(job: MakeJob) -> None:
    orders = job()
    gate = Gate("a")
    with orders.running(handler=gate, workers=1) as it:
        orders.produce(["a"])
        gate.wait_for_arrival()
        began_s = monotonic()
        eventually(lambda: all_have_stepped_since(began_s, it.pool.health()))
        assert len(it.pool.health().idle_s) >= 3, "its own, a fetch, the heartbeats"
        assert live(it.pool.health())
        eventually(lambda: ready(it.pool.health()))  # the other partition may still begin
        gate.open()


def test_a_members_thread_that_stands_still_is_not_alive(
    job: MakeJob, started: Start, path: Path
) -> None:
    orders = job()
    orders.produce(["a"])
    run = started(orders, "Freezing", "--no-supervise", "--health-file", str(path))
    run.wait_for("begin 0")
    eventually(lambda: reason(path, "live") == "frozen")
    assert f"coop-member-{orders.group}" in asked(path, "live", time()).text
    assert probe(path, "live") == 3


def test_a_process_that_stands_still_is_not_alive(job: MakeJob, started: Start, path: Path) -> None:
    orders = job()
    run = started(orders, "Led", "--no-supervise", "--health-file", str(path))
    eventually(lambda: reason(path) == "")
    os.kill(run.process.pid, signal.SIGSTOP)
    answer = asked(path, "live", time() + 11.0)
    assert not answer.ok
    assert "is due each second" in answer.text


def test_the_parent_answers_while_its_worker_process_is_replaced(
    job: MakeJob, started: Start, path: Path, tmp_path: Path
) -> None:
    orders = job()
    orders.produce(["a"])
    run = started(orders, "Led", "--health-file", str(path))
    fallen = int(run.wait_for("begin 0").rsplit(maxsplit=1)[-1])
    eventually(lambda: reason(path) == "")
    os.mkfifo(tmp_path / "hold")
    os.kill(fallen, signal.SIGKILL)
    eventually(lambda: reason(path) == "restarting")
    assert is_live(path)
    (tmp_path / "hold").write_text("go on", encoding="utf-8")
    eventually(lambda: reason(path) == "")
    run.let_all_go()


class Prober:
    """Asks `/livez` and `/readyz` in turns on new connections, without a pause.

    Attributes:
        answers: What each was answered: its status, or the error that came instead.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.answers: list[tuple[str, int | str]] = []

    def _run(self) -> None:
        while not self._over.is_set():
            for probe in ("livez", "readyz"):
                try:
                    found: int | str = answered(self._address, probe)[0]
                except (OSError, HTTPException) as error:  # cut off, before an answer or within
                    found = str(error)
                self.answers.append((probe, found))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def answered(address: str, probe: str) -> tuple[int, str]:
    """What a probe is answered over HTTP."""
    host, _, port = address.rpartition(":")
    with closing(HTTPConnection(host, int(port), timeout=WAIT_S)) as connection:
        connection.request("GET", f"/{probe}")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_over_http_the_parent_answers_while_its_worker_process_is_replaced(
    job: MakeJob, started: Start, tmp_path: Path
) -> None:
    orders = job()
    orders.produce(["a"])
    run = started(orders, "Led", "--ops", "127.0.0.1:0")
    served = run.wait_for("metrics at http://")
    address = served.rsplit("http://", 1)[1].partition("/")[0]
    fallen = int(run.wait_for("begin 0").rsplit(maxsplit=1)[-1])
    eventually(lambda: answered(address, "readyz")[0] == 200)
    os.mkfifo(tmp_path / "hold")
    with Prober(address) as prober:
        eventually(lambda: len(prober.answers) > 10)
        os.kill(fallen, signal.SIGKILL)
        eventually(lambda: "restarting" in answered(address, "readyz")[1])
        assert answered(address, "metrics")[0] == 503
        (tmp_path / "hold").write_text("go on", encoding="utf-8")
        eventually(lambda: answered(address, "readyz")[0] == 200)
    broken = [it for it in prober.answers if it[1] not in {200, 503}]
    assert len(broken) <= 1, "only the one that the dead process had accepted"
    assert ("livez", 503) not in prober.answers
    assert "refused" not in str(broken)
    run.let_all_go()


def test_without_a_broker_a_member_is_alive_and_not_ready(started: Start, path: Path) -> None:
    with own_broker() as broker:
        client = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient(client)
        topic = f"t-{secrets.token_hex(4)}"
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        orders = Job(client, admin, f"g-{secrets.token_hex(4)}", topic)
        started(orders, "Led", "--health-file", str(path))
        eventually(lambda: reason(path) == "")
        broker.kill()
        eventually(lambda: reason(path) == "no_broker")
        assert is_live(path)
        broker.restart()
        eventually(lambda: reason(path) == "")


def test_a_member_that_waits_for_another_ones_handler_names_it(job: MakeJob) -> None:
    orders = job()
    keys = [f"k{number}" for number in range(16)]  # some of them are in the half that moves
    gate, arrived = Gate(*keys), list[bytes | None]()

    def handler(record: Record) -> None:
        arrived.append(record.key)
        gate(record)

    with orders.running(handler=handler, workers=len(keys)) as old:
        orders.produce(keys)
        eventually(lambda: len(arrived) == len(keys))
        with orders.running() as new:
            # For whom it learns from the log, a moment later.
            wait = ("waits", (old.pool.name,), f"{orders.topic}-0")
            eventually(lambda: wait in reasons_of(new.pool.health()))
            gate.open()
            eventually(lambda: ready(new.pool.health()))


def test_a_path_that_cannot_be_written_ends_the_command(
    job: MakeJob, started: Start, tmp_path: Path
) -> None:
    run = started(job(), "Led", "--health-file", str(tmp_path / "no" / "h.json"))
    run.wait_for("--health-file=")
    assert run.end() == 2


def test_a_consumer_is_starting_then_ready_and_then_has_ended(job: MakeJob) -> None:
    orders = job()
    with CooperativeConsumer(orders.settings) as consumer:
        assert ready(consumer.health()).reasons[0].kind == "starting"
        consumer.subscribe([orders.topic])
        eventually(lambda: (consumer.poll(0.0), ready(consumer.health()))[1])
        assert live(consumer.health())
    assert ready(consumer.health()).reasons[0].kind == "ended"
