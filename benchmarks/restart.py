"""How soon a member that fell is at work again: from its end, or its next start, to a record.

`python -m benchmarks restart`. Each run ends a member in the midst of its work and takes the time
to the first record that it handles again:

    static, kill -9     from the start of the next process, which the benchmark starts
    static, SIGTERM     the same
    supervised, alone   from a kill -9 of the worker process; its parent starts the next one
    supervised, of two  the same, beside a member that has to hear of the rebalance first

The first number counts the interpreter's start and all imports.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Event
from uuid import uuid4

from benchmarks.topics import produced
from coop_consumer import Record, Worker

RECORDS, WORK_S, WORKERS = 200_000, 0.005, 8
AT_WORK_S = 1.0
"""How long it is at work before it is ended."""


class FirstRecord(Worker):
    """Tells, in one line, when the process handled its first record, and which process it is."""

    def __init__(self) -> None:
        self._told = False

    def process(self, record: Record) -> None:
        """Stand for a remote call."""
        if not self._told:
            self._told = True
            place = f"{record.partition}-{record.offset}"
            os.write(1, f"{os.getpid()} {time.monotonic()} {place}\n".encode())
        time.sleep(WORK_S)


class Run:
    """One `coop-consumer run` on a group of its own or shared."""

    def __init__(self, bootstrap: str, topic: str, group: str, *options: str) -> None:
        command = [
            *(sys.executable, "-m", "coop_consumer.cli", "run", "benchmarks.restart:FirstRecord"),
            *("--bootstrap", bootstrap, "--topics", topic, "--group", group),
            *("--workers", str(WORKERS), "--log-level", "error"),
            *("--config", "session.timeout.ms=45000", *options),
        ]
        self.started_s = time.monotonic()
        self.process = subprocess.Popen(  # noqa: S603 - the command is ours
            command, cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE
        )
        self.worker_pid = 0

    def first_record_s(self) -> float:
        """Wait for the next worker process's first record; when that was."""
        assert self.process.stdout is not None
        pid, first_s, _ = self.process.stdout.readline().split()
        self.worker_pid = int(pid)
        Event().wait(AT_WORK_S)
        return float(first_s)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the whole command, and wait until it has."""
        self.process.send_signal(number)
        self.process.wait()


@contextmanager
def running(*arguments: str) -> Iterator[Run]:
    """A command that is ended with the block."""
    run = Run(*arguments)
    try:
        yield run
    finally:
        run.end()


def static(bootstrap: str, topic: str, number: signal.Signals, runs: int) -> list[float]:
    """A static member, ended by a signal and started again within its session."""
    group = f"bench-{uuid4().hex[:8]}"
    options = ("--no-supervise", "--config", "group.instance.id=one")
    with running(bootstrap, topic, group, *options) as run:
        run.first_record_s()
        run.end(number)
    times = []
    for _ in range(runs):
        with running(bootstrap, topic, group, *options) as run:
            times.append(run.first_record_s() - run.started_s)
            run.end(number)
    return times


def supervised(bootstrap: str, topic: str, runs: int) -> list[float]:
    """A dynamic member whose worker process is killed; each time it ran well until then."""
    times = []
    for _ in range(runs):
        with running(bootstrap, topic, f"bench-{uuid4().hex[:8]}") as run:
            times.append(_killed_s(run))
    return times


def supervised_of_two(bootstrap: str, topic: str, runs: int) -> list[float]:
    """The same beside another member, which keeps its ranges."""
    times = []
    for _ in range(runs):
        group = f"bench-{uuid4().hex[:8]}"
        with running(bootstrap, topic, group, "--no-supervise") as other:
            other.first_record_s()
            with running(bootstrap, topic, group) as run:
                times.append(_killed_s(run))
    return times


def _killed_s(run: Run) -> float:
    run.first_record_s()
    os.kill(run.worker_pid, signal.SIGKILL)
    killed_s = time.monotonic()
    return run.first_record_s() - killed_s


def restart(bootstrap: str, runs: int, *, as_json: bool) -> int:
    """Measure all four and print their times and medians; always 0: nothing is promised here."""
    cases: dict[str, Callable[[str], list[float]]] = {
        "static, kill -9": lambda topic: static(bootstrap, topic, signal.SIGKILL, runs),
        "static, SIGTERM": lambda topic: static(bootstrap, topic, signal.SIGTERM, runs),
        "supervised, alone": lambda topic: supervised(bootstrap, topic, runs),
        "supervised, of two": lambda topic: supervised_of_two(bootstrap, topic, runs),
    }
    rows = {}
    for name, measure in cases.items():
        times = measure(produced(bootstrap, RECORDS, keys=10_000, value=b"x" * 100))
        rows[name] = {"median_s": round(median(times), 3), "s": [round(it, 3) for it in times]}
        if not as_json:
            print(f"{name:<20} {rows[name]['median_s']:.3f} s   {rows[name]['s']}")
    if as_json:
        print(json.dumps({"case": "restart", "runs": runs, **rows}))
    return 0
