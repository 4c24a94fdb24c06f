"""The event-loop executors: one asyncio loop, thousands of records in flight.

In: lanes (under the lanes' lock, as many as there is room for). Out: finished records, ended and
failed lanes, and a wake-up for the member when it should look. A lane, or a batch, is one task. A
lane begins as soon as it is taken, so that nothing ready waits behind a slow record. Upholds I4
with `KeyLanes`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import Context
from types import FrameType

from coop_consumer.core.failure import failure_of
from coop_consumer.core.lane import Entry, Lane
from coop_consumer.core.lanes import READY_ONE_BY_ONE
from coop_consumer.core.record import Record
from coop_consumer.executors.batches import Batch, Errors, errors_by, errors_of, take_batch
from coop_consumer.executors.results import refuse_unfinished
from coop_consumer.executors.traced import in_async_batch_span, in_async_span
from coop_consumer.executors.workplace import OnLanes, Workplace


class _Task(asyncio.Task[None]):
    """A task that runs a batch, in a context of its own: handlers do not see others' variables.

    A task that is cancelled before its first step never runs, so `cancel` sees to its batch.

    Attributes:
        batch: What it runs.
        begun_s: When it was begun.
    """

    __slots__ = ("batch", "begun_s")
    batch: Batch
    begun_s: float

    def cancelled_by(self, task: asyncio.Task[None]) -> None:
        """Called when a cancelled task has ended; each executor has a class of its own."""
        raise NotImplementedError

    def cancel(self, msg: object = None) -> bool:
        """As of any task. The user's code may call this, when it cancels all tasks of the loop."""
        self.add_done_callback(self.cancelled_by)
        return super().cancel(msg)


