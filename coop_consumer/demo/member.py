"""One child process of the demo: a member of the cooperative group, or of a rival.

In: a `MemberTask` as JSON, its one argument. It finishes at the end of its standard input, or of
its parent. Out: a `ChildReport` as a line of JSON on standard output, five times a second; the last
one after the last commit. It ends itself if finishing takes too long.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import Protocol

from coop_consumer.demo.report import ChildReport, ChildRole, MemberTask
from coop_consumer.demo.rivals import LanesConsumer, PlainConsumer
from coop_consumer.demo.topics import clients_of
from coop_consumer.demo.worker import FlightWorker
from coop_consumer.pool import WorkerPool

SESSION_TIMEOUT_MS = 6_000
"""The shortest that a stock broker allows: so long the keys of the killed member stand still."""

RECORDS_IN_LANES = 2_000
"""Plenty for 16 workers. A commit contains all records in flight, so fewer are also cheaper."""

_REPORT_EVERY_S = 0.2
_FINISH_WITHIN_S = 20.0


class ChildRunner(Protocol):
    """Any kind of child: it runs until it is asked to stop, and knows its progress."""

    def run(self, stop: threading.Event) -> None:
        """Consume until `stop` is set, then commit what is finished and leave the group."""

    def report(self) -> ChildReport:
        """How far it is. Any thread."""


class Cooperative:
    """A member of the cooperative group: what a user of the library would write."""

    def __init__(self, task: MemberTask) -> None:
        clients = clients_of(task.bootstrap)
        self._worker = FlightWorker(clients, task.topics, latency_s=task.latency_ms / 1_000)
        self._pool = WorkerPool(
            self._worker,
            {
                **clients,
                "group.id": task.group,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "max.records.in.lanes": RECORDS_IN_LANES,
            },
            [task.topics.flights],
            workers=task.workers,
        )

    def run(self, stop: threading.Event) -> None:
        """Consume until `stop` is set, then commit what is finished and leave the group."""
        with self._pool as pool:
            # A member that ends by itself has met an error, which wait() raises.
            while not stop.is_set() and not pool.wait(_REPORT_EVERY_S):
                pass

    def report(self) -> ChildReport:
        """How far it is."""
        worker = self._worker
        return ChildReport(worker.handled, worker.skipped, worker.first_s, time.time())


def runner_of(task: MemberTask) -> ChildRunner:
    """Create the child that the task asks for."""
    match task.role:
        case ChildRole.COOPERATIVE:
            return Cooperative(task)
        case ChildRole.PLAIN:
            return PlainConsumer(task)
        case ChildRole.LANES:
            return LanesConsumer(task)


def main(task: MemberTask) -> None:
    """Run the task until standard input ends."""
    stop, ended = threading.Event(), threading.Event()
    threading.Thread(target=_await_end, args=(stop,), name="end", daemon=True).start()
    runner = runner_of(task)

    def tell() -> None:
        while not ended.wait(_REPORT_EVERY_S):
            _print(runner.report())

    teller = threading.Thread(target=tell, name="report")
    teller.start()
    try:
        runner.run(stop)
    finally:
        ended.set()
        teller.join()
    _print(runner.report())


def _print(report: ChildReport) -> None:
    sys.stdout.write(report.encode() + "\n")
    sys.stdout.flush()


def _await_end(stop: threading.Event) -> None:
    """Wait for the end of standard input: the parent closes it, or has ended."""
    sys.stdin.read()
    stop.set()
    time.sleep(_FINISH_WITHIN_S)  # a daemon thread: it is gone when all went well
    os._exit(1)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    main(MemberTask.decode(sys.argv[1]))
