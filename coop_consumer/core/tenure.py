"""A tenure: one incarnation's hold of ranges of one partition, and how it begins and ends. Pure.

    BEGINNING -first record acked-> ACTIVE -ranges given up-> DRAINING -last handler-> ENDED

A tenure's ranges only shrink. What it gives up is split in two: hashes with a running handler are
*draining*, everything else is *released* at once; a draining hash is released when its handler
ends. The tenure's record in the progress log lists all its facts, released or not, because
compaction keeps only the last one. Where the user pauses or seeks, a tenure that goes on begins its
*stream* anew; hashes with a running handler *linger*: their lanes wait for it, as in a handover.
Upholds I2 and I4 across members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from assignors import Claim, KeyRange, Wait, subtract, union
from coop_consumer.core.sought import Sought, clipped
from coop_consumer.plain_text import shortened
from offsets import (
    Attempt,
    Doing,
    GapTracker,
    OffsetRange,
    RangeProgress,
    TenureId,
    TenureKey,
    TenureRecord,
    melted,
    range_progress,
)

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core.effects import Effect
    from coop_consumer.core.suspicion import Suspicion


_ERRORS_CHARS, _ERROR_CHARS_MIN = 100_000, 20
"""What the errors of all failed records of a tenure may take in a record, and each of them."""


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


class Tenure:
    """One hold of ranges, with the tracker that knows what is done in them.

    Attributes:
        ranges: What it still holds and processes.
        draining: Handlers that still run, counted by hash, of ranges it has given up.
        lingering: Handlers that still run from before its stream began anew, counted by hash.
        released: What it has given up for good.
        waits: Other members' tenures that still claim some hash of `blocked`.
        blocked: Hashes of its ranges that a handler elsewhere (or of an older tenure here) is at.
        foreign: Hashes that are blocked since it began. What is done of them, those at them tell:
            while its record leaves them out, nobody takes theirs for superseded.
        untold: Hashes that were blocked when the user was told of its ranges: told once free.
        attempts: Failed tries by offset; they travel to the next owner in the record.
        dirty: Something a commit should say has changed since the last one was built.
        finished: How many records have been finished since then.
        pending: The tracker's pending offsets, at hand for the inner loop.
        acked_stable: The stable offset that the log is known to have.
        retired: The key it had before it was renamed, and that key's last record, until told.
        acked_released: The released ranges that the log is known to have.
        parts_end: The first number that no part of its record has had.
        parts_kept: The first number of a part, but for part 0, that the log is known to need.
        parts_gone: The first number of a part that may still be in the log without need.
        walled: How many unfinished records its member holds of the partition, if it is at the wall.
        doings: What becomes of unfinished records that stand for long, as last looked.
        fallen: How many owners in a row have fallen at its records.
        grace: How many records it has yet to finish before these falls are forgotten.
        first: How many records that it admits next run before those of other tenures.
        suspicion: What it is careful with, as its last owner fell; None: nothing.
        known_attempts: How often records were tried whose last attempt has no outcome, by offset,
            as the log has it.
        leader_epoch: The highest leader epoch of a data record that its facts rest on; -1: unknown.
        effects: What its unfinished records have left behind so far, by offset; see `effects`.
    """

    __slots__ = (
        "acked_released",
        "acked_stable",
        "attempts",
        "begun",
        "blocked",
        "dirty",
        "doings",
        "draining",
        "effects",
        "epoch",
        "fallen",
        "finished",
        "first",
        "first_offset",
        "foreign",
        "grace",
        "id",
        "key",
        "known_attempts",
        "leader_epoch",
        "lingering",
        "parts_end",
        "parts_gone",
        "parts_kept",
        "pending",
        "ranges",
        "released",
        "retired",
        "settled",
        "sought",
        "suspicion",
        "tp",
        "tracker",
        "untold",
        "waits",
        "walled",
    )

    def __init__(
        self,
        *,
        tp: TopicPartition,
        key: TenureKey,
        epoch: int,
        ranges: tuple[KeyRange, ...],
        tracker: GapTracker,
        waits: tuple[Wait, ...] = (),
        blocked: Iterable[int] = (),
        attempts: Iterable[Attempt] = (),
        leader_epoch: int = -1,
    ) -> None:
        self.tp = tp
        self.key = key
        self.id: TenureId = key.tenure
        self.epoch = epoch
        self.ranges = ranges
        self.tracker = tracker
        self.pending = tracker.pending
        self.waits = waits
        self.blocked = set(blocked)
        self.foreign = set(self.blocked)
        self.untold: set[int] = set()
        self.attempts = {attempt.offset: attempt for attempt in attempts}
        self.draining: Counter[int] = Counter()
        self.lingering: Counter[int] = Counter()
        self.settled: tuple[RangeProgress, ...] = ()  # of what was released to an earlier tracker
        self.sought: Sought | None = None
        self.released: tuple[KeyRange, ...] = ()
        self.first_offset = -1
        self.acked_stable = 0
        self.acked_released: tuple[KeyRange, ...] = ()
        self.leader_epoch = leader_epoch
        self.begun = False
        self.retired: tuple[TenureKey, TenureRecord] | None = None
        self.dirty = False
        self.finished = 0
        self.parts_end = self.parts_kept = self.parts_gone = 1
        self.walled = 0
        self.doings: tuple[Doing, ...] = ()
        self.fallen = self.grace = self.first = 0
        self.suspicion: Suspicion | None = None
        self.known_attempts: dict[int, int] = {}
        self.effects: dict[int, Effect] = {}

    def rename(self, key: TenureKey) -> None:
        """Go on under another key, with what is held; the old key's last record tells the rest.

        What was released would else be told again in every record, and grow with each rebalance.
        """
        assert not self.draining, f"I4: {self} still drains under its old name"
        last = replace(self.record(), released=union([*self.released, *self.ranges]))
        self.retired = (self.key, last)
        self.key, self.id, self.first_offset = key, key.tenure, -1
        self.parts_end = self.parts_kept = self.parts_gone = 1
        self.released = self.acked_released = ()
        self.settled = ()
        self.attempts = {
            offset: attempt
            for offset, attempt in self.attempts.items()
            if any(attempt.key_hash in r for r in self.ranges)
        }
        self.tracker.forget_released()
        self.dirty = True

    @property
    def state(self) -> TenureState:
        """How far it is; derived, so that it cannot disagree with the ranges."""
        if self.ranges:
            return TenureState.ACTIVE if self.begun else TenureState.BEGINNING
        return TenureState.DRAINING if self.draining else TenureState.ENDED

    def shares_history(self, other: Tenure) -> bool:
        """Whether facts of the one are facts of the other: they are of one topic and epoch."""
        return (self.key.topic_id, self.epoch) == (other.key.topic_id, other.epoch)

    @property
    def held(self) -> tuple[KeyRange, ...]:
        """Ranges and draining hashes: all that nobody else may start."""
        return union([*self.ranges, *(KeyRange(hash_, hash_) for hash_ in self.draining)])

    def claims(self, *, log_lost: bool = False) -> tuple[Claim, ...]:
        """What JoinGroup says of it: what it processes, and what it is about to let go.

        A range is let go when the log has its release, not when that is sent: whoever begins
        meanwhile would not find in the log what was finished here, and do it again (I5). Where the
        log is lost no release will come: then only running handlers count (I4).
        """
        draining = union(KeyRange(hash_, hash_) for hash_ in self.draining)
        is_awaited = self.begun and not log_lost
        untold = subtract(self.released, self.acked_released) if is_awaited else ()
        parts = ((self.ranges, False), (union([*draining, *untold]), True))
        return tuple(
            Claim(self.id.number, self.tp, ranges, draining=ending, epoch=self.epoch)
            for ranges, ending in parts
            if ranges
        )

    def give_up(self, ranges: tuple[KeyRange, ...], running: Iterable[int]) -> None:
        """Stop holding `ranges`; hashes in `running` (once a handler) drain, the rest is released.

        The lanes of these ranges must have been given up before.
        """
        self.draining.update(running)
        for hash_ in [h for h in self.lingering if any(h in r for r in ranges)]:
            self.draining[hash_] += self.lingering.pop(hash_)
        singles = union(KeyRange(hash_, hash_) for hash_ in self.draining)
        self._release(subtract(ranges, singles))
        self.ranges = subtract(self.ranges, ranges)
        self.blocked = {h for h in self.blocked if any(h in r for r in self.ranges)}
        if not self.blocked:
            self.waits = ()

    def drained(self, key_hash: int) -> tuple[RangeProgress, ...]:
        """A handler of a given-up hash has ended; if it was the last, the hash is released.

        Returns what is done of that hash, or nothing while another handler of it runs.
        """
        self.draining[key_hash] -= 1
        if self.draining[key_hash] > 0:
            return ()
        del self.draining[key_hash]
        return self._release((KeyRange(key_hash, key_hash),))

    def _release(self, ranges: tuple[KeyRange, ...]) -> tuple[RangeProgress, ...]:
        if not ranges:
            return ()
        self.released = union([*self.released, *ranges])
        self.dirty = True
        return self._true(self.tracker.release(ranges))

    # ---- its stream begins anew ----------------------------------------------------------------

    def begin_anew(self, running: Iterable[int], offset: int | None) -> None:
        """Forget what is admitted; the stream has to start at `tracker.seen_to` again.

        The lanes of all its ranges must have been given up before; the hashes in `running` (once a
        handler) linger and are blocked.

        Args:
            running: Hashes of the lanes with a running handler.
            offset: None: go on with what is not done. Else every record at or above it is admitted
                once more, done or not, and none below.
        """
        self.lingering.update(running)
        self.blocked |= set(self.lingering)
        facts = self.facts()
        if offset is None:
            inherited = clipped(self.tracker.facts(), self.held)
        else:
            inherited = tuple(RangeProgress(key_range, offset) for key_range in self.held)
            self.sought = Sought(offset, facts)
        self.settled = clipped(facts, self.released)
        self.tracker = GapTracker(inherited)
        self.pending = self.tracker.pending
        self.dirty = True

    def lingered(self, key_hash: int) -> bool:
        """A handler of a lingering hash has ended. True: it was the last one of that hash."""
        self.lingering[key_hash] -= 1
        if self.lingering[key_hash] > 0:
            return False
        del self.lingering[key_hash]
        return True

    def finished_late(self, offset: int) -> None:
        """A record that is not pending is finished: its stream began anew while it ran.

        A partition has one record at an offset, so it may be told for all of our hashes.
        """
        done = OffsetRange(offset, offset)
        facts = [range_progress(key_range, 0, [done]) for key_range in self.tracker.held]
        self.tracker.learn(facts)
        if self.sought is not None:
            self.sought.learn(facts)
        self.dirty = True

    def learn(self, facts: Iterable[RangeProgress]) -> None:
        """Add facts of predecessors; what they say is done will not run, unless it was sought."""
        if self.sought is not None:
            self.sought.learn(facts)
        else:
            self.tracker.learn(facts)
        self.dirty = True  # what it tells has grown, though no record of its own was finished

    # ---- what it tells -------------------------------------------------------------------------

    def _true(self, told: Iterable[RangeProgress]) -> tuple[RangeProgress, ...]:
        return tuple(told) if self.sought is None else self.sought.true(told)

    def facts(self) -> tuple[RangeProgress, ...]:
        """What is done of all hashes it ever held."""
        if self.sought is None and not self.settled:
            return self.tracker.facts()
        return melted([*self._true(self.tracker.facts()), *self.settled])

    def _told_facts(self) -> tuple[RangeProgress, ...]:
        facts = self.facts()
        if not self.foreign:
            return facts
        foreign = union(KeyRange(hash_, hash_) for hash_ in self.foreign)
        return clipped(facts, subtract(union(fact.range for fact in facts), foreign))

    def record(self) -> TenureRecord:
        """Its record in the progress log as of now."""
        careful = self.suspicion
        return TenureRecord(
            epoch=self.epoch,
            first_offset=self.first_offset,
            facts=self._told_facts(),
            released=self.released,
            leader_epoch=self.leader_epoch,
            attempts=self._told_attempts(),
            others=self.parts_end,
            walled=self.walled,
            doings=self._told_doings(),
            fallen=self.fallen,
            suspects=careful.bounds if careful else (),
            begun_to=careful.begun_to if careful else -1,
        )

    def is_known(self, record: TenureRecord) -> None:
        """The log has this record of it."""
        self.known_attempts = {it.offset: it.attempts for it in record.attempts if it.fell}
        if self.suspicion is not None:
            self.suspicion.known_to = record.begun_to

    def _told_doings(self) -> tuple[Doing, ...]:
        """What still stands: `doings` is as old as the last look."""
        if not self.doings:
            return ()
        first = self.tracker.stable
        return tuple(it for it in self.doings if it.offset in self.pending or it.offset == first)

    def _told_attempts(self) -> tuple[Attempt, ...]:
        """By offset. Where many have failed, their errors are cut short: each commit has them."""
        chars_max = max(_ERROR_CHARS_MIN, _ERRORS_CHARS // max(1, len(self.attempts)))
        return tuple(
            attempt
            if len(attempt.error) <= chars_max
            else replace(attempt, error=shortened(attempt.error, chars_max))
            for _, attempt in sorted(self.attempts.items())
        )

    def check(self) -> None:
        """Assert that held and released ranges are apart, and the tracker agrees (I1, I2)."""
        assert not any(r.overlaps(h) for r in self.released for h in self.held), (
            f"I1: {self} holds what it has released"
        )
        assert set(self.lingering) <= self.blocked, f"I4: {self} runs a key twice"
        assert self.tracker.held == self.held, f"I2: {self} holds {self.held}, its tracker differs"
        self.tracker.check()

    def __repr__(self) -> str:
        ranges = " ".join(map(str, self.ranges))
        return f"Tenure({self.id} {self.tp} {self.state.name} {ranges or '-'})"
