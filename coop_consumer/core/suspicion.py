"""Which record ends its process: what may have been begun when an owner fell is begun with care.

A handler that ends its process (a crash in C, `os._exit`, the kernel's out-of-memory killer) tells
nobody, so its record would be begun again and again, and each time whatever runs beside it is lost.
Nothing is written per record to prevent that. Only an owner that comes after one that fell, ended
without having released its ranges, is careful, until it has begun as much as that one may have had:

- It begins what it inherits in portions, each once the log has its end (`begun_to`). If it falls as
  well, its successor knows a portion that the culprit is in.
- What was in the portion of an owner that fell is *suspect*: begun one at a time, once the log has
  an `Attempt` that says so. An owner that falls then has counted that attempt beforehand.
- After `max.attempts` such falls `on.failure` decides. Time does not extend them: each of these
  attempts costs a process.

A suspect that runs for long makes room for the next one, the later the more owners have fallen.
Pure. In: what tenures inherit and admit, commits that the log has, time. Out: records in lanes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

from coop_consumer.core.actions import Level
from coop_consumer.core.lanes import HELD, Lane
from coop_consumer.core.record import Record, count_attempt
from offsets import Attempt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coop_consumer.core.failures import Failures
    from coop_consumer.core.intake import Intake
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.core.tenure import Tenure

_PORTION_MAX = 1_024
_TRIAL_MS = 1_000
"""So long a suspect is the only one that runs; twice as long for each owner that fell."""


class Suspicion:
    """What a tenure has from an owner that fell, until it is known to do no harm.

    Attributes:
        fallen: How many owners in a row have fallen at these records.
        suspect_to: Unfinished records below this offset were in the portion of one that fell.
        begun_to: Nothing at or above this offset is begun before the log has this number.
        known_to: The number that the log has.
        waiting: Admitted records that are not in lanes yet, in order; each with its lane's key.
        begun: Offsets of a portion, which may be unfinished.
        suspects: Offsets of those in lanes that are begun one at a time.
        portion: How many records the next portion has.
        left: How many records more are begun in portions.
    """

    __slots__ = (
        "begun",
        "begun_to",
        "fallen",
        "known_to",
        "left",
        "portion",
        "suspect_to",
        "suspects",
        "waiting",
    )

    def __init__(self, fallen: int, suspect_to: int, *, portion: int, left: int) -> None:
        self.fallen = fallen
        self.suspect_to = suspect_to
        self.portion = portion
        self.left = left
        self.begun_to = self.known_to = suspect_to
        self.waiting: list[tuple[Hashable, Record]] = []
        self.begun: set[int] = set()
        self.suspects: set[int] = set()

    def first_at(self, offset: int) -> int:
        """The number of the first one that waits and lies at this offset or above. O(log)."""
        return bisect_left(self.waiting, offset, key=lambda item: item[1]._offset)

    def forget(self, records: Iterable[Record]) -> None:
        """These records wait no longer: somebody else will have them."""
        gone = set(records)
        self.waiting = [item for item in self.waiting if item[1] not in gone]


class Turn(NamedTuple):
    """A suspect whose turn it is, and what was known of it before."""

    tenure: Tenure
    lane: Lane
    record: Record
    before: Attempt | None
    noted: Attempt


class Suspects:
    """Begins what tenures are careful with.

    Attributes:
        turn: The suspect whose turn it is, if it is one's.
    """

    def __init__(self, state: MemberState, intake: Intake, failures: Failures) -> None:
        self._state = state
        self._intake = intake
        self._failures = failures
        self._count = 0
        self._waiting: list[tuple[int, int, Lane]] = []  # heap: when its back-off ends, a number
        self.turn: Turn | None = None
        self._since_ms: int | None = None  # it was given to the workers

    def next_due_ms(self) -> int | None:
        """When to look again; None: events tell."""
        if self.turn is not None:
            return None if self._since_ms is None else self._since_ms + self._trial_ms(self.turn)
        return self._waiting[0][0] if self._waiting else None

    def look_due(self) -> None:
        """Begin what may be begun now."""
        state = self._state
        if not (state.careful or self._waiting or self.turn):
            return
        for tenure in list(state.careful):
            partition = state.partition(tenure.tp)
            if tenure not in partition.tenures or tenure.suspicion is None:
                state.careful.remove(tenure)
            elif tenure.begun:
                self._go_on(partition, tenure, tenure.suspicion)
        if self.turn is not None:
            self._look_at(self.turn)
        while self.turn is None and self._waiting and self._waiting[0][0] <= state.now_ms:
            self._begin_turn(heapq.heappop(self._waiting)[2])

    # ---- portions ------------------------------------------------------------------------------

    def _go_on(self, partition: Partition, tenure: Tenure, known: Suspicion) -> None:
        known.begun &= tenure.pending.keys()
        known.suspects &= tenure.pending.keys()
        if known.waiting:
            self._file(tenure, known)
            if tenure.attempts:  # of a record that was parked before it came to us
                self._failures.decide(partition)
        if known.known_to < known.begun_to:
            return  # the log does not have it yet
        first = known.first_at(max(known.begun_to, known.suspect_to))
        portion = known.waiting[first : first + known.portion]
        if portion:
            may_run = max(self._state.capacity, known.portion // 4)  # half of the last portion
            failed = {attempt.key_hash for attempt in tenure.attempts.values()}
            # What waits behind a failed record of its key may wait for days: it runs no more.
            if sum(tenure.pending[offset] not in failed for offset in known.begun) < may_run:
                known.left -= len(portion)
                known.portion = min(known.portion * 2, _PORTION_MAX)
                known.begun_to = portion[-1][1]._offset + 1
                self._tell(tenure)
        elif not known.waiting and not known.suspects:
            at_end = 0 <= partition.end_offset <= tenure.tracker.seen_to
            if known.left <= 0 or (at_end and not known.begun):
                tenure.suspicion = None
                self._tell(tenure)

    def _tell(self, tenure: Tenure) -> None:
        tenure.dirty = True
        self._state.partition(tenure.tp).view.urgent = True

    def _file(self, tenure: Tenure, known: Suspicion) -> None:
        """Put what may be begun into lanes; suspects are held there until it is their turn."""
        state = self._state
        suspects: list[Lane] = []
        left: list[tuple[Hashable, Record]] = []
        stopped: set[Hashable] = set()  # keys of which something earlier stays behind
        end = known.first_at(max(known.known_to, known.suspect_to))
        with state.lock:
            state.lanes.settle()
            table = state.lanes.table(tenure.tp)
            for item in known.waiting[:end]:
                lane_key, record = item
                attempt = tenure.attempts.get(record._offset)
                is_suspect = record._offset < known.suspect_to or bool(attempt and attempt.fell)
                if record._offset not in tenure.pending:  # others turned out to have done it
                    state.bytes_waiting -= record._size
                elif lane_key in stopped or (is_suspect and lane_key in table):
                    stopped.add(lane_key)
                    left.append(item)
                elif is_suspect:
                    known.suspects.add(record._offset)
                    suspects.append(self._intake.file_held(tenure, lane_key, record))
                else:
                    known.begun.add(record._offset)
                    self._intake.file(tenure, lane_key, record)
        known.waiting[:end] = left
        for lane in suspects:
            self._await_turn(lane)

    # ---- one at a time -------------------------------------------------------------------------

    def _await_turn(self, lane: Lane) -> None:
        """A suspect is in its lane: it waits, unless it has had its last attempt."""
        wait_ms = self._failures.wait_after_fall_ms(lane)
        if wait_ms is None:
            self._is_none(lane)
        else:
            self._count += 1
            due_ms = self._state.now_ms + wait_ms
            heapq.heappush(self._waiting, (due_ms, self._count, lane))

    @staticmethod
    def _is_none(lane: Lane) -> None:
        """It is dealt with otherwise."""
        if lane.tenure.suspicion is not None and lane.records:
            lane.tenure.suspicion.suspects.discard(lane.records[0]._offset)

    def _begin_turn(self, lane: Lane) -> None:
        """Write down that it is about to be begun."""
        if lane.detached or lane.state is not HELD:
            return  # its range has moved, or a person has decided
        tenure, record = lane.tenure, lane.records[0]
        if record._key_hash in tenure.blocked:
            self._count += 1
            again_ms = self._state.now_ms + _TRIAL_MS
            heapq.heappush(self._waiting, (again_ms, self._count, lane))
            return
        before, now_ms = tenure.attempts.get(record._offset), self._state.now_ms
        if before is not None and before.parked:
            self._is_none(lane)
            return
        fallen = tenure.suspicion.fallen if tenure.suspicion else 0
        noted = Attempt(
            offset=record._offset,
            key_hash=record._key_hash,
            attempts=max(before.attempts if before else 0, fallen) + 1,
            parked=False,
            error=f"no outcome: it was begun by itself, on {self._state.name}",
            since_ms=before.since_ms if before else now_ms,
            fell=True,
        )
        tenure.attempts[record._offset] = noted
        self.turn = Turn(tenure, lane, record, before, noted)
        self._since_ms = None
        self._tell(tenure)

    def _look_at(self, turn: Turn) -> None:
        state, tenure, offset = self._state, turn.tenure, turn.record._offset
        if self._since_ms is None:
            if turn.lane.detached or turn.lane.state is not HELD or offset not in tenure.pending:
                self._end_turn(turn)
            elif tenure.known_attempts.get(offset) == turn.noted.attempts:
                count_attempt(turn.record, (turn.before.attempts if turn.before else 0) + 1)
                with state.lock:
                    state.lanes.release_hold(turn.lane)
                self._since_ms = state.now_ms
        elif offset not in tenure.pending or tenure.attempts.get(offset) is not turn.noted:
            self._end_turn(turn)
        elif state.now_ms >= self._since_ms + self._trial_ms(turn):
            with state.lock:
                waits = id(turn.lane) in state.lanes.waiting()
            if waits:
                self._since_ms = state.now_ms  # for a worker
            else:
                self._end_turn(turn)

    def _end_turn(self, turn: Turn) -> None:
        """It is through, or has run for so long that others may run beside it."""
        tenure, offset = turn.tenure, turn.record._offset
        if tenure.attempts.get(offset) is turn.noted:
            if turn.before is None:
                del tenure.attempts[offset]
            else:
                tenure.attempts[offset] = turn.before
            tenure.dirty = True
        if tenure.suspicion is not None:
            tenure.suspicion.suspects.discard(offset)
        self.turn = None

    def _trial_ms(self, turn: Turn) -> int:
        longest_ms = self._state.config.max_processing_ms
        return min(_TRIAL_MS << min(turn.noted.attempts, 20), longest_ms)


def warn_of_fall(state: MemberState, tenure: Tenure, known: Suspicion) -> None:
    """Say what is careful here, and why."""
    ranges = " ".join(map(str, tenure.ranges))
    if known.fallen == 1:
        state.report(
            Level.INFO,
            f"{tenure.tp} keys {ranges}: their last owner ended without a word. What it may have "
            "begun is begun in portions that the log knows, in case one of these records did it.",
        )
    elif known.fallen:
        state.report(
            Level.WARNING,
            f"{tenure.tp} keys {ranges}: {known.fallen} owners in a row have ended without a word. "
            "Perhaps the handler of one record ends its process (a crash, os._exit, no memory): "
            f"what is unfinished below offset {known.suspect_to} is begun one record at a time, "
            f"until it is found and on.failure={state.config.on_failure.value} decides.",
        )
