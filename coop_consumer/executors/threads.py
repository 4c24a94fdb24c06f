"""The thread executors: many threads share the ready lanes of one member.

In: lanes (under the lanes' lock, once a chunk or batch). Out: finished records, ended and failed
lanes, and a wake-up for the member when it should look. For a handler of records a thread takes a
chunk of lanes worth at most 2 ms of the handler's recent cost, works it off from the left, and when
nothing is ready takes back from the right of another's chunk. Where one record is a chunk it takes
the next without the lock. Quick handlers get by with few threads, and their chunks are left alone;
mostly the member's own thread is enough. But one idle thread is on guard, and looks every 5 ms who
has been at a chunk for longer, so that nothing waits behind a slow record for long, nor the member
behind its thread. For a handler of batches a thread takes a batch.
Upholds I4 with `KeyLanes`.
"""

from __future__ import annotations

import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from math import ceil

from coop_consumer.core.failure import Failure, failure_of
from coop_consumer.core.lanes import READY_ONE_BY_ONE, Entry, Lane, Straight
from coop_consumer.core.record import Record
from coop_consumer.executors.batches import Batch, errors_by, errors_of, take_batch
from coop_consumer.executors.results import refuse_unfinished
from coop_consumer.executors.workplace import ConditionExecutor, Workplace

CHUNK_S = 0.002
"""A chunk's worth of work: long enough to make the lock cheap, short enough to be fair."""
CHUNK_RECORDS_MAX = 1_024
QUICK_S = 0.0005
"""So much work is not shared out: another thread, and its turn at the interpreter, cost as much."""
_BACK_S = 0.005
"""Who is at quick work is back before; if not, it was not so quick, and others take it back."""
_HELP_S = 0.005
"""So long the member's thread is at quick work in one go; then it sees to the member."""
_WATCH_S = 0.1
"""So long after that somebody watches for it to come again: to be called would cost as much."""
_COST_FADES = 0.9
_LOOK_S, _LOOK_RECORDS_MAX = 0.005, 16
"""So often a turn's clock is looked at, by recent cost; if that rises, after so many records."""
_ALONE_MAX = 32
"""So many slow records one after the other without the lock; then what they cost is looked at."""


@dataclass(slots=True, eq=False)
class Seat:
    """A worker's place: its thread, what it runs, and what it has taken to run next."""

    thread: threading.Thread | None = None
    entry: Entry | None = None
    batch: Batch = field(default_factory=Batch)
    chunk: deque[Entry] = field(default_factory=deque)
    straight: Straight | None = None  # or what the member's thread runs without a lane
    taken_s: float = 0.0  # when that was
    is_lost: bool = False  # nobody listens to its handler any more, and another has its place
    hand_over: Callable[[], None] | None = None  # of the member's thread: has another go on

    def runs(self, entry: Entry) -> bool:
        """Whether its handler is at this."""
        return self.entry is entry or entry in self.batch.entries


