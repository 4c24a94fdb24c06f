"""Pools in the test's own process, whose worker notes what it processed.

In: settings, topics, what a handler does. Out: a `Journal`. A slow handler waits at a `Gate`, so
the test decides when the handler ends, not a clock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from assignors import KeyRange, TopicPartition
from coop_consumer import Context, Record, Worker, WorkerPool
from tests.support.journal import WAIT_S, Journal, Row

Handler = Callable[[Record], None]


def at_once(_: Record) -> None:
    """The handler that does nothing."""


class RefusedError(Exception):
    """What a handler raises on purpose."""


def refuse(*keys: str) -> Handler:
    """A handler that always raises for the records of some keys."""
    refused = {key.encode() for key in keys}

    def handler(record: Record) -> None:
        if record.key in refused:
            raise RefusedError(f"no {record.key!r} today")

    return handler


class Gate:
    """Holds the handlers of some keys until it is opened."""

    def __init__(self, *keys: str) -> None:
        self._keys = {key.encode() for key in keys}
        self._opened = threading.Event()
        self._arrived = threading.Event()

    def __call__(self, record: Record) -> None:
        if record.key in self._keys:
            self._arrived.set()
            assert self._opened.wait(WAIT_S), "nobody opened the gate"

    def wait_for_arrival(self) -> None:
        assert self._arrived.wait(WAIT_S), "nothing came to the gate"

    def open(self) -> None:
        self._opened.set()


class NotingWorker(Worker):
    """Runs `handler`, then notes the record, unless `handler` raised."""

    def __init__(self, journal: Journal, handler: Handler) -> None:
        self._journal = journal
        self._handler = handler
        self._member = ""
        self.news = threading.Condition()
        self.held: dict[TopicPartition, set[KeyRange]] = {}

    def setup(self, context: Context) -> None:
        self._member = context.member

    def process(self, record: Record) -> None:
        started_ns = time.monotonic_ns()
        self._handler(record)
        self._journal.note(
            Row(
                record.partition,
                record.offset,
                (record.key or b"").decode(),
                started_ns,
                time.monotonic_ns(),
                self._member,
                os.getpid(),
                record.attempt,
            )
        )

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        with self.news:
            self.held.setdefault(tp, set()).update(ranges)
            self.news.notify_all()


class Pool:
    """A `WorkerPool` with a noting worker."""

    def __init__(
        self,
        settings: Mapping[str, object],
        topic: str,
        *,
        journal: Journal | None = None,
        handler: Handler = at_once,
        workers: int = 4,
        until_caught_up: bool = False,
    ) -> None:
        self.journal = journal or Journal()
        self._worker = NotingWorker(self.journal, handler)
        self.pool = WorkerPool(
            self._worker, settings, [topic], workers=workers, until_caught_up=until_caught_up
        )

    def wait_for_ranges(self) -> None:
        """Wait until the member processes at least one range."""
        with self._worker.news:
            assert self._worker.news.wait_for(lambda: self._worker.held, WAIT_S), "got no range"


@contextmanager
def running(settings: Mapping[str, object], topic: str, **arguments: Any) -> Iterator[Pool]:
    """Run a pool for the length of the block, and end it in order."""
    pool = Pool(settings, topic, **arguments)
    with pool.pool:
        yield pool


def run_to_end(settings: Mapping[str, object], topic: str, **arguments: Any) -> Journal:
    """Let one member process all that the group has left; returns what it processed."""
    pool = Pool(settings, topic, until_caught_up=True, **arguments)
    pool.pool.start()
    assert pool.pool.wait(WAIT_S), f"not caught up in {WAIT_S} s: {pool.pool.counters}"
    return pool.journal
