"""The executor: a few workers that run lanes over virtual time, as threads would.

In: ready lanes. Out: finished records, ended and failed lanes, exactly as from the thread executor.
A worker takes a chunk of lanes, and goes through the turn of each lane. A turn sees what is
appended meanwhile. It ends when the member clears the lane, or early. Idle workers take lanes back
from others. Between the end of a record and the start of the next one anything may happen.

At times the member's own thread runs records that are not even filed. Nothing else happens
meanwhile, until a handler fails or keeps the thread. Then the thread is a worker from then on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from coop_consumer.core import effects
from coop_consumer.core.failure import Failure
from coop_consumer.core.lane import Entry, Lane, next_of
from coop_consumer.core.lane_tables import Straight
from coop_consumer.core.record import Record
from tests.simulation.blocks import WAITS_MS
from tests.simulation.flusher import SimEffect, check_over, leave_behind

if TYPE_CHECKING:
    from tests.simulation.checker.history import Execution
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


_IS_QUICK, _HELPS, _IS_STUCK, _IS_PAUSED = 0.5, 0.9, 0.08, 0.05
"""How often a member's handlers are, its thread runs them, is kept by one, and is paused."""


FAILURE = Failure("HandlerError", "HandlerError: simulated")
"""What a handler raises here."""


class _Job(NamedTuple):
    worker: int
    entry: Entry
    records: Iterator[Record]  # what is left of it
    done: int  # so many of it are
    before: Record | None  # what was finished of it last


class _Handler(NamedTuple):
    worker: int
    record: Record
    execution: Execution
    attempt: int
    effect: SimEffect


class _Ending(NamedTuple):
    """A handler that is about to end."""

    job: _Job
    record: Record
    execution: Execution
    effect: SimEffect


