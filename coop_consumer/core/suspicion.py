"""Suspicion: find the record whose handler ends its process, and begin it with care. Pure.

A handler may end its process: a crash in C, `os._exit`, the kernel's out-of-memory killer. Then no
failure is noted. Each next owner would begin the record again, and lose whatever runs beside it. An
owner *falls* if it ends without having released its ranges. One fall is mostly somebody's kill, and
the log gets nothing for each record. So an owner is careful only after several owners in a row
fell, and only until it has begun what they may have begun:

- It begins inherited records in portions, each once the log has the portion's end (`begun_to`). If
  it falls as well, its successor knows a portion that contains the culprit.
- The records in the portion of an owner that fell are *suspects*. The member begins one suspect at
  a time and no portion beside it, once the log has an `Attempt` for it. If the member falls then,
  that attempt is counted already.
- After `max.attempts` such falls `on.failure` decides. `attempts.for.ms` does not extend them:
  each of these attempts costs a process.

If a suspect runs for long, the next one begins beside it. The more owners fell, the later that is.

In: what tenures inherit and admit, commits that the log has, time. Out: records in lanes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from assignors import KeyRange
from coop_consumer.core.actions import Level
from coop_consumer.core.lane import HELD, Lane
from coop_consumer.core.record import Record, count_attempt
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted
from offsets import Attempt

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from coop_consumer.core.decisions import Decisions
    from coop_consumer.core.failures import Failures
    from coop_consumer.core.intake import Intake
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.core.tenure import Tenure

Bound = tuple[KeyRange, int]

_PORTION_MAX = 32
"""Each record of a portion may become a suspect, and suspects are begun one at a time."""
_COMMITTED_AT = 256
"""A commit takes about so many records at most, whatever the settings say."""
_MORE = 4
"""The factor by which more keys are begun with care after each further fall."""
_CARE_FROM = 3
"""An owner is careful after so many falls in a row; with few `max.attempts` after fewer."""
_GRACE = 2
"""A tenure forgets earlier falls once it has done so many times what it was careful with."""
_TRIAL_MS = 1_000
"""So long a suspect is the only one that runs; doubled for each owner that fell."""


@dataclass(slots=True, eq=False)
class Suspicion:
    """The records of a tenure that an owner which fell may have begun.

    Attributes:
        bounds: Unfinished records of a range below its offset were in the portion of one that fell.
        begun_to: Nothing but suspects is begun at or above this offset before the log has this
            number; -1: whatever there is may be begun.
        known_to: The number that the log has.
        waiting: Admitted records that are not in lanes yet, in order; each with its lane's key.
        apart: The suspects among them.
        begun: Offsets of a portion, which may be unfinished.
        suspects: Offsets of those in lanes that are begun one at a time.
        left: How many more keys are begun in portions.
    """

    bounds: tuple[Bound, ...]
    left: int
    begun_to: int = 0
    known_to: int = 0
    waiting: list[tuple[Hashable, Record]] = field(default_factory=list)
    apart: list[tuple[Hashable, Record]] = field(default_factory=list)
    begun: set[int] = field(default_factory=set)
    suspects: set[int] = field(default_factory=set)

    def take(self, lane_key: Hashable, record: Record, attempt: Attempt | None) -> None:
        """A record was admitted; it waits to be begun."""
        offset, key_hash = record._offset, record._key_hash
        is_suspect = (attempt is not None and attempt.fell) or any(
            offset < bound and key_hash in key_range for key_range, bound in self.bounds
        )
        (self.apart if is_suspect else self.waiting).append((lane_key, record))

    def first_at(self, offset: int) -> int:
        """The number of the first one that waits and lies at this offset or above. O(log)."""
        return bisect_left(self.waiting, offset, key=lambda item: item[1]._offset)

    def first_waiting(self) -> dict[Hashable, int]:
        """For each lane's key the first offset that waits, as far as suspects may be behind it.

        An attempt may be known of a record whose forerunners are not done: the log has lost that.
        """
        first: dict[Hashable, int] = {}
        if self.apart:
            for lane_key, record in self.waiting[: self.first_at(self.apart[-1][1]._offset)]:
                first.setdefault(lane_key, record._offset)
        return first

    def awaits_turn(self, record: Record) -> bool:
        """Whether this is a suspect, in its lane, that is held until it is its turn."""
        return record._offset in self.suspects

    def forget(self, ranges: Iterable[KeyRange]) -> list[Record]:
        """Drop the waiting records of ranges that are given up; returns them."""
        both = [*self.waiting, *self.apart]
        gone = {record for _, record in both if any(record._key_hash in r for r in ranges)}
        self.waiting = [item for item in self.waiting if item[1] not in gone]
        self.apart = [item for item in self.apart if item[1] not in gone]
        return list(gone)


@dataclass(slots=True, eq=False)
class Falls:
    """What a tenure knows of owners before it that fell.

    Written by this module, and when the tenure begins by `handover`. `intake` counts `first` down,
    `commits` count `grace` down.

    Attributes:
        owners: How many owners in a row have fallen at its records.
        grace: How many records it has yet to finish before these falls are forgotten.
        first: How many records that it admits next run before those of other tenures.
        suspicion: What it is careful with, as its last owner fell; None: nothing.
    """

    owners: int = 0
    grace: int = 0
    first: int = 0
    suspicion: Suspicion | None = None


class Turn(NamedTuple):
    """A suspect whose turn it is, and what was known of it before."""

    tenure: Tenure
    lane: Lane
    record: Record
    before: Attempt | None
    noted: Attempt


@dataclass(slots=True, eq=False)
class Suspects:
    """Begins portions and suspects.

    Attributes:
        turn: The suspect that is begun, or runs; None: there is none.
    """

    state: MemberState
    intake: Intake
    failures: Failures
    decisions: Decisions
    _count: int = 0
    # heap: when its back-off ends, a number
    _waiting: list[tuple[int, int, Lane]] = field(default_factory=list)
    _blocked: list[Lane] = field(default_factory=list)  # a handler elsewhere is at their keys
    turn: Turn | None = None
    _since_ms: int | None = None  # it was given to the workers
    _portion_ms: int = 0  # so was the newest portion

    def next_due_ms(self) -> int | None:
        """When to look again; None: at the next event."""
        if self.turn is not None:
            return None if self._since_ms is None else self._since_ms + self._trial_ms(self.turn)
        if not self._waiting:
            return None
        due_ms = self._waiting[0][0]
        return max(due_ms, self._portion_ms + _TRIAL_MS) if self._portion_runs() else due_ms

    def look_due(self) -> None:
        """Begin what may be begun now."""
        state = self.state
        if not (state.load.careful or self._waiting or self._blocked or self.turn):
            return
        blocked, self._blocked = self._blocked, []
        for lane in blocked:
            self._await_turn(lane)
        if self.turn is not None:
            self._look_at(self.turn)
        for tenure in list(state.load.careful):
            partition = state.partition(tenure.tp)
            if tenure not in partition.tenures:
                state.load.careful.remove(tenure)
            elif not tenure.begun:
                continue
            elif tenure.falls.suspicion is None:
                self._forget_falls(partition, tenure)
            else:
                self._go_on(partition, tenure, tenure.falls.suspicion)
        while self.turn is None and self._is_due() and not self._portion_runs():
            self._begin_turn(heapq.heappop(self._waiting)[2])

    def _forget_falls(self, partition: Partition, tenure: Tenure) -> None:
        """Forget the falls once enough records are done: they were at none of these records."""
        if tenure.released:  # its record tells whoever gets those of the falls
            return
        if tenure.falls.grace <= 0 or (_has_seen_all(partition, tenure) and not tenure.pending):
            self.state.load.careful.remove(tenure)
            if tenure.falls.owners:
                tenure.falls.owners, tenure.dirty = 0, True

    def _is_due(self) -> bool:
        """Whether a suspect's turn comes once the portions before it are done."""
        return bool(self._waiting) and self._waiting[0][0] <= self.state.now_ms

    # ---- portions ------------------------------------------------------------------------------

    def _portion_runs(self) -> bool:
        """Whether a portion of whichever tenure may end the process at any moment."""
        return self.state.now_ms < self._portion_ms + _TRIAL_MS and any(
            self._running(tenure, tenure.falls.suspicion)
            for tenure in self.state.load.careful
            if tenure.falls.suspicion is not None
        )

    @staticmethod
    def _running(tenure: Tenure, known: Suspicion) -> int:
        """How many keys have an unfinished record of a portion that runs or can run.

        A key does not count if a record of it has failed: the others may wait for days.
        """
        known.begun &= tenure.pending.keys()
        failed = {attempt.key_hash for attempt in tenure.attempts.values()}
        return len({tenure.pending[offset] for offset in known.begun} - failed)

    def _go_on(self, partition: Partition, tenure: Tenure, known: Suspicion) -> None:
        known.suspects &= tenure.pending.keys()
        if known.waiting or known.apart:
            self._file(tenure, known)
            if tenure.attempts:  # of a record that was parked before it came to us
                self.decisions.apply(partition)
        if known.begun_to < 0:
            is_through = not known.begun & tenure.pending.keys()
            if is_through and not (known.waiting or known.apart or known.suspects):
                self._trust(tenure, fallen=tenure.falls.owners)
        elif known.known_to < known.begun_to:
            pass  # the log does not have it yet
        elif known.left <= 0:
            # The unfinished records of portions stay suspects for the next owner.
            known.bounds += tuple((key_range, known.begun_to) for key_range in tenure.ranges)
            known.begun_to = -1
            self._commit_soon(tenure)
            self._file(tenure, known)
        elif known.waiting:
            self._begin_portion(tenure, known)
        elif (
            _has_seen_all(partition, tenure)
            and not known.apart
            and not known.suspects
            and not known.begun & tenure.pending.keys()
        ):
            self._trust(tenure)

    def _begin_portion(self, tenure: Tenure, known: Suspicion) -> None:
        workers = min(self.state.membership.capacity, _PORTION_MAX)
        first = known.first_at(known.begun_to)
        portion = known.waiting[first : first + workers]
        is_free = self.turn is None and not self._is_due()
        if portion and is_free and self._running(tenure, known) < workers:
            known.begun_to = portion[-1][1]._offset + 1
            self._commit_soon(tenure)

    def _trust(self, tenure: Tenure, fallen: int = 0) -> None:
        """Be careful no more, once the tenure's record does not tell of released ranges as well."""
        if tenure.released:
            return
        tenure.falls.suspicion, tenure.falls.owners = None, fallen
        self._commit_soon(tenure)

    def _commit_soon(self, tenure: Tenure) -> None:
        tenure.dirty = True
        self.state.partition(tenure.tp).view.hurry()

    def _file(self, tenure: Tenure, known: Suspicion) -> None:
        """File the records that may be begun; suspects are held in their lanes until their turn."""
        state = self.state
        stopped: dict[Hashable, int] = {}  # by key the first suspect that is not filed
        end = len(known.waiting) if known.begun_to < 0 else known.first_at(known.known_to)
        with state.lock:
            state.lanes.settle()
            held = self._file_apart(tenure, known, stopped)
            self._file_waiting(tenure, known, end, stopped)
        for lane in held:
            self._await_turn(lane)

    def _file_apart(
        self, tenure: Tenure, known: Suspicion, stopped: dict[Hashable, int]
    ) -> list[Lane]:
        """File suspects, each at the head of a new lane; returns these lanes, which are held."""
        table = self.state.lanes.tables.of(tenure.tp)
        held: list[Lane] = []
        left: list[tuple[Hashable, Record]] = []
        first = known.first_waiting()
        for lane_key, record in self._still_pending(tenure, known.apart):
            is_behind = first.get(lane_key, record._offset) < record._offset
            if is_behind or lane_key in table or lane_key in stopped:
                stopped.setdefault(lane_key, record._offset)
                left.append((lane_key, record))
            else:
                known.suspects.add(record._offset)
                held.append(self.intake.file_held(tenure, lane_key, record))
        known.apart = left
        return held

    def _file_waiting(
        self, tenure: Tenure, known: Suspicion, end: int, stopped: dict[Hashable, int]
    ) -> None:
        """File the first `end` of the others; a record waits for earlier ones of its key."""
        table = self.state.lanes.tables.of(tenure.tp)
        left: list[tuple[Hashable, Record]] = []
        for lane_key, record in self._still_pending(tenure, known.waiting[:end]):
            if stopped.get(lane_key, record._offset) < record._offset:
                left.append((lane_key, record))
                continue
            if known.begun_to >= 0:
                known.left -= lane_key not in table
                known.begun.add(record._offset)
                self._portion_ms = self.state.now_ms
            self.intake.file(tenure, lane_key, record, first=known.begun_to >= 0)
        known.waiting[:end] = left

    def _still_pending(
        self, tenure: Tenure, items: list[tuple[Hashable, Record]]
    ) -> Iterator[tuple[Hashable, Record]]:
        """Those that no other owner has done; drop the rest."""
        for item in items:
            if item[1]._offset in tenure.pending:
                yield item
            else:
                self.state.load.bytes_waiting -= item[1]._size
                tenure.attempts.pop(item[1]._offset, None)

    # ---- one at a time -------------------------------------------------------------------------

    def _await_turn(self, lane: Lane) -> None:
        """Let the suspect of a lane wait for its turn, unless it has had its last attempt.

        While another handler is at its key, nobody knows how many attempts it has had.
        """
        if self._is_gone(lane):
            return
        if lane.key_hash in lane.tenure.blocked.hashes:
            self._blocked.append(lane)
            return
        wait_ms = self.failures.wait_after_fall_ms(lane)
        if wait_ms is None:
            self._drop(lane)
        else:
            self._count += 1
            due_ms = self.state.now_ms + wait_ms
            heapq.heappush(self._waiting, (due_ms, self._count, lane))

    @staticmethod
    def _is_gone(lane: Lane) -> bool:
        """Whether its range has moved, a person has decided, or others have done its suspect."""
        return lane.detached or lane.state is not HELD or not _awaits_turn(lane)

    @staticmethod
    def _drop(lane: Lane) -> None:
        """Its record is no suspect any more."""
        if lane.tenure.falls.suspicion is not None and lane.records:
            lane.tenure.falls.suspicion.suspects.discard(lane.records[0]._offset)

    def _begin_turn(self, lane: Lane) -> None:
        """Note its attempt; it is begun once the log has that."""
        if self._is_gone(lane):
            return
        tenure, record = lane.tenure, lane.records[0]
        before, now_ms = tenure.attempts.get(record._offset), self.state.now_ms
        if before is not None and before.parked:
            self._drop(lane)
            return
        noted = Attempt(
            offset=record._offset,
            key_hash=record._key_hash,
            attempts=max(before.attempts if before else 0, tenure.falls.owners) + 1,
            parked=False,
            error=f"no outcome: it was begun by itself, on {self.state.name}",
            since_ms=before.since_ms if before else now_ms,
            fell=True,
        )
        tenure.attempts[record._offset] = noted
        tenure.noted[record._offset] = noted, before
        self.turn = Turn(tenure, lane, record, before, noted)
        self._since_ms = None
        self._commit_soon(tenure)

    def _look_at(self, turn: Turn) -> None:
        state, tenure, offset = self.state, turn.tenure, turn.record._offset
        if self._since_ms is None:
            if turn.lane.detached or turn.lane.state is not HELD or offset not in tenure.pending:
                self._end_turn(turn)
            elif tenure.logged.attempts.get(offset) == turn.noted.attempts:
                count_attempt(turn.record, (turn.before.attempts if turn.before else 0) + 1)
                with state.lock:
                    state.lanes.release_hold(turn.lane, first=True)
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
        """It has ended, or has run for so long that others may run beside it."""
        tenure, offset = turn.tenure, turn.record._offset
        if tenure.attempts.get(offset) is turn.noted:
            if turn.before is None:
                del tenure.attempts[offset]
            else:
                tenure.attempts[offset] = turn.before
            tenure.dirty = True
        if tenure.falls.suspicion is not None:
            tenure.falls.suspicion.suspects.discard(offset)
        self.turn = None

    def _trial_ms(self, turn: Turn) -> int:
        longest_ms = self.state.config.max_processing_ms
        return min(_TRIAL_MS << min(turn.noted.attempts, 20), longest_ms)


