"""The walk of a newcomer: each mistake with its message, its exit code, how soon, and the way on.

The mistakes are the rows of `tests/support/mistakes.py`. How soon: before any broker is asked,
unless only a broker can say it; and in some times what the row's message takes. The start of a
command is not its message: that of a process is measured here, and modules are loaded before.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic, time
from uuid import uuid4

import click
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from coop_consumer.broker import EmbeddedBroker
from coop_consumer.cli.app import app
from coop_consumer.errors import ExitCode
from coop_consumer.log_events import LogEvent
from tests.support.job import Job
from tests.support.mistakes import FILES, MISTAKES, SECURED, SLOWER, Mistake
from tests.support.rights import grant
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("logging_as_it_was")]

Typed = Callable[[Mistake, Mapping[str, object], str | None], tuple[int, str]]

START_S_MAX = 60.0


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A port that another program has."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Where a broker should be that nobody may ask."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a newcomer, who has no background broker."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COOP_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "400")
    return tmp_path


def called(
    words: Sequence[str], bootstrap: str | None, folder: Path, within_s: float
) -> tuple[int, str]:
    """The exit code of a command that is a process of its own, and all that it has said."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("COOP_BOOTSTRAP", None)
    ended = subprocess.run(
        [sys.executable, "-m", "coop_consumer.cli", *words],
        cwd=folder,
        env=environment if bootstrap is None else {**environment, "COOP_BOOTSTRAP": bootstrap},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=within_s,
        check=False,
    )
    return ended.returncode, ended.stdout


@pytest.fixture(scope="module")
def start_s(tmp_path_factory: pytest.TempPathFactory) -> float:
    """What `run` takes here to start: two processes, the second of which loads all modules."""
    began_s = monotonic()
    code, said = called(["run", "--help"], None, tmp_path_factory.mktemp("start"), START_S_MAX)
    assert code == 0, said
    return monotonic() - began_s


@pytest.fixture
def typed(newcomer: Path, start_s: float) -> Typed:
    """Type a mistake: its exit code, and all that it has said. It must end in time."""

    def type_in(
        mistake: Mistake, names: Mapping[str, object], bootstrap: str | None
    ) -> tuple[int, str]:
        words = shlex.split(mistake.words.format(**names))
        if mistake.is_process:
            return called(words, bootstrap, newcomer, SLOWER * start_s + mistake.within_s)
        app.get_command(click.Context(app), words[0])  # loads its module
        began_s = monotonic()
        told = CliRunner().invoke(app, words, env={"COOP_BOOTSTRAP": bootstrap})
        took_s = monotonic() - began_s
        assert took_s < mistake.within_s, f"after {took_s:.1f} s: {told.output}"
        return told.exit_code, told.output

    return type_in


@pytest.fixture
def impatient(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command waits for 2 s, instead of 10, for a broker that will not answer."""
    if mistake.code is ExitCode.UNAVAILABLE:
        monkeypatch.setattr("coop_consumer.kafka.topics.Topics.check_broker.__defaults__", (2.0,))


@pytest.fixture(scope="module")
def orders(bootstrap: str) -> Iterator[Job]:
    """A job that is done: no mistake changes it."""
    name = f"mistakes-{uuid4().hex[:8]}"
    client = {"bootstrap.servers": bootstrap}
    admin = AdminClient(dict(client))
    create_topic(admin, name, 2)
    job = Job(client, admin, f"{name}-group", name, 2)
    job.produce(["a", "b", "c"], 0)
    job.run_to_end()
    yield job
    admin.delete_topics([name])[name].result(ADMIN_TIMEOUT_S)


def assert_says(mistake: Mistake, names: Mapping[str, object], said: str) -> None:
    """What is wrong and where, and behind it the way on."""
    *wrong, way_on = (text.format(**names) for text in mistake.says)
    assert wrong, "the row says nothing of what is wrong, or no way on"
    for text in wrong:
        assert text in said, said
    assert way_on in said[said.index(wrong[0]) :], said


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda it: it.name.replace(" ", "-"))
def test_a_mistake_is_told_with_the_way_on(
    mistake: Mistake, typed: Typed, orders: Job, port: int, silent: socket.socket
) -> None:
    host, free = silent.getsockname()
    bootstrap = str(orders.client["bootstrap.servers"]) if mistake.asks else f"{host}:{free}"
    names = {"topic": orders.topic, "group": orders.group, "port": port, "bootstrap": bootstrap}
    given = bootstrap if mistake.bootstrap == "" else mistake.bootstrap
    code, said = typed(mistake, names, given)
    assert code == mistake.code, said
    assert "Traceback" not in said
    assert_says(mistake, names, said)


def test_a_broker_that_is_silent_is_told_after_2_s_and_tried_for_10(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As docs/cli.md promises. Nothing is patched here; a machine may be three times slower."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began_s = time()
        told = CliRunner().invoke(app, ["topic", "list", "--bootstrap", address])
        took_s = time() - began_s
    assert told.exit_code == ExitCode.UNAVAILABLE, told.output
    [line] = [it for it in caplog.records if vars(it).get("event") == LogEvent.BROKER_SILENT]
    assert line.created - began_s < 3 * 2
    assert f"{address}: no answer yet (" in told.output
    assert 10 <= took_s < 3 * 10


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("mistake", SECURED, ids=lambda it: it.name.replace(" ", "-"))
def test_a_mistake_at_a_secured_broker_is_told_with_the_way_on(
    mistake: Mistake,
    typed: Typed,
    secured: EmbeddedBroker,
    root: AdminClient,
    group_id: str,
) -> None:
    create_topic(root, group_id)
    sees = [] if "to see" in mistake.name else [("TOPIC", group_id, "DESCRIBE")]
    grant(root, Job(secured.client_config("root"), root, group_id, group_id), sees)
    login = secured.client_config("ann")
    for name, settings in (("ann", login), ("wrong", {**login, "sasl.password": "guess"})):
        lines = "".join(f"{setting}={value}\n" for setting, value in settings.items())
        Path(f"{name}.properties").write_text(lines)
    names = {"topic": group_id, "bootstrap": secured.bootstrap_servers}
    code, said = typed(mistake, names, None)
    assert code == mistake.code, said
    assert "Traceback" not in said
    assert "guess" not in said
    assert_says(mistake, names, said)
