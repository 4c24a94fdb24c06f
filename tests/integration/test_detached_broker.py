"""A broker in the background: one process starts it, another finds and stops it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.broker import start_detached, status_detached, stop_detached
from coop_consumer.broker.errors import DetachedBrokerError, FolderError
from coop_consumer.broker.ports import free_ports
from coop_consumer.errors import ExitCode, exit_code_of

pytestmark = pytest.mark.integration

WAIT_S = 30.0

START = "from coop_consumer.broker import start_detached; start_detached('demo')"


@pytest.fixture
def usual_port(monkeypatch: pytest.MonkeyPatch) -> int:
    """Stands for 9092, which may be in use where the test runs."""
    [port] = free_ports(1)
    monkeypatch.setattr("coop_consumer.broker.detached.USUAL_PORT", port)
    return port


def test_the_usual_port_is_taken_if_it_is_free(usual_port: int) -> None:
    assert start_detached("demo").bootstrap_servers == f"127.0.0.1:{usual_port}"


def test_another_port_is_taken_if_the_usual_one_is_not_free(usual_port: int) -> None:
    with socket.create_server(("127.0.0.1", usual_port)):
        started = start_detached("demo")
    assert started.is_running()
    assert started.bootstrap_servers != f"127.0.0.1:{usual_port}"


@pytest.fixture(autouse=True)
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of the test's own; no background broker is left in it."""
    monkeypatch.setenv("COOP_STATE_DIR", str(tmp_path / "state"))
    yield tmp_path / "state"
    stop_detached("demo")


def test_background_broker_outlives_the_process_that_started_it() -> None:
    assert status_detached("demo") is None
    subprocess.run([sys.executable, "-c", START], check=True)
    running = status_detached("demo")
    assert running is not None
    assert running.is_running()
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
    assert len(admin.list_topics(timeout=WAIT_S).brokers) == 1

    with pytest.raises(DetachedBrokerError, match=f"pid {running.process.pid}"):
        start_detached("demo")

    stopped = stop_detached("demo")
    assert stopped == running
    assert not running.is_running()
    assert not Path(running.data_dir).exists()
    assert status_detached("demo") is None
    assert stop_detached("demo") is None


def test_killed_background_broker_is_not_running_and_can_be_started_again(tmp_path: Path) -> None:
    first = start_detached("demo", data_dir=tmp_path / "data")
    first.process.signal(signal.SIGKILL)
    assert first.process.wait(WAIT_S)
    assert status_detached("demo") is None
    second = start_detached("demo", data_dir=tmp_path / "data")
    assert second.is_running()
    stop_detached("demo")
    assert (tmp_path / "data").is_dir()


def test_state_folder_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("COOP_STATE_DIR", str(tmp_path / "file"))
        with pytest.raises(FolderError, match="COOP_STATE_DIR"):
            start_detached("demo")


@pytest.mark.parametrize("name", ["", "../elsewhere", "a b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(DetachedBrokerError, match="is not a name") as caught:
        status_detached(name)
    assert exit_code_of(caught.value) == ExitCode.USAGE
