"""Threads that run lanes record by record.

In: lanes, in chunks. Out: finished records, ended and failed lanes. A thread takes a chunk of lanes
worth at most 2 ms of the handler's recent cost, and works it off from the left. When nothing is
ready it takes back from the right of another's chunk. If one record is a chunk, the thread takes
the next one without the lock. Upholds I4 with `KeyLanes`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context

from coop_consumer.core.failure import Failure, failure_of
from coop_consumer.core.lane import Entry, Lane
from coop_consumer.core.lane_tables import Straight
from coop_consumer.core.lanes import READY_ONE_BY_ONE
from coop_consumer.core.record import Record
from coop_consumer.executors.results import refuse_unfinished
from coop_consumer.executors.threads import COST_FADES, QUICK_S, Runner, ThreadedExecutor
from coop_consumer.executors.traced import in_span
from coop_consumer.executors.workplace import Workplace

CHUNK_S = 0.002
"""A chunk's worth of work: long enough to make the lock cheap, short enough to be fair."""
CHUNK_RECORDS_MAX = 1_024
_LOOK_S, _LOOK_RECORDS_MAX = 0.005, 16
"""How often a turn looks at the clock: by recent cost, and after so many records at most."""
_ALONE_MAX = 32
"""How many slow records run one after the other without the lock, before their cost is counted."""


class ThreadExecutor(ThreadedExecutor):
    """Runs lanes record by record.

    Args:
        place: What it works with; as many threads as workers.
        process: The handler of a record.
    """

    ready_min = READY_ONE_BY_ONE

    def __init__(self, place: Workplace, process: Callable[[Record], object]) -> None:
        super().__init__(place)
        self._process = in_span(process, place.spans)

    def _share_of_one(self) -> float:
        return max(1.0, min(CHUNK_S / self._cost_s, CHUNK_RECORDS_MAX))

    def _is_quick(self) -> bool:
        return self._cost_s < QUICK_S / 10

    def _is_left(self) -> bool:
        return any(runner.chunk for runner in self._runners)

    def _is_slow(self) -> bool:
        """Whether a chunk is one record, so that threads would queue up for the lock."""
        return self._cost_s * 2 > CHUNK_S and len(self._runners) > 1

    def help(self, hand_over: Callable[[], None], breathe: Callable[[], None]) -> bool:
        """See `ThreadedExecutor`; and let quick records stay fresh, so that none is filed."""
        is_members = super().help(hand_over, breathe)
        if is_members:
            self._lanes.tables.goes_straight = self._is_quick()
        return is_members

    def _take_to_help(self, runner: Runner) -> bool:
        if not self._lanes.tables.fresh:
            return self._take(runner)
        runner.straight = self._lanes.tables.take_straight(int(self._share_of_one()))
        return True

    def _share_chunk(self, helper: Runner) -> None:
        if helper.straight is not None:
            helper.entry = self._lanes.tables.file_straight(helper.straight)
            helper.straight = None

    def _take(self, runner: Runner) -> bool:
        lanes = self._lanes
        if lanes.startable:
            share = max(lanes.startable / self._width, QUICK_S / self._cost_s)
            if lanes.take(max(1, int(min(self._share_of_one(), share))), runner.chunk):
                return True
        return self._steal(runner.chunk)

    def _steal(self, chunk: deque[Entry]) -> bool:
        late_s = self._late_s()
        for other in self._runners:
            if other.chunk and other.taken_s <= late_s:
                with suppress(IndexError):
                    chunk.append(other.chunk.pop())
                    return True
        return False

    def _work_off(self, runner: Runner) -> None:
        started = self._clock()
        if runner.straight is not None:
            run = runner.straight
            count = self._run_straight(runner, run)
            last: Entry | None = run.records[-1] if run.records else None
        else:
            count = self._run_chunk(runner)
            last = runner.entry
        if self._is_slow():
            count += self._run_on(runner)
            last = runner.entry or last
        runner.entry = None
        if runner.chunk:  # it is paused
            with self._condition:
                self._lanes.put_back(runner.chunk)
        if count:
            assert last is not None, "I4: records were run, and none was last"
            spent_s = self._clock() - started
            self._lanes.work.spent.append((spent_s, count, last.tenure.tp.topic))
            cost_s = spent_s / count
            self._cost_s = max(cost_s, self._cost_s * COST_FADES, 1e-7)

    def _run_on(self, runner: Runner) -> int:
        """Run ready entries without the lock until something has to be settled; returns records."""
        lanes, count, context = self._lanes, 0, self._new_context()
        while count < _ALONE_MAX and self._are_few() and not (self._paused or runner.is_lost):
            last = runner.entry
            if last is None or lanes.errors or lanes.is_followed(last):
                break
            runner.entry = entry = lanes.begin_next()
            if entry is None:
                break
            count += context.run(self._run_entry, entry, context)
            if context:
                context = self._new_context()
            if len(lanes.finished) >= self._wake_after:
                self._wake()
        return count

    def _run_straight(self, runner: Runner, run: Straight) -> int:
        """Process what the member's thread took, to a pause or a failure; returns records."""
        lanes, failure, goes_on = self._lanes, None, True
        while goes_on and failure is None and not self._paused:
            context = self._new_context()
            failure = context.run(self._run_some, run, context)
            goes_on = bool(context)
        with self._condition:
            if failure is not None:
                self._share_chunk(runner)
            if runner.straight is not None:  # nobody has filed it
                lanes.tables.end_straight(run)
                runner.straight = None
            elif run.records:
                record = run.records[-1]
                if failure is not None:
                    lanes.errors[record] = failure
                lanes.ended.append(record)
        return len(run.records)

    def _run_some(self, run: Straight, context: Context) -> Failure | None:
        """Process records in this context, until a handler raises, or leaves something there."""
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

    def _run_chunk(self, runner: Runner) -> int:
        """Process what was taken, until a pause; returns how many records."""
        count = 0
        while runner.chunk and not self._paused:
            context = self._new_context()
            count += context.run(self._run_entries, runner, context)
        return count

    def _run_entries(self, runner: Runner, context: Context) -> int:
        """Process what was taken, in this context, until a handler leaves something there."""
        chunk, count = runner.chunk, 0
        while chunk and not self._paused:
            try:
                runner.entry = entry = chunk.popleft()
            except IndexError:  # another thread or a revocation took it back
                break
            count += self._run_entry(entry, context)
            if context:
                break
        return count

    def _run_entry(self, entry: Entry, context: Context) -> int:
        return self._run(entry, context) if isinstance(entry, Lane) else self._run_single(entry)

    def _run_single(self, record: Record) -> int:
        """Process a record that has no lane; returns 1."""
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

        If a handler leaves variables in the context, the next record begins in another one.
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
