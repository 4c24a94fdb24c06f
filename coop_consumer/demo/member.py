"""One child process of the demo: a member of the cooperative group, or of a rival.

In: a `MemberTask` as JSON, its one argument; the end of its standard input tells it to finish, and
so does the end of its parent. Out: a `Report` as a line of JSON on standard output five times a
second, the last one when everything is committed. It ends itself if finishing takes too long.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum

from coop_consumer.demo.rivals import LanesConsumer, PlainConsumer
from coop_consumer.demo.worker import FlightTopics, FlightWorker
from coop_consumer.pool import WorkerPool

SESSION_TIMEOUT_MS = 6_000
"""The shortest that a stock broker allows: so long the keys of the killed member stand still."""

_REPORT_EVERY_S = 0.2
_FINISH_WITHIN_S = 20.0


class Role(StrEnum):
    """What a child is.

    COOPERATIVE: a member of the cooperative group. PLAIN: a member of a plain group. LANES: the one
    process of the hand-written solution.
    """

    COOPERATIVE = "cooperative"
    PLAIN = "plain"
    LANES = "lanes"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTask:
    """What a child is to do. `workers` matters to a cooperative one alone."""

    role: Role
    bootstrap: str
    group: str
    flights: str
    legs: str
    last_leg: str
    latency_ms: float
    workers: int

    def encode(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> MemberTask:
        """The inverse of `encode`."""
        fields = json.loads(text)
        return cls(**{**fields, "role": Role(fields["role"])})

    @property
    def topics(self) -> FlightTopics:
        """The topics it reads and writes."""
        return FlightTopics(self.flights, self.legs, self.last_leg)

    @property
    def clients(self) -> dict[str, str]:
        """What every Kafka client of it needs."""
        return {"bootstrap.servers": self.bootstrap}


@dataclass(frozen=True, slots=True)
class Report:
    """How far a child is.

    Attributes:
        handled: Flights processed.
        skipped: Those among them that had been processed before and needed nothing.
        first_s: Unix time at which the first began; 0.0: none has.
        now_s: Unix time of this report.
    """

    handled: int = 0
    skipped: int = 0
    first_s: float = 0.0
    now_s: float = 0.0

    def encode(self) -> str:
        """As JSON, one line."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, line: str) -> Report:
        """The inverse of `encode`."""
        return cls(**json.loads(line))


def main(task: MemberTask) -> None:
    """Run the task until standard input ends."""
    stop = threading.Event()
    threading.Thread(target=_await_end, args=(stop,), name="end", daemon=True).start()
    match task.role:
        case Role.COOPERATIVE:
            _run_cooperative(task, stop)
        case Role.PLAIN:
            plain = PlainConsumer(
                task.clients, task.group, task.topics, latency_s=task.latency_ms / 1_000
            )
            _reporting(
                lambda: Report(plain.handled, 0, plain.first_s, time.time()), plain.run, stop
            )
        case Role.LANES:
            lanes = LanesConsumer(
                task.clients, task.group, task.topics, latency_s=task.latency_ms / 1_000
            )
            _reporting(
                lambda: Report(lanes.handled, 0, lanes.first_s, time.time()), lanes.run, stop
            )


def _run_cooperative(task: MemberTask, stop: threading.Event) -> None:
    worker = FlightWorker(task.clients, task.topics, latency_s=task.latency_ms / 1_000)
    config = {
        **task.clients,
        "group.id": task.group,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
    }

    def run(stop: threading.Event) -> None:
        with WorkerPool(worker, config, [task.flights], workers=task.workers) as pool:
            while not stop.wait(_REPORT_EVERY_S):
                if pool.wait(0):  # it has ended by itself: an error, which this raises
                    return

    _reporting(
        lambda: Report(worker.handled, worker.skipped, worker.first_s, time.time()), run, stop
    )


def _reporting(
    report: Callable[[], Report], run: Callable[[threading.Event], None], stop: threading.Event
) -> None:
    """Run, and tell how far it is meanwhile; once more when it has ended."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_REPORT_EVERY_S):
            _print(report())

    teller = threading.Thread(target=tell, name="report")
    teller.start()
    try:
        run(stop)
    finally:
        ended.set()
        teller.join()
    _print(report())


def _print(report: Report) -> None:
    sys.stdout.write(report.encode() + "\n")
    sys.stdout.flush()


def _await_end(stop: threading.Event) -> None:
    """Standard input ends when the parent says so, or has ended in whatever way."""
    sys.stdin.read()
    stop.set()
    time.sleep(_FINISH_WITHIN_S)
    os._exit(1)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    main(MemberTask.decode(sys.argv[1]))
