"""`coop-consumer run` and signals: what runs is finished, and no exit code tells a lie.

The worker of these tests says what it does on stdout and goes on when a line comes on stdin.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import Queue

import pytest

from tests.job import Job
from tests.journal import WAIT_S

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]

WORKER = """
import sys
from coop_consumer import Worker

class Led(Worker):
    def process(self, record):
        print("begin", record.offset, flush=True)
        sys.stdin.readline()

class LedSetup(Led):
    def setup(self, context):
        print("getting ready", flush=True)
        sys.stdin.readline()
"""
NOW = {"shutdown.timeout.ms": 0}


class Run:
    """One `coop-consumer run` and the lines it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def wait_for(self, text: str) -> None:
        seen = []
        while text not in (line := self._lines.get(timeout=WAIT_S)):
            seen.append(line)
            assert line, f"ended without {text!r}:\n{''.join(seen)}"

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> int:
        return self.process.wait(WAIT_S)

    def kill(self) -> None:
        """End it, if it still runs, and read to the end what it had to say."""
        self.process.kill()
        self._reader.join(WAIT_S)
        assert not self._reader.is_alive(), "somebody still holds its stdout"


Start = Callable[..., Run]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Start]:
    """Run a worker class on a job; what still runs at the end is killed."""
    (tmp_path / "led.py").write_text(WORKER, encoding="utf-8")
    with ExitStack() as processes:

        def start(orders: Job, worker: str = "Led") -> Run:
            given = [f"--config={name}={value}" for name, value in orders.settings.items()]
            line = ["run", f"led:{worker}", "--topics", orders.topic, "--workers", "1", *given]
            process = subprocess.Popen(
                [sys.executable, "-m", "coop_consumer.cli", *line],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            processes.enter_context(process)
            run = Run(process)
            processes.callback(run.kill)
            return run

        yield start


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_runs_finish_commits_it_and_leaves(
    job: MakeJob, started: Start, number: signal.Signals
) -> None:
    orders = job(**NOW)
    orders.produce(["a", "b", "a"])
    run = started(orders)
    run.wait_for("begin 0")
    run.process.send_signal(number)
    run.wait_for("still waiting for 1 running records")
    run.go_on()
    assert run.end() == 0
    orders.wait_until_empty()
    assert orders.committed()[0][0] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once_and_what_ran_comes_again(
    job: MakeJob, started: Start, number: signal.Signals
) -> None:
    orders = job(**NOW)
    orders.produce(["a"])
    run = started(orders)
    run.wait_for("begin 0")
    run.process.send_signal(number)
    run.wait_for("still waiting for 1 running records")
    run.process.send_signal(number)
    assert run.end() == 128 + number
    again = started(orders)
    again.wait_for("begin 0")


def test_a_signal_during_setup_ends_it_in_order_before_its_first_record(
    job: MakeJob, started: Start
) -> None:
    orders = job()
    orders.produce(["a"])
    run = started(orders, "LedSetup")
    run.wait_for("getting ready")
    run.process.send_signal(signal.SIGTERM)
    run.go_on()
    run.wait_for("has left")
    assert run.end() == 0
    assert orders.committed() == {}
