"""The thread executor: many threads share the ready lanes of one member.

In: lanes (under the lanes' lock, once a chunk). Out: finished records, ended and failed lanes, and
a wake-up for the member when it should look. A thread takes a chunk of lanes worth at most 2 ms of
the handler's recent cost, works it off from the left, and when nothing is ready takes back from the
right of another's chunk: nothing ready waits behind a slow record. Upholds I4 with `KeyLanes`.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from coop_consumer.core.lanes import KeyLanes, Lane
from coop_consumer.core.record import Record
from coop_consumer.executors.results import refuse_unfinished

CHUNK_S = 0.002
"""A chunk's worth of work: long enough to make the lock cheap, short enough to be fair."""
CHUNK_RECORDS_MAX = 1_024
_COST_FADES = 0.9


@dataclass(slots=True, eq=False)
class _Seat:
    """A worker's place: its thread, the lane it runs, and what it has taken to run next."""

    thread: threading.Thread | None = None
    lane: Lane | None = None
    chunk: deque[Lane] = field(default_factory=deque)


class ThreadExecutor:
    """Runs lanes on a fixed number of threads.

    Args:
        lanes: The member's lanes. Their lock must be `condition`.
        condition: Guards the lanes; idle threads wait on it.
        process: The handler.
        workers: How many threads.
        wake: Called without the lock when the member should take in what has ended.
        wake_after: So many finished records are worth a wake-up.
        name: Names the threads.
    """

    def __init__(
        self,
        lanes: KeyLanes,
        condition: threading.Condition,
        process: Callable[[Record], object],
        *,
        workers: int,
        wake: Callable[[], None],
        wake_after: int,
        name: str,
    ) -> None:
        self._lanes = lanes
        self._condition = condition
        self._process = process
        self._wake = wake
        self._wake_after = wake_after
        self._idle = 0
        self._stopping = False
        self._paused = False
        self._cost_s = CHUNK_S  # of one record, by its recent high values; at first: one a chunk
        self._name = name
        self._width = workers
        self._seats: list[_Seat] = []

    def start(self) -> None:
        """Start the threads."""
        for _ in range(self._width):
            self._seat_worker()

    def _seat_worker(self) -> None:
        seat = _Seat()
        name = f"{self._name}-{len(self._seats)}"
        seat.thread = threading.Thread(target=self._work, args=(seat,), name=name, daemon=True)
        self._seats.append(seat)
        seat.thread.start()

    def stack(self, lane: Lane) -> str:
        """What the thread that runs a lane is doing now; "" if none does."""
        thread = next((seat.thread for seat in self._seats if seat.lane is lane), None)
        frame = sys._current_frames().get(thread.ident or 0) if thread else None
        return "".join(traceback.format_stack(frame)) if frame else ""

    def abandon(self, lane: Lane) -> None:
        """Its thread is lost to a handler that may never end: another one is started.

        The lane must be marked as abandoned. Its thread ends once the handler does. No more threads
        than there are workers are replaced: handlers that hang one after the other would else fill
        the process with them.
        """
        with self._condition:
            is_lost = any(seat.lane is lane for seat in self._seats)
            if is_lost and len(self._seats) < 2 * self._width and not self._stopping:
                self._seat_worker()

    def serve(self, lanes: KeyLanes, wake: Callable[[], None]) -> None:
        """Go on with the lanes of the member's next run, under the same lock, once one is over."""
        with self._condition:
            self._lanes, self._wake = lanes, wake
            self._condition.notify_all()

    def offered(self) -> None:
        """Lanes have become ready: wake as many idle threads as they are worth."""
        if self._idle and self._lanes.ready:
            with self._condition:
                self._wake_threads()

    def _wake_threads(self) -> None:
        """Cheap handlers need few threads: waking one costs more than many of their records."""
        chunk = max(1.0, min(CHUNK_S / self._cost_s, CHUNK_RECORDS_MAX))
        self._condition.notify(min(self._idle, int(len(self._lanes.ready) / chunk) + 1))

    def pause(self, paused: bool) -> None:
        """Start no further chunk (the group may have given our ranges away), or go on."""
        if paused != self._paused:
            with self._condition:
                self._paused = paused
                self._condition.notify_all()

    def stop(self) -> None:
        """End the threads once their running records have ended; returns when they have."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        for seat in list(self._seats):
            if seat.thread is not None and not (seat.lane is not None and seat.lane.abandoned):
                seat.thread.join()

    def _work(self, seat: _Seat) -> None:
        chunk, is_alone = seat.chunk, False
        while not is_alone and self._next_chunk(chunk):
            started, count = perf_counter(), 0
            while chunk:
                try:
                    lane = chunk.popleft()
                except IndexError:  # another thread or a revocation took it back
                    break
                seat.lane = lane
                count += self._run(lane)
                is_alone |= lane.abandoned  # another has our place
                seat.lane = None
            if count:
                cost_s = (perf_counter() - started) / count
                self._cost_s = max(cost_s, self._cost_s * _COST_FADES, 1e-7)
            lanes = self._lanes
            if len(lanes.finished) >= self._wake_after:
                self._wake()
        with self._condition:
            self._seats.remove(seat)

    def _run(self, lane: Lane) -> int:
        """Process a lane's records, those that are appended meanwhile too, until one fails."""
        process, lanes, done = self._process, self._lanes, 0
        finished = lanes.finished.append
        lane.chunk = None
        for record in lane.records:
            try:
                result = process(record)
                if result is not None:
                    refuse_unfinished(result)
            # Whatever a handler raises, its key waits. sys.exit() is no exception to that: it would
            # end this thread alone, and leave the key in nobody's hands.
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
        return done or 1

    def _next_chunk(self, chunk: deque[Lane]) -> bool:
        """Wait for work. False: the executor stops."""
        with self._condition:
            while True:
                lanes = self._lanes
                lanes.settle()
                if lanes.failed or lanes.drained:
                    self._wake()
                if lanes.ready and not self._paused:
                    share = len(lanes.ready) // self._width
                    limit = min(CHUNK_S / self._cost_s, CHUNK_RECORDS_MAX, share)
                    lanes.take(max(1, int(limit)), chunk)
                    if lanes.ready and self._idle:
                        self._wake_threads()
                    return True
                if not self._paused and self._steal(chunk):
                    return True
                if self._stopping:
                    return False
                if lanes.finished:
                    self._wake()  # nothing left to do: what is finished may be all there is
                self._idle += 1
                self._condition.wait()
                self._idle -= 1

    def _steal(self, chunk: deque[Lane]) -> bool:
        for other in self._seats:
            try:
                lane = other.chunk.pop()
            except IndexError:
                continue
            lane.chunk = chunk
            chunk.append(lane)
            return True
        return False