class Threads(ConditionExecutor, ABC):
    """A fixed number of threads, and how they wait for work.

    Handlers run in contexts: what one leaves there (`ContextVar.set`) no other one finds. A context
    that stays empty serves for the next record, too, so this costs 8 ns a record.
    """

    _new_context: Callable[[], Context] = staticmethod(Context)

    def __init__(self, place: Workplace) -> None:
        super().__init__(place)
        self._idle = 0
        self._called = 0  # of these, who were told of work and are not back yet
        self._guarded = False  # an idle thread looks after what the others have taken
        self._needs_guard = False  # who is told of work next is to wait a moment, and then look
        self._taken_s = 0.0  # when a thread took work last
        self._cost_s = CHUNK_S  # of a record, or a batch, by recent high values; at first: much
        self._width = place.workers
        self._seats: list[Seat] = []
        self._helper: Seat | None = None  # the member's own thread, while it is at work
        self._helped_s = 0.0  # when it was last

    def start(self) -> None:
        """Start the threads."""
        for _ in range(self._width):
            self._seat_worker()

    def resize(self, workers: int) -> None:
        """Let so many threads work from now on; a thread too many ends after what it has taken."""
        with self._condition:
            self._width = workers
            for _ in range(workers - self._at_work()):
                self._seat_worker()
            self._condition.notify_all()

    def _at_work(self) -> int:
        return sum(not (seat.is_lost or seat is self._helper) for seat in self._seats)

    def _are_few(self) -> bool:
        """Whether no more threads are at work than should be."""
        return len(self._seats) <= self._width or self._at_work() <= self._width

    def _seat_worker(self) -> None:
        seat = Seat()
        name = self._new_name()
        work = self._work, seat
        seat.thread = threading.Thread(target=self._live, args=work, name=name, daemon=True)
        self._seats.append(seat)
        seat.thread.start()

    def _new_name(self) -> str:
        self._threads += 1
        return f"{self._name}-{self._threads}"

    def stack(self, entry: Entry) -> str:
        """What the thread that runs it is doing now; "" if none does."""
        thread = next((seat.thread for seat in self._seats if seat.runs(entry)), None)
        frame = sys._current_frames().get(thread.ident or 0) if thread else None
        return "".join(traceback.format_stack(frame)) if frame else ""

    def abandon(self, entry: Entry) -> None:
        """Its thread is lost to a handler that may never end: another one is started.

        It must be marked as abandoned. Its thread ends once the handler does, if there are
        enough others. No more threads than there are workers are replaced: handlers that hang one
        after the other would else fill the process with them.
        """
        with self._condition:
            lost = next((seat for seat in self._seats if seat.runs(entry)), None)
            if lost is None or lost.is_lost:
                return  # it has ended; or its place was filled for another one of its batch
            lost.is_lost = True
            if len(self._seats) < 2 * self._width and not self._stopping:
                self._seat_worker()

    def runs_here(self) -> bool:
        """See `PoolExecutor`."""
        return any(seat.thread is threading.current_thread() for seat in list(self._seats))

    @property
    def waits(self) -> bool:
        """Whether handlers wait for something, and want to go on at once when it has come."""
        return not self._is_quick()

    def offered(self) -> None:
        """Something has become ready: wake as many idle threads as it is worth."""
        if self._idle and self._lanes.startable:
            with self._condition:
                self._wake_threads()

    # ---- the member's thread works, too --------------------------------------------------------

    def help(self, hand_over: Callable[[], None]) -> bool:
        """Work off what is ready on the member's own thread, if it is quick, for a moment.

        For quick work another thread is a waste: what both do, they do in turns, and each turn
        costs more than the work. If a handler is not back soon, somebody else becomes the member's
        thread, and this one a worker.

        Args:
            hand_over: Has another thread go on with the member; called by a worker's thread.

        Returns:
            Whether the caller is still the member's thread; if not, all workers have ended.
        """
        lanes = self._lanes
        if not lanes.startable or not self._is_quick():
            return True
        seat = Seat(threading.current_thread(), hand_over=hand_over)
        until_s = self._clock() + _HELP_S
        while self._is_quick() and self._begins_to_help(seat):
            self._work_off(seat)
            if not self._is_back(seat):
                threading.current_thread().name = self._new_name()
                self._work(seat)
                return False
            if self._clock() > until_s:
                break
        if lanes.finished:
            self._wake()
        return True

    def _begins_to_help(self, seat: Seat) -> bool:
        with self._condition:
            self._lanes.settle()
            are_enough = len(self._seats) - self._idle >= self._width
            if are_enough or self._stopping or not self._takes(seat, self._take_to_help):
                return False
            self._seats.append(seat)
            self._helper = seat
            self._helped_s = self._taken_s = seat.taken_s = self._clock()
            if not (self._guarded or self._needs_guard):
                self._needs_guard = True
                self._called += 1
                self._condition.notify()
            return True

    def _is_back(self, seat: Seat) -> bool:
        """Whether it is the member's thread still; then it is a worker's no more."""
        with self._condition:
            if self._helper is not seat:
                return False
            self._helper = None
            self._seats.remove(seat)
            return True

    def _take_to_help(self, seat: Seat) -> bool:
        """Take work for the member's thread, under the lock. False: there is none."""
        return self._take(seat)

    def _lay_open(self, helper: Seat) -> None:
        """Let the others have what the member's thread has taken and not begun."""

    def _replace_helper(self) -> None:
        """If the member's thread is kept by a handler, it is a worker's thread from now on."""
        helper = self._helper
        if helper is not None and self._clock() - helper.taken_s > _BACK_S:
            self._helper = None
            self._cost_s = max(self._cost_s, _BACK_S)
            self._lay_open(helper)
            assert helper.hand_over is not None, "only the member's thread helps"
            helper.hand_over()

    # ---- who works -----------------------------------------------------------------------------

    def _wake_threads(self) -> None:
        """Quick handlers need few threads, and those at work may be enough.

        Who was called comes for it: called twice, threads would come in crowds and find nothing.
        Where those at work may be enough, one is called to see whether they were.
        """
        worth = ceil(self._lanes.startable / self._share_of_one()) - self._called
        if self._is_quick() and self._clock() - self._taken_s < _BACK_S:
            at_work = len(self._seats) - self._idle
            if 0 < worth <= at_work and not self._guarded and self._idle > self._called:
                self._needs_guard, worth = True, at_work + 1
            worth -= at_work
        worth = min(worth, self._idle - self._called)
        if worth > 0:
            self._called += worth
            self._condition.notify(worth)

    def _is_left(self) -> bool:
        """Whether a thread has taken more than it is at."""
        return False

    @abstractmethod
    def _is_quick(self) -> bool:
        """Whether a thread that has taken work is back at once."""

    def stop(self) -> None:
        """End the threads once their running records have ended; returns when they have."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        for seat in list(self._seats):
            if seat.thread is not None and not seat.is_lost and seat is not self._helper:
                seat.thread.join()

    def _work(self, seat: Seat) -> None:
        while self._next(seat):
            self._work_off(seat)
            if len(self._lanes.finished) >= self._wake_after:
                self._wake()
            if seat.is_lost and self._is_replaced(seat):
                return

    def _is_replaced(self, seat: Seat) -> bool:
        """Whether there are enough others; if not, one that has come back goes on."""
        with self._condition:
            seat.is_lost = len(self._seats) > self._width
            if seat.is_lost:
                self._seats.remove(seat)
            return seat.is_lost

    def _next(self, seat: Seat) -> bool:
        """Wait for work. False: there is none any more for this thread."""
        with self._condition:
            while True:
                self._replace_helper()
                if not self._are_few():
                    break
                lanes = self._lanes
                lanes.settle()
                if lanes.failed or lanes.drained:
                    self._wake()
                if self._takes(seat, self._take):
                    self._taken_s = seat.taken_s = self._clock()
                    if self._idle:
                        if lanes.startable:
                            self._wake_threads()
                        elif len(seat.chunk) > 1 and not self._guarded:
                            self._condition.notify()
                    return True
                if self._stopping:
                    break
                if lanes.finished:
                    self._wake()  # nothing left to do: what is finished may be all there is
                if not self._wait():
                    return False
            self._seats.remove(seat)
        self._wake()
        return False

    def _wait(self) -> bool:
        """Wait to be told of work. One looks by itself while others have taken some.

        Returns:
            Whether there is time to look for work again.
        """
        self._idle += 1
        # The clock may have jumped since the look at the helper. So a helper is always guarded.
        is_helped = self._helper is not None or self._clock() - self._helped_s < _WATCH_S
        self._await_call(guards=not self._guarded and (is_helped or self._is_left()))
        if self._needs_guard and not self._stopping:
            self._needs_guard = False
            self._await_call(guards=True)
        self._idle -= 1
        return True

    def _await_call(self, *, guards: bool) -> None:
        self._guarded |= guards
        is_called = self._condition.wait(_BACK_S if guards else None)
        # (Who looks by itself may have been called in the same moment: then nobody counts as such.)
        self._called = max(0, self._called - 1) if is_called else 0
        if guards:
            self._guarded = False

    def _takes(self, seat: Seat, take: Callable[[Seat], bool]) -> bool:
        """Whether there is something to do now for this thread, which has then taken it."""
        return not self._paused and self._helper is None and take(seat)

    @abstractmethod
    def _share_of_one(self) -> float:
        """How many ready lanes are work for one thread."""

    @abstractmethod
    def _take(self, seat: Seat) -> bool:
        """Take work, under the lock. False: there is none."""

    @abstractmethod
    def _work_off(self, seat: Seat) -> None:
        """Do what was taken."""


class ThreadExecutor(Threads):
    """Runs lanes record by record.

    Args:
        place: What it works with; as many threads as workers.
        process: The handler of a record.
    """

    ready_min = READY_ONE_BY_ONE

    def __init__(self, place: Workplace, process: Callable[[Record], object]) -> None:
        super().__init__(place)
        self._process = process

    def _share_of_one(self) -> float:
        return max(1.0, min(CHUNK_S / self._cost_s, CHUNK_RECORDS_MAX))

    def _is_quick(self) -> bool:
        return self._cost_s < QUICK_S / 10

    def _is_left(self) -> bool:
        return any(seat.chunk for seat in self._seats)

    def _is_slow(self) -> bool:
        """Whether a chunk is one record, and others would queue up for the lock meanwhile."""
        return self._cost_s * 2 > CHUNK_S and len(self._seats) > 1

    def help(self, hand_over: Callable[[], None]) -> bool:
        """The same, and quick records are not even filed before."""
        is_members = super().help(hand_over)
        if is_members:
            self._lanes.goes_straight = self._is_quick()
        return is_members

    def _take_to_help(self, seat: Seat) -> bool:
        if not self._lanes.fresh:
            return self._take(seat)
        seat.straight = self._lanes.take_straight(int(self._share_of_one()))
        return True

    def _lay_open(self, helper: Seat) -> None:
        if helper.straight is not None:
            helper.entry = self._lanes.file_straight(helper.straight)
            helper.straight = None

    def _take(self, seat: Seat) -> bool:
        lanes = self._lanes
        if lanes.startable:
            share = max(lanes.startable / self._width, QUICK_S / self._cost_s)
            if lanes.take(max(1, int(min(self._share_of_one(), share))), seat.chunk):
                return True
        return self._steal(seat.chunk)

    def _steal(self, chunk: deque[Entry]) -> bool:
        late_s = self._clock() - (_BACK_S if self._is_quick() else 0.0)
        for other in self._seats:
            if other.chunk and other.taken_s <= late_s:
                with suppress(IndexError):
                    chunk.append(other.chunk.pop())
                    return True
        return False

    def _work_off(self, seat: Seat) -> None:
        started = self._clock()
        if seat.straight is not None:
            count = self._run_straight(seat, seat.straight)
        else:
            count = self._run_chunk(seat)
        if self._is_slow():
            count += self._run_on(seat)
        seat.entry = None
        if seat.chunk:  # it is paused
            with self._condition:
                self._lanes.put_back(seat.chunk)
        if count:
            cost_s = (self._clock() - started) / count
            self._cost_s = max(cost_s, self._cost_s * _COST_FADES, 1e-7)

    def _run_on(self, seat: Seat) -> int:
        """Take one after the other without the lock, while nothing has to be settled; how many."""
        lanes, count, context = self._lanes, 0, self._new_context()
        while count < _ALONE_MAX and self._are_few() and not (self._paused or seat.is_lost):
            last = seat.entry
            if last is None or lanes.errors or lanes.is_followed(last):
                break
            seat.entry = entry = lanes.begin_next()
            if entry is None:
                break
            count += context.run(self._run_entry, entry, context)
            if context:
                context = self._new_context()
            if len(lanes.finished) >= self._wake_after:
                self._wake()
        return count

    def _run_straight(self, seat: Seat, run: Straight) -> int:
        """Process what the member's thread took, until a pause or failure; how many records."""
        lanes, failure, goes_on = self._lanes, None, True
        while goes_on and failure is None and not self._paused:
            context = self._new_context()
            failure = context.run(self._run_some, run, context)
            goes_on = bool(context)
        with self._condition:
            if failure is not None:
                self._lay_open(seat)
            if seat.straight is not None:  # nobody has filed it
                lanes.end_straight(run)
                seat.straight = None
            elif run.records:
                record = run.records[-1]
                if failure is not None:
                    lanes.errors[record] = failure
                lanes.ended.append(record)
        return len(run.records)

    def _run_some(self, run: Straight, context: Context) -> Failure | None:
        """Process records in this context, until a handler leaves something there, or raises."""
        process, abandoned = self._process, self._lanes.abandoned
        finished = self._lanes.finished.append
        for record in run:
            try:
                result = process(record)
                if result is not None:
                    refuse_unfinished(result)
            except BaseException as error:  # noqa: BLE001 - as with lanes
                self._end_fork(error)
                return failure_of(error)
            if not (abandoned and record in abandoned):
                finished(record)
            if self._paused or context:
                break
        return None

    def _run_chunk(self, seat: Seat) -> int:
        """Process what was taken, until a pause; returns how many records that were."""
        count = 0
        while seat.chunk and not self._paused:
            context = self._new_context()
            count += context.run(self._run_entries, seat, context)
        return count

    def _run_entries(self, seat: Seat, context: Context) -> int:
        """Process what was taken, in this context, until a handler leaves something there."""
        chunk, count = seat.chunk, 0
        while chunk and not self._paused:
            try:
                seat.entry = entry = chunk.popleft()
            except IndexError:  # another thread or a revocation took it back
                break
            count += self._run_entry(entry, context)
            if context:
                break
        return count

    def _run_entry(self, entry: Entry, context: Context) -> int:
        return self._run(entry, context) if isinstance(entry, Lane) else self._run_single(entry)

    def _run_single(self, record: Record) -> int:
        """Process a record that has no lane; returns that it is one."""
        lanes = self._lanes
        try:
            result = self._process(record)
            if result is not None:
                refuse_unfinished(result)
        except BaseException as error:  # noqa: BLE001 - as with lanes
            self._end_fork(error)
            lanes.errors[record] = failure_of(error)
        else:
            if not (lanes.abandoned and record in lanes.abandoned):
                lanes.finished.append(record)
        lanes.ended.append(record)
        return 1

    def _run(self, lane: Lane, context: Context) -> int:
        """Process a lane's turn, until its time is over, a record fails, or a pause.

        Or until a handler leaves variables in the context: the next record begins in another.
        """
        process, lanes, done = self._process, self._lanes, 0
        finished = lanes.finished.append
        lane.begun = True
        clock, begun_s = self._clock, self._clock()
        step = max(1, min(int(_LOOK_S / self._cost_s), _LOOK_RECORDS_MAX))
        look_at = step
        for record in lane.turn():
            try:
                result = process(record)
                if result is not None:
                    refuse_unfinished(result)
            # Whatever a handler raises, its key waits. sys.exit() is no exception to that: it would
            # end this thread alone, and leave the key in nobody's hands.
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
            if self._paused or context:
                break
            if done >= look_at:
                if lanes.is_over(clock() - begun_s):
                    break
                look_at += step
        lane.done += done
        lanes.ended.append(lane)
        return done or 1


class BatchThreadExecutor(Threads):
    """Runs batches of one record of each of several lanes.

    Args:
        place: What it works with; as many threads as workers.
        process: The handler of a batch.
        records_max: How large a batch may be.
    """

    def __init__(
        self, place: Workplace, process: Callable[[Sequence[Record]], object], records_max: int
    ) -> None:
        super().__init__(place)
        self._process = process
        self._records_max = records_max

    def _share_of_one(self) -> float:
        return self._records_max

    def _is_quick(self) -> bool:
        return self._cost_s < QUICK_S

    def _take(self, seat: Seat) -> bool:
        seat.batch = take_batch(self._lanes, self._records_max)
        return bool(seat.batch.entries)

    def _work_off(self, seat: Seat) -> None:
        lanes, batch, started = self._lanes, seat.batch, self._clock()
        given = list(batch.records)
        try:
            result = self._new_context().run(self._process, given)
            errors = errors_of(batch.records, given, result)
        except BaseException as error:  # noqa: BLE001 - as with single records
            self._end_fork(error)
            errors = errors_by(batch.records, error)
        batch.conclude(lanes, errors)
        seat.batch = Batch()
        self._cost_s = max(self._clock() - started, self._cost_s * _COST_FADES)
