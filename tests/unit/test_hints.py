"""What a command adds to an error: the broker that runs here, the option beside the setting."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from coop_consumer.broker import DetachedBroker, running_detached
from coop_consumer.broker.process import ProcessIdentity
from coop_consumer.cli.app import app
from coop_consumer.cli.hints import add_hints
from coop_consumer.cli.log import StderrHandler
from coop_consumer.cli.options import Connection
from coop_consumer.errors import ExitCode
from coop_consumer.status.errors import GroupMissingError

NOWHERE = "127.0.0.1:1"
START = "No Kafka at hand? This runs one on this machine:\n    coop-consumer broker start\n"
ENDED = ProcessIdentity(os.getpid(), "some other time")


@pytest.fixture(autouse=True)
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No broker of this machine, no setting from outside, and logging as it was."""
    monkeypatch.setenv("COOP_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("COOP_BOOTSTRAP", raising=False)
    monkeypatch.setattr("coop_consumer.kafka.topics.Topics.check_broker.__defaults__", (0.2,))
    root = logging.getLogger()
    level = root.level
    yield tmp_path
    for handler in [h for h in root.handlers if isinstance(h, StderrHandler)]:
        root.removeHandler(handler)
    root.setLevel(level)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def note(state_dir: Path, name: str, port: int, process: ProcessIdentity | None = None) -> None:
    """Note a background broker, as the command that starts one does; this process stands for it."""
    found = DetachedBroker(
        name=name,
        bootstrap_servers=f"127.0.0.1:{port}",
        version="4",
        data_dir="data",
        keeps_data=False,
        log_path="log",
        process=process or ProcessIdentity.of(os.getpid()),
        started_ms=0,
    )
    folder = state_dir / "brokers" / name
    folder.mkdir(parents=True)
    (folder / "broker.json").write_text(json.dumps(asdict(found)))


# -- brokers ---------------------------------------------------------------------------------------


def test_the_brokers_that_run_are_found_by_name(state_dir: Path) -> None:
    assert running_detached() == []
    note(state_dir, "b", 20_002)
    note(state_dir, "a", 20_001)
    note(state_dir, "killed", 20_003, ENDED)
    (state_dir / "brokers" / "a-file").touch()
    assert [it.name for it in running_detached()] == ["a", "b"]


def test_a_command_without_a_broker_says_how_to_start_one() -> None:
    told = invoke("status", "billing")
    assert told.exit_code == ExitCode.USAGE
    assert told.stderr.endswith(START)


def test_a_command_without_a_broker_names_the_one_that_runs_here(state_dir: Path) -> None:
    note(state_dir, "default", 20_001)
    told = invoke("status", "billing")
    assert told.exit_code == ExitCode.USAGE
    assert told.stderr.endswith(
        "A broker runs on this machine. To use it:\n    export COOP_BOOTSTRAP=127.0.0.1:20001\n"
    )


def test_of_several_brokers_each_has_its_line(state_dir: Path) -> None:
    note(state_dir, "default", 20_001)
    note(state_dir, "second", 20_002)
    told = invoke("topic", "list").stderr
    assert "\n    export COOP_BOOTSTRAP=127.0.0.1:20001    # broker default\n" in told
    assert "\n    export COOP_BOOTSTRAP=127.0.0.1:20002    # broker second\n" in told


def test_a_broker_that_has_gone_is_told_with_the_one_that_runs_now(state_dir: Path) -> None:
    note(state_dir, "default", 20_001)
    told = invoke("topic", "list", "--bootstrap", NOWHERE)
    assert told.exit_code == ExitCode.UNAVAILABLE
    assert "\n    export COOP_BOOTSTRAP=127.0.0.1:20001\n" in told.stderr


def test_a_broker_elsewhere_that_does_not_answer_is_not_replaced_by_one_of_here() -> None:
    told = invoke("topic", "list", "--bootstrap", "no-such-host.invalid:9092")
    assert told.exit_code == ExitCode.UNAVAILABLE
    assert "broker start" not in told.stderr


# -- settings --------------------------------------------------------------------------------------

FROM_FILE = ["--config-file", "app.properties"]


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["status", "g", "--bootstrap", "a b"], "--bootstrap"),
        (["status", "g", "--config", "bootstrap.servers=a b"], "--bootstrap"),
        (["status", "g", "--bootstrap", NOWHERE, "--config", "workers=0"], "--config workers"),
        (["status", "g", "--bootstrap", NOWHERE, *FROM_FILE], "--config-file app.properties"),
        (["status", "\x1b", "--bootstrap", NOWHERE], "GROUP"),
        (["run", "worker_of_hints:B", "-t", "t", "-g", "\x1b", "--bootstrap", NOWHERE], "--group"),
        (["run", "worker_of_hints:B", "-t", "t", "--bootstrap", NOWHERE], "--group"),
        (["run", "worker_of_hints:B", "-g", "g", "--bootstrap", NOWHERE], "--topics"),
    ],
)
def test_an_error_about_a_setting_says_where_it_is_given(
    words: list[str], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("app.properties").write_text("max.attempts=0\n")
    Path("worker_of_hints.py").write_text(
        "from coop_consumer import Worker\nclass B(Worker):\n    def process(self, record): pass\n"
    )
    told = invoke(*words)
    assert told.exit_code == ExitCode.USAGE
    assert f" ({where})." in told.stderr


def test_a_broker_of_the_environment_is_named_by_its_variable() -> None:
    told = CliRunner().invoke(app, ["status", "g"], env={"COOP_BOOTSTRAP": "a b"})
    assert "(COOP_BOOTSTRAP)." in told.stderr


def test_a_broker_that_does_not_answer_is_told_with_the_place_of_its_name() -> None:
    told = CliRunner().invoke(app, ["topic", "list"], env={"COOP_BOOTSTRAP": NOWHERE})
    assert told.exit_code == ExitCode.UNAVAILABLE
    assert "bootstrap.servers was given by COOP_BOOTSTRAP.\n" in told.stderr


def test_a_secret_stays_out_of_what_is_added() -> None:
    words = ["--config", "sasl.password=s3cret", "--config", "sasl.mechanism=NONE"]
    told = invoke("status", "g", "--bootstrap", NOWHERE, *words)
    assert told.exit_code == ExitCode.USAGE
    assert "s3cret" not in told.stderr


@pytest.mark.parametrize(("command", "is_told"), [("status", True), ("gaps", False)])
def test_a_missing_group_is_looked_at_by_its_topics_where_there_is_such_an_option(
    command: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coop_consumer.cli.hints.nearest_group", lambda *_: None)
    error = GroupMissingError("billing")
    found = app.get_command(click.Context(app), command)
    assert found is not None
    with click.Context(found):
        add_hints(error, Connection(None, (), NOWHERE))
    notes = getattr(error, "__notes__", [])
    assert ("If it has not begun yet, name its topics with --topic." in notes) is is_told