class _Tasks(OnLanes):
    """Tasks of an event loop, a limited number at a time, and how they find work.

    Args:
        place: What it works with; as many tasks as workers.
        loop: Where handlers run; others may use it, too. It has to run until `stop` has returned.
    """

    waits = True

    def __init__(self, place: Workplace, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(place)
        self._width = place.workers
        self._looks = False  # a look at the lanes is due in the loop
        self._tasks: dict[Entry, _Task] = {}
        self._lost: set[asyncio.Task[None] | None] = set()  # cancelled: others have their room
        self._running = 0
        self._loop = loop
        self._loop_thread = 0
        self._stopped = threading.Event()
        self._new_task = self._task_type()

    def start(self) -> None:
        """Take what is ready."""
        self._look_soon()

    # ---- for the member ------------------------------------------------------------------------

    def offered(self) -> None:
        """Lanes have become ready: have the loop take them, if there is room."""
        if self._lanes.ready and self._running < self._width:
            self._look_soon()

    def runs_here(self) -> bool:
        """See `PoolExecutor`."""
        return threading.get_ident() == self._loop_thread

    def resize(self, workers: int) -> None:
        """Run this many tasks at a time from now on; none begins until few enough run."""
        self._width = self._lanes.work.workers = workers
        self._look_soon()

    def _running_s(self) -> float:
        now_s = self._clock()
        tasks = set(self._tasks.values()) - self._lost  # a batch is one task of many entries
        return sum(now_s - it.begun_s for it in tasks)

    def stack(self, entry: Entry) -> str:
        """What the task that runs it awaits, or does now; "" if none does."""
        task = self._tasks.get(entry)
        if task is None:
            return ""
        frame = sys._current_frames().get(self._loop_thread)
        if frame is not None and asyncio.current_task(self._loop) is task:
            return "".join(traceback.format_stack(frame))  # it blocks the loop
        awaiting = ((frame, frame.f_lineno) for frame in _awaiting(task.get_coro()))
        return "".join(traceback.StackSummary.extract(awaiting).format())

    def abandon(self, entry: Entry) -> None:
        """Cancel its task, and give its room to another. It must be marked as abandoned."""

        def cancel() -> None:
            task = self._tasks.get(entry)
            if task is not None and task not in self._lost:  # each entry of a batch may ask
                self._lost.add(task)
                self._running -= 1
                task.cancel()
                self._look()

        self._loop.call_soon_threadsafe(cancel)

    def stop(self) -> None:
        """Wait until what is ready or runs has ended."""
        self._stopping = True
        self._look_soon()
        self._stopped.wait()

    def fall(self, error: BaseException) -> None:
        """End the member: something raised outside of handlers, so tasks may be lost."""
        self._stopped.set()
        self._died(error)

    # ---- on the loop ---------------------------------------------------------------------------

    def _look_soon(self) -> None:
        if not self._looks:
            self._looks = True
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        """Look at the lanes. Otherwise an error here would reach nobody but the loop."""
        try:
            self._take_and_begin()
        except BaseException as error:
            self.fall(error)
            raise

    def _take_and_begin(self) -> None:
        """Settle what has ended, begin what is ready, and wake the member if it should look."""
        self._looks, self._loop_thread = False, threading.get_ident()
        lanes, begun = self._lanes, []
        with self._condition:
            lanes.settle()
            while lanes.ready and not self._paused and self._running < self._width:
                begun.append(self._take())
                self._running += 1
            is_worth_it = len(lanes.finished) >= self._wake_after
            is_idle = (self._paused or not lanes.ready) and bool(lanes.finished)
            wakes = bool(lanes.failed or lanes.drained) or is_worth_it or is_idle
        for batch in begun:
            self._begin(batch)
        if wakes:
            self._wake()
        if self._stopping and not self._running:
            self._stopped.set()

    def _task_type(self) -> type[_Task]:
        cancelled = self._cancelled

        class Task(_Task):
            __slots__ = ()

            def cancelled_by(self, task: asyncio.Task[None]) -> None:
                cancelled(task)

        return Task

    def _begin(self, batch: Batch) -> None:
        context = Context()
        task = self._new_task(self._run(batch, context), loop=self._loop, context=context)
        task.batch, task.begun_s = batch, self._clock()
        self._tasks.update(dict.fromkeys(batch.entries, task))

    async def _run(self, batch: Batch, context: Context) -> None:
        try:
            await self._work_off(batch, context)
            self._has_ended(batch, asyncio.current_task())
        except BaseException as error:
            self.fall(error)
            raise

    def _has_ended(self, batch: Batch, task: asyncio.Task[None] | None) -> None:
        for entry in batch.entries:
            del self._tasks[entry]
        if task in self._lost:
            self._lost.discard(task)
        else:
            self._running -= 1
        if not self._looks:
            self._looks = True
            self._loop.call_soon(self._look, context=Context())

    def _cancelled(self, task: asyncio.Task[None]) -> None:
        """A cancelled task has ended. If it never began, fail its batch; else it did so itself."""
        assert isinstance(task, _Task)
        batch = task.batch
        if self._tasks.get(batch.entries[0]) is task:
            self._fail(batch, asyncio.CancelledError("before its first step"))
            self._has_ended(batch, task)

    @abstractmethod
    def _take(self) -> Batch:
        """Take work for one task, under the lock."""

    @abstractmethod
    async def _work_off(self, batch: Batch, context: Context) -> None:
        """Do what was taken, in this context."""

    @abstractmethod
    def _fail(self, batch: Batch, error: BaseException) -> None:
        """Fail what was taken and never began."""


class EventLoopExecutor(_Tasks):
    """Runs lanes record by record; a task is at one lane.

    Args:
        place: What it works with; as many tasks as workers.
        process: The handler, a coroutine function.
        loop: Where it runs.
    """

    ready_min = READY_ONE_BY_ONE

    def __init__(
        self,
        place: Workplace,
        process: Callable[[Record], Awaitable[object]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(place, loop)
        self._process = in_async_span(process, place.spans)

    def _take(self) -> Batch:
        return take_batch(self._lanes, 1)

    async def _work_off(self, batch: Batch, context: Context) -> None:
        """Process a lane's turn, until its time is over, a record fails, or a pause.

        If a handler leaves variables in the context, the next record begins in another one.
        """
        (lane,) = batch.entries
        assert isinstance(lane, Lane)
        process, lanes, done = self._process, self._lanes, 0
        finished = lanes.finished.append
        begun_s = self._clock()
        for record in lane.turn():
            try:
                result = await process(record)
                if result is not None:
                    refuse_unfinished(result)
            # Whatever a handler raises, its key waits. Else sys.exit() would end the loop, and a
            # cancellation by the user's code would end this task.
            except BaseException as error:  # noqa: BLE001
                self._end_fork(error)
                failure = failure_of(error)
                if not lane.abandoned:
                    lane.failure = (record, failure)
                break
            if lane.abandoned:
                break
            finished(record)
            done += 1
            if self._paused or context or lanes.is_over(self._clock() - begun_s):
                break
        lane.done += done
        lanes.work.spent.append((self._clock() - begun_s, done or 1, lane.tenure.tp.topic))
        lanes.ended.append(lane)

    def _fail(self, batch: Batch, error: BaseException) -> None:
        (lane,) = batch.entries
        assert isinstance(lane, Lane)
        record = next(lane.turn(), None)  # None: it was given up meanwhile
        if record is not None and not lane.abandoned:
            lane.failure = (record, failure_of(error))
        self._lanes.ended.append(lane)


class BatchEventLoopExecutor(_Tasks):
    """Runs batches of one record of each of several lanes; a task is at one batch.

    Args:
        place: What it works with; as many tasks as workers.
        process: The handler of a batch, a coroutine function.
        loop: Where it runs.
        records_max: How large a batch may be.
    """

    def __init__(
        self,
        place: Workplace,
        process: Callable[[Sequence[Record]], Awaitable[object]],
        loop: asyncio.AbstractEventLoop,
        records_max: int,
    ) -> None:
        super().__init__(place, loop)
        self._process = process
        self._outcome = in_async_batch_span(self._processed, place.spans)
        self._records_max = records_max

    def _take(self) -> Batch:
        return take_batch(self._lanes, self._records_max)

    async def _work_off(self, batch: Batch, context: Context) -> None:
        del context  # a batch has one to itself
        lanes, begun_s = self._lanes, self._clock()
        errors = await self._outcome(batch.records)
        lanes.work.spent.append((self._clock() - begun_s, len(batch.records), batch.topic))
        batch.conclude(lanes, errors)

    async def _processed(self, records: Sequence[Record]) -> Errors:
        """Which records have failed, once the handler was called."""
        given = list(records)
        try:
            return errors_of(records, given, await self._process(given))
        except BaseException as error:  # noqa: BLE001 - as with single records
            self._end_fork(error)
            return errors_by(records, error)

    def _fail(self, batch: Batch, error: BaseException) -> None:
        batch.conclude(self._lanes, errors_by(batch.records, error))


def _awaiting(coroutine: object) -> Iterator[FrameType]:
    """The frames of a coroutine and of what it awaits, the outermost first."""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        yield frame
        coroutine = getattr(coroutine, "cr_await", None)
