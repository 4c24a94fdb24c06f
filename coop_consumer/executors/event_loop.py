"""The event-loop executor: one asyncio loop, thousands of records in flight.

In: lanes (under the lanes' lock, as many as there is room for). Out: finished records, ended and
failed lanes, and a wake-up for the member when it should look. A lane is one task from its first
record to its last; a lane taken is begun, so nothing ready waits behind a slow record. Upholds I4
with `KeyLanes`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType

from coop_consumer.core.lanes import KeyLanes, Lane
from coop_consumer.core.record import Record
from coop_consumer.executors.results import refuse_unfinished


class EventLoopExecutor:
    """Runs lanes as tasks of an event loop.

    Args:
        lanes: The member's lanes. Their lock must be `condition`.
        condition: Guards the lanes.
        process: The handler, a coroutine function.
        loop: Where it runs; others may use it, too. It has to run until `stop` has returned.
        workers: How many records may be in flight.
        wake: Called without the lock when the member should take in what has ended.
        wake_after: So many finished records are worth a wake-up.
    """

    def __init__(
        self,
        lanes: KeyLanes,
        condition: threading.Condition,
        process: Callable[[Record], Awaitable[object]],
        loop: asyncio.AbstractEventLoop,
        *,
        workers: int,
        wake: Callable[[], None],
        wake_after: int,
    ) -> None:
        self._lanes = lanes
        self._condition = condition
        self._process = process
        self._width = workers
        self._wake = wake
        self._wake_after = wake_after
        self._paused = False
        self._stopping = False
        self._looks = False  # a look at the lanes is due in the loop
        self._tasks: dict[Lane, asyncio.Task[None]] = {}
        self._loop = loop
        self._loop_thread = 0
        self._stopped = threading.Event()

    def start(self) -> None:
        """Take what is ready."""
        self._look_soon()

    # ---- for the member ------------------------------------------------------------------------

    def offered(self) -> None:
        """Lanes have become ready: have the loop take them, if there is room."""
        if self._lanes.ready and len(self._tasks) < self._width:
            self._look_soon()

    def pause(self, paused: bool) -> None:
        """Start no further lane (the group may have given our ranges away), or go on."""
        if paused != self._paused:
            self._paused = paused
            self._look_soon()

    def serve(self, lanes: KeyLanes, wake: Callable[[], None]) -> None:
        """Go on with the lanes of the member's next run, under the same lock, once one is over."""
        with self._condition:
            self._lanes, self._wake = lanes, wake
        self._look_soon()

    def stack(self, lane: Lane) -> str:
        """What the task that runs a lane awaits, or does now; "" if none runs it."""
        task = self._tasks.get(lane)
        if task is None:
            return ""
        frame = sys._current_frames().get(self._loop_thread)
        if frame is not None and asyncio.current_task(self._loop) is task:
            return "".join(traceback.format_stack(frame))  # it blocks the loop
        awaiting = ((frame, frame.f_lineno) for frame in _awaiting(task.get_coro()))
        return "".join(traceback.StackSummary.extract(awaiting).format())

    def abandon(self, lane: Lane) -> None:
        """Cancel its task, and give its room to another. The lane must be marked as abandoned."""

        def cancel() -> None:
            task = self._tasks.pop(lane, None)
            if task is not None:
                task.cancel()
                self._look()

        self._loop.call_soon_threadsafe(cancel)

    def stop(self) -> None:
        """Wait until what is ready or runs has ended."""
        self._stopping = True
        self._look_soon()
        self._stopped.wait()

    # ---- on the loop ---------------------------------------------------------------------------

    def _look_soon(self) -> None:
        if not self._looks:
            self._looks = True
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        """Settle what has ended, begin what is ready, and wake the member if it should look."""
        self._looks, self._loop_thread = False, threading.get_ident()
        lanes, begun = self._lanes, deque[Lane]()
        with self._condition:
            lanes.settle()
            while lanes.ready and not self._paused and len(self._tasks) + len(begun) < self._width:
                lanes.take(1, begun)
            for lane in begun:
                lane.chunk = None
            is_worth_it = len(lanes.finished) >= self._wake_after
            is_idle = not lanes.ready and bool(lanes.finished)
            wakes = bool(lanes.failed or lanes.drained) or is_worth_it or is_idle
        for lane in begun:
            self._tasks[lane] = self._loop.create_task(self._run(lane))
        if wakes:
            self._wake()
        if self._stopping and not self._tasks:
            self._stopped.set()

    async def _run(self, lane: Lane) -> None:
        """Process a lane's records, those that are appended meanwhile too, until one fails."""
        process, lanes, done = self._process, self._lanes, 0
        finished = lanes.finished.append
        for record in lane.records:
            try:
                result = await process(record)
                if result is not None:
                    refuse_unfinished(result)
            # Whatever a handler raises, its key waits: sys.exit() would end the loop, and a
            # cancellation that is not ours this task.
            except BaseException as error:  # noqa: BLE001
                if not lane.abandoned:
                    lane.failure = (record, error)
                break
            if lane.abandoned:
                break
            finished(record)
            done += 1
        lane.done = done
        lanes.ended.append(lane)
        self._tasks.pop(lane, None)
        if not self._looks:
            self._looks = True
            self._loop.call_soon(self._look)


def _awaiting(coroutine: object) -> Iterator[FrameType]:
    """The frames of a coroutine and of what it awaits, the outermost first."""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        yield frame
        coroutine = getattr(coroutine, "cr_await", None)
