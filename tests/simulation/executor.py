"""The executor: a few workers that run lanes over virtual time, as threads would.

In: ready lanes. Out: finished records, ended and failed lanes, exactly as the thread executor tells
them: a worker takes a chunk of lanes, goes through a lane's turn (which sees what is appended
meanwhile, and ends when the member clears it, or early), and idle workers take lanes back from
others. Between the end of a record and the start of the next one anything may happen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from coop_consumer.core.lanes import Entry, Lane
from coop_consumer.core.record import Record

if TYPE_CHECKING:
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


class HandlerError(Exception):
    """What a handler raises here."""


class SimExecutor:
    """The workers of one member."""

    def __init__(self, world: World, shell: MemberShell, workers: int) -> None:
        self._world = world
        self._shell = shell
        self._chunks: list[deque[Entry]] = [deque() for _ in range(workers)]
        self._idle = list(range(workers))

    def offered(self) -> None:
        """Lanes may have become ready."""
        while self._idle and self._shell.core.lanes.ready:
            self._work(self._idle.pop())

    def _work(self, worker: int) -> None:
        lanes, chunk, rng = self._shell.core.lanes, self._chunks[worker], self._world.scheduler.rng
        self._world.touched.add(self._shell)
        if not chunk:
            lanes.take(rng.choice((1, 1, 4, 16)), chunk)
        if not chunk:
            self._steal(chunk)
        if chunk:
            entry = chunk.popleft()
            if isinstance(entry, Lane):
                entry.begun = True
                self._next(worker, entry, islice(entry.turn(), rng.choice((1, 3, 99))), 0)
            else:
                self._next(worker, entry, iter((entry,)), 0)
        else:
            self._idle.append(worker)
            self._shell.wake()

    def _steal(self, chunk: deque[Entry]) -> None:
        for other in self._chunks:
            if other:
                chunk.append(other.pop())
                return

    def _later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self._world.scheduler.after(delay_ms, lambda: self._shell.receive(call))

    def _next(self, worker: int, entry: Entry, records: Iterator[Record], done: int) -> None:
        record = next(records, None)
        if record is None:
            self._end(worker, entry, done)
            return
        world = self._world
        execution = world.checker.started(self._shell, record)
        world.note(self._shell.title, "starts", record)

        def finish() -> None:
            if world.fails(record):
                world.checker.failed(execution, record)
                error = HandlerError("simulated")
                if isinstance(entry, Lane):
                    entry.failure = (record, error)
                else:
                    self._shell.core.lanes.errors[record] = error
                self._end(worker, entry, done)
                return
            world.checker.finished(execution, record)
            world.note(self._shell.title, "finishes", record)
            self._shell.core.lanes.finished.append(record)
            self._later(0, lambda: self._next(worker, entry, records, done + 1))

        self._later(world.cost_ms(), finish)

    def _end(self, worker: int, entry: Entry, done: int) -> None:
        lanes = self._shell.core.lanes
        if isinstance(entry, Lane):
            entry.done += done
            has_news = entry.failure is not None or entry.detached
        else:
            has_news = entry in lanes.errors or entry in lanes.given_up
        lanes.ended.append(entry)
        if has_news or self._world.scheduler.chance(0.3):
            self._shell.wake()
        self._later(0, lambda: self._work(worker))
