"""A worker that buffers its output, also in a process that can be killed.

In: what a flush does before its rows count as safe. Out: processed rows, and durable rows.
`python -m tests.support.buffering` is a member that is to be killed (see `tests.support.killed`).
Its flush never ends, so its buffered rows die with it.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable

from coop_consumer import WorkerPool
from tests.support.journal import WAIT_S, Journal, Row
from tests.support.killed import say_there
from tests.support.pools import Handler, NotingWorker, at_once


def nothing() -> None:
    """The flush that has nothing to wait for."""


class BufferingWorker(NotingWorker):
    """Its rows are durable once a flush that began after them has ended.

    Args:
        at_flush: Called in each flush; if it raises, buffered rows stay buffered.

    Attributes:
        processed: All rows.
        durable: The rows that a flush has made durable.
    """

    def __init__(self, handler: Handler = at_once, at_flush: Callable[[], None] = nothing) -> None:
        self.processed = Journal()
        self.durable = Journal()
        self._at_flush = at_flush
        self._safe = 0
        super().__init__(self.processed, handler)

    def flush(self) -> None:
        rows: list[Row] = self.processed.rows
        self._at_flush()
        for row in rows[self._safe :]:
            self.durable.note(row)
        self._safe = len(rows)


class Door:
    """Makes flushes wait while it is shut; it is open at first."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._reached = threading.Event()

    def __call__(self) -> None:
        self._reached.set()
        assert self._open.wait(WAIT_S), "nobody opened the door"

    def shut(self) -> None:
        self._open.clear()
        self._reached.clear()

    def open(self) -> None:
        self._open.set()

    def wait_for_arrival(self) -> None:
        assert self._reached.wait(WAIT_S), "no flush came"


def main() -> None:
    plan = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    flushing, never = threading.Event(), threading.Event()

    def hang() -> None:
        flushing.set()
        never.wait()

    worker = BufferingWorker(at_flush=hang)
    pool = WorkerPool(worker, plan["settings"], [plan["topic"]], workers=4)
    pool.start()
    worker.processed.wait(lambda rows: len(rows) == plan["count"])
    assert flushing.wait(WAIT_S), "nobody asked for a flush"
    say_there()
    pool.wait()


if __name__ == "__main__":
    main()
