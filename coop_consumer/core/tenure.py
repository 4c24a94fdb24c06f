"""A tenure: one incarnation's hold of ranges, under a key in the progress log. Pure.

    BEGINNING -first record acked-> ACTIVE -ranges given up-> DRAINING -last handler-> ENDED

The tenure's record in the progress log lists all its facts, released or not, because compaction
keeps only the last record of a key. After a release a tenure goes on under a new key, so that its
record does not grow with every rebalance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from assignors import Claim, ClaimLoad, KeyRange, subtract, union
from coop_consumer.core.fetch_times import FetchTimes
from coop_consumer.core.hashes import singles
from coop_consumer.core.hold import Hold
from coop_consumer.core.load import TenureLoad
from coop_consumer.core.suspicion import Falls
from coop_consumer.plain_text import shortened
from offsets import Attempt, Doing, TenureId, TenureKey, TenureRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from coop_consumer.core.effects import Filed
    from coop_consumer.core.record import Record


_ERRORS_CHARS, _ERROR_CHARS_MIN = 100_000, 20
"""How much of a record the errors of all failed records may take, and each at least."""


class TenureState(Enum):
    """How far a tenure is.

    BEGINNING: its first record is sent, not yet acknowledged; nothing is dispatched. ACTIVE: its
    ranges are processed. DRAINING: it has given up all its ranges, some handlers still run. ENDED:
    everything is released, the record that says so may still be under way.
    """

    BEGINNING = auto()
    ACTIVE = auto()
    DRAINING = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Logged:
    """What the log has of a tenure under its present key, by the acknowledgements so far.

    Written by `commits`, and by `beginning` (the first record).

    Attributes:
        record: The last one that the log has; until it has any, the first.
        first_offset: Where the first record under this key lies, or `read_to` if that was sent
            again; -1: not known.
        read_to: How far the log had been read when the tenure inherited what it says.
        stable: The stable offset that the log has.
        released: The released ranges that the log has.
        attempts: How often records were tried whose last attempt has no outcome, by offset.
        retired: The key before this one with its last record; None once the log has that record.
        parts_end: The first number that no part of its record has had.
        parts_kept: The first number of a part, but for part 0, that the log needs.
        parts_gone: The first number of a part that the log may have without need.
    """

    record: TenureRecord | None = None
    first_offset: int = -1
    read_to: int = 0
    stable: int = 0
    released: tuple[KeyRange, ...] = ()
    attempts: dict[int, int] = field(default_factory=dict)
    retired: tuple[TenureKey, TenureRecord] | None = None
    parts_end: int = 1
    parts_kept: int = 1
    parts_gone: int = 1

    def begin_key(self, retired: tuple[TenureKey, TenureRecord]) -> None:
        """The log has nothing yet under the key that follows this one."""
        self.retired, self.first_offset, self.released = retired, -1, ()
        self.parts_end = self.parts_kept = self.parts_gone = 1


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class Tenure(Hold):
    """A hold that the progress log knows by a key, and what its record says besides facts.

    Attributes:
        key: Its key in the log; changed by `rename` only.
        begun: The log has its first record, so its records may be dispatched. Set by `handover`.
        logged: What the log has of it.
        falls: How it deals with owners that fell before it.
        attempts: Failed tries by offset; they travel to the next owner in the record. Written by
            `failures` and `suspicion`; `handover` adds what others tried, `intake` drops what is
            done.
        refused: Failures of records whose outputs a topic has refused, and which are told although
            it is void. Written by `failures`.
        noted: Attempts that the log has since before they began, each with what was known before;
            by offset. Written by `suspicion`.
        finished: How many records were finished since the last record was built. Counted by
            `intake`, taken by `commits`.
        is_void: What it had not committed by then never counts: its member has lost its membership,
            with exactly once, or a topic has refused an output. Set by `ending` and `handover`.
        leader_epoch: The highest leader epoch of a data record that its facts rest on; -1: unknown.
            Raised by `intake`.
        walled: How many unfinished records its member holds of the partition, if that is too many.
            Set by `pressure`.
        doings: What becomes of records that have been unfinished for long. Set by `doings`.
        effects: What attempts at its records have left behind that no commit has taken along.
            Filed and taken by `effects`.
        load: How its records are spread over its hashes. Measured by `measuring`.
        came: When its records were fetched. Noted by `intake`.
        since_ms: When its ranges were assigned. Set by `beginning`.
        was_hot: It was one of a hot hash, and of nothing else, until it was given up. Set by
            `ending`.
    """

    key: TenureKey
    begun: bool = False
    logged: Logged = field(default_factory=Logged)
    falls: Falls = field(default_factory=Falls)
    attempts: dict[int, Attempt]
    is_void: bool = False
    refused: dict[int, Attempt] = field(default_factory=dict)
    noted: dict[int, tuple[Attempt, Attempt | None]] = field(default_factory=dict)
    finished: int = 0
    leader_epoch: int
    walled: int = 0
    doings: tuple[Doing, ...] = ()
    effects: dict[Record, Filed] = field(default_factory=dict)
    load: TenureLoad = field(default_factory=TenureLoad)
    came: FetchTimes = field(default_factory=FetchTimes)
    since_ms: int = 0
    was_hot: bool = False

    @property
    def id(self) -> TenureId:
        """Whose hold it is, and which number."""
        return self.key.tenure

    @property
    def state(self) -> TenureState:
        """How far it is; derived, so that it cannot disagree with the ranges."""
        if self.ranges:
            return TenureState.ACTIVE if self.begun else TenureState.BEGINNING
        return TenureState.DRAINING if self.draining else TenureState.ENDED

    def rename(self, key: TenureKey) -> None:
        """Go on under another key, with what is held; the old key's last record has the rest.

        Otherwise every record would repeat what was released, and grow with each rebalance.
        """
        assert not self.draining, f"I4: {self} still drains under its old name"
        kept = {
            offset: attempt
            for offset, attempt in self.attempts.items()
            if any(attempt.key_hash in r for r in self.ranges)
        }
        last = self.record()
        last = replace(
            last,
            released=union([*self.released, *self.ranges]),
            # It lies behind the new key's first record, which has these as they are by then.
            attempts=tuple(it for it in last.attempts if it.offset not in kept),
        )
        self.logged.begin_key((self.key, last))
        self.key = key
        self.attempts = kept
        self.forget_released()

    def make_void(self) -> None:
        """Go back to what is committed, for good; what runs still holds its hash.

        A failure of a record counts no more, either: what comes before it is to be done again.
        """
        self.is_void, self.dirty, self.finished = True, True, 0
        logged = self.logged
        if logged.retired is not None:
            key, last = logged.retired
            logged.retired = key, replace(self._committed(), released=last.released)

    def shares_history(self, other: Tenure) -> bool:
        """Whether facts of the one are facts of the other: they are of one topic and epoch."""
        return (self.key.topic_id, self.epoch) == (other.key.topic_id, other.epoch)

    def claims(self, load: ClaimLoad | None = None, *, log_lost: bool = False) -> tuple[Claim, ...]:
        """What JoinGroup says of it: what it processes, and what it is about to release.

        A range is released when the log has the release, not when that is sent. A member that
        began earlier would miss in the log what was finished here, and repeat it (I5). If the log
        is lost no release will come: then only running handlers count (I4).

        Args:
            load: What the records of its ranges cost. What it releases has none.
            log_lost: The log takes no more records.
        """
        draining = singles(self.draining)
        is_awaited = self.begun and not log_lost
        unlogged = subtract(self.released, self.logged.released) if is_awaited else ()
        parts = ((self.ranges, False), (union([*draining, *unlogged]), True))
        return tuple(
            Claim(
                self.id.number,
                self.tp,
                ranges,
                draining=ending,
                epoch=self.epoch,
                load=None if ending else load,
            )
            for ranges, ending in parts
            if ranges
        )

    # ---- its record ----------------------------------------------------------------------------

    def record(self) -> TenureRecord:
        """Its record in the progress log as of now."""
        if self.is_void:
            return self._committed()
        careful = self.falls.suspicion
        return TenureRecord(
            epoch=self.epoch,
            first_offset=self.logged.first_offset,
            facts=self.own_facts(),
            released=self.released,
            leader_epoch=self.leader_epoch,
            attempts=self._recorded_attempts(),
            others=self.logged.parts_end,
            walled=self.walled,
            doings=self._recorded_doings(),
            fallen=self.falls.owners,
            suspects=careful.bounds if careful else (),
            begun_to=careful.begun_to if careful else -1,
        )

    def _committed(self) -> TenureRecord:
        """What the log has of it, and what is released since."""
        last, logged = self.logged.record, self.logged
        assert last is not None, f"I9: {self} holds ranges before its first record is sent"
        kept = map(self._outlived, last.attempts)
        told = {it.offset: it for it in kept if it is not None} | self.refused
        return replace(
            last,
            first_offset=logged.first_offset,
            released=self.released,
            attempts=tuple(it for _, it in sorted(told.items())),
            others=logged.parts_end,
        )

    def _outlived(self, attempt: Attempt) -> Attempt | None:
        """What is known of an attempt in the log that has not ended the process, and is void."""
        noted, before = self.noted.get(attempt.offset, (None, None))
        is_over = attempt == noted and attempt.key_hash not in self.draining
        return before if is_over else attempt

    def take_back(self, hashes: Collection[int], told: Iterable[Attempt]) -> None:
        """Take back falls of hashes whose handler in another tenure has ended.

        It began while that handler ran, and knew from the log that its attempt had begun. The
        process has outlived the attempt. If its outcome counted, the record would be done, or its
        failure told. It does not count if that tenure had become void.

        Args:
            hashes: At which the other tenure was.
            told: What that tells of attempts since it has released them.
        """
        known_there = {it.offset: it for it in told}
        for offset, known in list(self.attempts.items()):
            if not known.fell or known.key_hash not in hashes:
                continue
            before = known_there.get(offset)
            if before is None:
                del self.attempts[offset]
                self.dirty = True
            elif before.attempts < known.attempts:
                self.attempts[offset] = before
                self.dirty = True

    def appended(self, record: TenureRecord) -> None:
        """The log has this record of it."""
        self.logged.record = record
        self.logged.attempts = {it.offset: it.attempts for it in record.attempts if it.fell}
        if self.falls.suspicion is not None:
            self.falls.suspicion.known_to = record.begun_to

    @property
    def has_untold_failures(self) -> bool:
        """Whether a record has failed that counts, and the log is not known to have that."""
        last, own = self.logged.record, self.refused if self.is_void else self.attempts
        known = {it.offset: (it.attempts, it.parked) for it in last.attempts} if last else {}
        failed = (it for it in own.values() if not it.fell)
        return any(known.get(it.offset) != (it.attempts, it.parked) for it in failed)

    def _recorded_doings(self) -> tuple[Doing, ...]:
        """Of `doings`, those whose record is unfinished still."""
        if not self.doings:
            return ()
        first = self.tracker.stable
        return tuple(it for it in self.doings if it.offset in self.pending or it.offset == first)

    def _recorded_attempts(self) -> tuple[Attempt, ...]:
        """By offset. If many records have failed, their errors are cut: each commit has them."""
        chars_max = max(_ERROR_CHARS_MIN, _ERRORS_CHARS // max(1, len(self.attempts)))
        return tuple(
            attempt
            if len(attempt.error) <= chars_max
            else replace(attempt, error=shortened(attempt.error, chars_max))
            for _, attempt in sorted(self.attempts.items())
        )

    def __repr__(self) -> str:
        ranges = " ".join(map(str, self.ranges))
        return f"Tenure({self.id} {self.tp} {self.state.name} {ranges or '-'})"