def _awaits_turn(lane: Lane) -> bool:
    known = lane.tenure.falls.suspicion
    return known is not None and bool(lane.records) and known.awaits_turn(lane.records[0])


def _has_seen_all(partition: Partition, tenure: Tenure) -> bool:
    return 0 <= partition.end_offset <= tenure.tracker.seen_to


def be_careful(state: MemberState, tenure: Tenure, bounds: Collection[Bound]) -> None:
    """Make a tenure careful with what owners that fell may have begun, and report that."""
    config, falls = state.config, tenure.falls
    care_from = max(min(_CARE_FROM, config.max_attempts - 2), 1)
    # What ran, and what was done and not committed: of one partition mostly no more than this.
    heads = state.membership.capacity + min(config.commit_at_records, _COMMITTED_AT) // 4
    heads *= _MORE ** max(falls.owners - care_from, 0)
    # These records run first: otherwise another fall would not show whether one of them did it.
    falls.grace = falls.first = _GRACE * heads
    state.load.careful.append(tenure)
    noted = any(it.fell for it in tenure.attempts.values())
    if falls.owners < care_from and not (bounds or noted):
        return
    falls.suspicion = Suspicion(tuple(bounds), heads)
    ranges = " ".join(map(str, tenure.ranges))
    if falls.owners and not bounds:
        state.report(
            Level.INFO,
            LogEvent.FALL_NOTED,
            f"{tenure.tp} keys {ranges}: their last owner ended without a word ({falls.owners} in "
            "a row). What it may have begun is begun in portions that the log knows, in case one "
            "of these records did it.",
            tp=tenure.tp,
        )
    elif bounds:
        state.report(
            Level.WARNING,
            LogEvent.FALL_SUSPECTED,
            f"{tenure.tp} keys {ranges}: "
            f"{counted(falls.owners, 'owner in a row has', 'owners in a row have')} ended without "
            "a word. Perhaps the handler of one record ends its process (a crash, os._exit, no "
            f"memory). What is unfinished below offset {max(below for _, below in bounds)} is "
            "begun one record at a time, until it is found; then on.failure decides.",
            tp=tenure.tp,
        )