class SimExecutor:
    """The workers of one member."""

    def __init__(self, world: World, shell: MemberShell, workers: int) -> None:
        self._world = world
        self._shell = shell
        self._chunks: list[deque[Entry]] = [deque() for _ in range(workers)]
        self._idle = list(range(workers))
        self._handlers: dict[Entry, _Handler] = {}
        self._waits: _Ending | None = None  # for one of another tenure, to end as a block
        self._is_quick = world.scheduler.chance(_IS_QUICK)

    def offered(self) -> None:
        """Lanes may have become ready."""
        lanes, rng = self._shell.core.lanes, self._world.scheduler.rng
        while self._idle and lanes.tables.fresh and rng.random() < _HELPS:
            self._help(lanes.tables.take_straight(rng.choice((1, 4, 16))))
            if not self._shell.alive:
                return
        lanes.tables.goes_straight = self._is_quick
        while self._idle and lanes.startable and self._shell.alive:
            self._work(self._idle.pop())

    def _help(self, run: Straight) -> None:
        """Run fresh records at once, on the member's thread."""
        lanes, world = self._shell.core.lanes, self._world
        self._world.touched.add(self._shell)
        for record in run:
            execution = world.checker.handlers.started(self._shell, record)
            world.note(self._shell.title, "runs straight", record)
            effect = leave_behind(world, execution, record)
            if world.kills(record):
                self._shell.fall(record)
                return
            if world.fails(record):
                effect.has_ended = True
                world.checker.handlers.failed(execution, record, record.attempt)
                lanes.tables.file_straight(run)
                lanes.errors[record] = FAILURE
                lanes.ended.append(record)
            elif world.scheduler.chance(_IS_STUCK):
                world.happened("kept thread")
                lanes.tables.file_straight(run)
                self._run(
                    _Job(self._idle.pop(), record, iter(()), 0, None), record, execution, effect
                )
            else:
                effect.has_ended = True
                world.checker.handlers.finished(execution, record, effect)
                lanes.finished.append(record)
                if world.scheduler.chance(_IS_PAUSED):
                    break
        lanes.tables.end_straight(run)
        self._shell.wake()

    def _work(self, worker: int) -> None:
        lanes, chunk, rng = self._shell.core.lanes, self._chunks[worker], self._world.scheduler.rng
        self._world.touched.add(self._shell)
        if not chunk:
            lanes.take(rng.choice((1, 1, 4, 16)), chunk)
        if not chunk:
            self._steal(chunk)
        if chunk:
            entry = chunk.popleft()
            now_ms = self._world.scheduler.now_ms
            self._world.checker.circuit.taken(self._shell, next_of(entry), now_ms)
            if isinstance(entry, Lane):
                entry.begun = True
                records = islice(entry.turn(), rng.choice((1, 3, 99)))
                self._next(_Job(worker, entry, records, 0, None))
            else:
                self._next(_Job(worker, entry, iter((entry,)), 0, None))
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

    def _next(self, job: _Job) -> None:
        is_over = job.done > 0 and self._shell.core.lanes.is_over(0)
        record = None if is_over else next(job.records, None)
        if record is None:
            self._end(job.worker, job.entry, job.done)
            return
        execution = self._world.checker.handlers.started(self._shell, record)
        self._world.note(self._shell.title, "starts", record)
        effect = leave_behind(self._world, execution, record)
        self._run(job, record, execution, effect)

    def _run(self, job: _Job, record: Record, execution: Execution, effect: SimEffect) -> None:
        world, lanes = self._world, self._shell.core.lanes
        self._handlers[job.entry] = _Handler(job.worker, record, execution, record.attempt, effect)
        ending = _Ending(job, record, execution, effect)

        def finish() -> None:
            if world.kills(record):
                self._shell.fall(record)
            elif self._waits is not None and self._waits.record.tenure is not record.tenure:
                first, self._waits = self._waits, None
                self._finish_together(first, ending)
            elif self._waits is None and self._is_beside_another(record) and world.blocks.waits():
                self._waits = ending
                self._later(WAITS_MS, lambda: self._finish_alone(ending))
            else:
                self._has_finished(ending)

        cost_ms = world.cost_ms()
        lanes.work.spent.append((cost_ms / 1_000, 1, record.topic))
        self._later(cost_ms, finish)

    def _is_beside_another(self, record: Record) -> bool:
        """Whether another tenure has records for handlers, too."""
        partitions = self._shell.core.state.partitions.values()
        tenures = (it for partition in partitions for it in partition.tenures)
        return any(it.pending for it in tenures if it is not record.tenure)

    def _finish_alone(self, ending: _Ending) -> None:
        """It has waited long enough for another one, unless that has come."""
        if self._waits is ending:
            self._waits = None
            self._has_finished(ending)

    def _finish_together(self, *endings: _Ending) -> None:
        """End these handlers, of different tenures; as a block, if all end well."""
        finished = {it.record: it.effect for it in endings if self._has_finished(it)}
        if len(finished) == len(endings):
            self._world.happened("block")
            self._world.blocks.tie(finished)

    def _has_finished(self, ending: _Ending) -> bool:
        """End a handler; returns whether its record is finished."""
        job, record, execution, effect = ending
        world, lanes = self._world, self._shell.core.lanes
        effect.has_ended = True
        handler = self._handlers.pop(job.entry, None)
        if handler is None or handler.record is not record:
            self._end_late(job, record)
            return False
        if job.before is not None and job.before not in lanes.finished:
            check_over(job.before)
        if world.fails(record):
            world.checker.handlers.failed(execution, record, record.attempt)
            if isinstance(job.entry, Lane):
                job.entry.failure = (record, FAILURE)
            else:
                lanes.errors[record] = FAILURE
            self._end(job.worker, job.entry, job.done)
            return False
        world.checker.handlers.finished(execution, record, effect)
        world.note(self._shell.title, "finishes", record)
        is_open = effects.is_open(record)
        lanes.finished.append(record)
        following = job._replace(done=job.done + 1, before=record)
        self._later(0, lambda: self._next(following))
        return is_open

    def abandon(self, entry: Entry) -> bool:
        """Replace the worker whose handler is stuck in this entry.

        Returns:
            Whether there is such a handler.
        """
        handler = self._handlers.pop(entry, None)
        if handler is None:
            return False  # between two records: the worker ends its turn by itself
        handler.effect.has_ended = True  # nobody listens to what it does from here on
        self._world.happened("abandoned handler")
        self._world.note(self._shell.title, "abandons", handler.record)
        self._world.checker.handlers.failed(handler.execution, handler.record, handler.attempt)
        self._later(0, lambda: self._work(handler.worker))
        return True

    def _end_late(self, job: _Job, record: Record) -> None:
        """End an abandoned handler well after all: the executor checks whether it still counts."""
        self._world.note(self._shell.title, "finishes late", record)
        lanes, entry = self._shell.core.lanes, job.entry
        is_abandoned = entry.abandoned if isinstance(entry, Lane) else entry in lanes.abandoned
        if not is_abandoned:
            lanes.finished.append(record)
        elif self._shell.state is not None and record.key is not None:
            self._shell.state.put_late(record)
        if isinstance(entry, Lane):
            entry.done += job.done + (not is_abandoned)
        lanes.ended.append(entry)
        self._shell.wake()

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
