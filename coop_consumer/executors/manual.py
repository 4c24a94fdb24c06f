"""The manual executor: the user's threads take one record at a time, and say when it is done.

In: lanes (under the lanes' lock), calls into the user's code, `finish` and `fail` from the user's
threads. Out: records to process, finished records, ended and failed lanes, and a wake-up for the
member when it should look. While a record is in hand, no later record of its key is handed out. Any
number of threads may take. One of them at a time makes the calls, in their order, while the others
go on. Upholds I4 with `KeyLanes`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from time import monotonic
from typing import NamedTuple, cast

from coop_consumer import forks
from coop_consumer.core.effects import Output, drop, file_together, is_open
from coop_consumer.core.failure import failure_told
from coop_consumer.core.lane import Entry, Lane
from coop_consumer.core.lanes import READY_ONE_BY_ONE, READY_TOGETHER, KeyLanes
from coop_consumer.core.record import Record

Call = Callable[[], None]


class _InHand(NamedTuple):
    """Where a record in hand is filed, which thread has taken it, and when."""

    lane: Lane
    taker: int
    since_s: float


@dataclass(eq=False, repr=False)
class ManualExecutor:
    """Hands out records of ready lanes.

    Args:
        lanes: The member's lanes. Their lock must be `condition`.
        condition: Guards the lanes; threads wait on it for a record.
        wake: Called without the lock when the member should take in what has ended.
        is_ending: Whether the member is about to end. Then nothing more is handed out and waiting
            threads return, because the end waits for the records that they have in hand.
        is_pausing: Whether only a run of the member is about to end, and another follows. Then a
            thread with records in hand returns, because the run would wait for it for ever.
    """

    waits = True

    lanes: KeyLanes
    condition: threading.Condition
    _: KW_ONLY
    wake: Callable[[], None]
    is_ending: Callable[[], bool]
    is_pausing: Callable[[], bool]

    def __post_init__(self) -> None:
        self.lanes.ready_min = READY_ONE_BY_ONE
        self.lanes.work.running_s = self._running_s
        self._in_hand: dict[Record, _InHand] = {}
        self._calls: deque[Call] = deque()
        self._calling = False
        self._waiting = 0
        self._paused = False
        self._stopped = False
        forks.watch(self)

    def shut_in_fork(self) -> None:
        """No member is here: `take`, `finish` and `fail` raise."""
        shut = forks.Shut("this call", "this consumer")
        self.condition = cast("threading.Condition", shut)

    # ---- for the user's threads ----------------------------------------------------------------

    def take(self, timeout_s: float | None) -> Record | None:
        """Take the next record; make the calls that have come meanwhile.

        Args:
            timeout_s: How long to wait for one; None: until it comes, or `stop`, or a run of the
                member waits for what this thread has in hand.

        Returns:
            A record that stays in hand until `finish` or `fail`, or None. O(1).
        """
        until_s = None if timeout_s is None else monotonic() + timeout_s
        while True:
            with self.condition:
                found = self._await(until_s)
            if found is None or isinstance(found, Record):
                return found
            self._make(found)

    def finish(self, record: Record) -> bool:
        """The record is done. False: it was not in hand, and nothing has changed."""
        with self.condition:
            lane = self._take_out(record)
            if lane is None:
                return False
            first = not self.lanes.finished
            self.lanes.finished.append(record)
            lane.done += 1
            must_look = self._end(lane) or first
        if must_look:  # later records are collected with the first one
            self.wake()
        return True

    def finish_together(self, outputs: Mapping[Record, Sequence[Output]]) -> Record | None:
        """All these are done, with what they leave behind; the member takes them in one step.

        Returns:
            None; or one that is not in hand, or whose results nobody takes any more: then nothing
            has changed.
        """
        with self.condition:
            for record in outputs:
                if record not in self._in_hand or not is_open(record):
                    return record
            file_together(outputs)
            lanes = [lane for record in outputs if (lane := self._take_out(record)) is not None]
            self.lanes.finished.extend(outputs)  # at once: the member takes all of them, or none
            for lane in lanes:
                lane.done += 1
                self._end(lane)
        self.wake()
        return None

    def fail(self, record: Record, error: BaseException) -> bool:
        """The record could not be processed. False: it was not in hand, and nothing has changed."""
        with self.condition:
            lane = self._take_out(record)
            if lane is None:
                return False
            lane.failure = (record, failure_told(error))
            self._end(lane)
        self.wake()
        return True

    def has(self, record: Record) -> bool:
        """Whether a record is in hand."""
        return record in self._in_hand

    def _running_s(self) -> float:
        """See `WorkTime`: how long records are in hand."""
        now_s = monotonic()
        return sum(now_s - it.since_s for it in list(self._in_hand.values()))

    def stack(self, entry: Entry) -> str:
        """Nothing: nobody knows which of the user's threads works at the record."""
        del entry
        return ""

    def abandon(self, entry: Entry) -> None:
        """Take back a record that was in hand for too long; `finish` and `fail` refuse it then."""
        with self.condition:
            for record in [r for r, it in self._in_hand.items() if it.lane is entry]:
                del self._in_hand[record]
            if not self._in_hand:
                self.condition.notify_all()

    def give_back(self) -> int:
        """Take all records back, undone; returns how many were in hand."""
        with self.condition:
            lanes = [it.lane for it in self._in_hand.values()]
            for record in self._in_hand:
                drop(record)  # it comes again, here or elsewhere
            self._in_hand.clear()
            for lane in lanes:
                self._end(lane)
        self.wake()
        return len(lanes)

    def await_empty_hands(self, timeout_s: float) -> bool:
        """Wait until no record is in hand. False: it took too long."""
        with self.condition:
            return self.condition.wait_for(lambda: not self._in_hand, timeout_s)

    def make_calls(self) -> None:
        """Make the calls that have come and are not yet made."""
        while True:
            with self.condition:
                call = self._next_call()
            if call is None:
                return
            self._make(call)

    # ---- for the member ------------------------------------------------------------------------

    def call(self, call: Call) -> None:
        """Let the next `take` make this call, after earlier calls."""
        with self.condition:
            self._calls.append(call)
            self.condition.notify_all()

    def offered(self) -> None:
        """The member has acted: wake as many waiting threads as there are ready lanes."""
        if self.is_ending() and not self._stopped:
            self.stop()
        elif self._waiting and self.is_pausing():
            with self.condition:
                self.condition.notify_all()
        elif self._waiting and self.lanes.ready:
            with self.condition:
                self.condition.notify(len(self.lanes.ready))

    def serve(self, lanes: KeyLanes, wake: Callable[[], None]) -> None:
        """Go on with the lanes of the member's next run, under the same lock, once one is over."""
        with self.condition:
            lanes.ready_min = self.lanes.ready_min
            lanes.work.running_s = self._running_s
            self.lanes, self.wake = lanes, wake

    def expect(self, count: int) -> None:
        """A thread takes so many records at once: keep as many ready from now on."""
        with self.condition:
            lanes = self.lanes
            lanes.ready_min = max(lanes.ready_min, READY_TOGETHER, count)

    def help(self, _: Callable[[], None], __: Callable[[], None]) -> bool:
        """See `Executor`; the member's thread is none of the workers."""
        return True

    def pause(self, paused: bool) -> None:
        """Hand out nothing (the group may have given our ranges away), or go on."""
        if paused != self._paused:
            with self.condition:
                self._paused = paused
                self.condition.notify_all()

    def stop(self) -> None:
        """Hand out nothing any more; threads that wait for a record get None."""
        with self.condition:
            self._stopped = True
            self.condition.notify_all()

    # ---- with the lock held --------------------------------------------------------------------

    def _await(self, until_s: float | None) -> Record | Call | None:
        while True:
            found = self._next_call() or self._next_record()
            if found is not None or self._stopped:
                return found
            wait_s = None if until_s is None else until_s - monotonic()
            if self._has_to_finish() if wait_s is None else wait_s <= 0:
                return None
            self._waiting += 1
            try:
                self.condition.wait(wait_s)
            finally:  # Ctrl-C comes here
                self._waiting -= 1

    def _has_to_finish(self) -> bool:
        """Whether a run waits for records that this very thread has in hand."""
        here = threading.get_ident()
        return self.is_pausing() and any(it.taker == here for it in self._in_hand.values())

    def _next_call(self) -> Call | None:
        if self._calling or not self._calls:
            return None
        self._calling = True
        return self._calls.popleft()

    def _next_record(self) -> Record | None:
        if self._paused or self._stopped:
            return None
        lanes = self.lanes
        lanes.settle()
        if not lanes.ready:
            return None
        lane = lanes.tables.lane_of(lanes.begin())
        record = lane.records[lane.done]
        self._in_hand[record] = _InHand(lane, threading.get_ident(), monotonic())
        return record

    def _take_out(self, record: Record) -> Lane | None:
        """A record is in hand no more; its lane, or None if it was not."""
        it = self._in_hand.pop(record, None)
        if it is None:
            return None
        topic = record._tenure.tp.topic
        self.lanes.work.spent.append((monotonic() - it.since_s, 1, topic))
        return it.lane

    def _end(self, lane: Lane) -> bool:
        """Hand a lane back. True: the member has to do something about it."""
        lanes = self.lanes
        lanes.ended.append(lane)
        lanes.settle()
        if not self._in_hand:
            self.condition.notify_all()  # a thread that closes the consumer may wait for it
        elif lanes.ready and self._waiting:
            self.condition.notify()
        return bool(lanes.failed or lanes.drained)

    # ---- without the lock ----------------------------------------------------------------------

    def _make(self, call: Call) -> None:
        try:
            call()
        finally:
            with self.condition:
                self._calling = False
                if self._calls:
                    self.condition.notify_all()
