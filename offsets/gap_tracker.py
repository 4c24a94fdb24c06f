"""Gaps of one tenure in one partition: what it admitted and has not finished. Pure; one thread.

In: the facts the tenure inherits, then per batch of its stream the admitted offsets and what the
batch covered, then finished offsets in any order; later facts of predecessors; releases. Out: the
facts to commit. Upholds I2, I3, I8 and I10.

The owner of a range counts the records of other hashes as done inside its own rectangle. So only
admitted, unfinished offsets are stored (`pending`): below `seen_to`, everything else is done, and
the gap ranges are what lies between two pending offsets. A record costs one dict insertion and one
deletion, a commit O(pending), however far apart the records of the range lie.

Inherited facts keep the range cut into pieces. Below the top of what was inherited a pending offset
holds back only the piece of its own hash; above it, the whole tenure. So the pieces become equal,
and melt into one, when the stable offset passes that top, and no fact once told is ever taken back
on the way (I3 holds for every cell of hash x offset, not only where a record lies).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from sys import getsizeof

from assignors.key_range import KeyRange, covers, intersect, subtract, union
from offsets import offset_range
from offsets.offset_range import OffsetRange, offset_ranges
from offsets.progress import (
    Gaps,
    PartitionProgress,
    RangeProgress,
    melted,
    range_progress,
)

_LOOSE_BYTES = 88
"""A record: how much the dict of pending offsets may take before it is packed; packed, 30 to 60."""

_SMALL_BYTES = 4_096  # what is not worth the packing


class GapTracker:
    """What one tenure has seen, not finished, and done, in one partition.

    Per batch of the stream, in this order: `admit` each record of the tenure's hashes at or above
    `seen_to`, then `cover` what the batch spans; an offset in it that was not admitted counts as
    foreign, or as a hole, and thereby as done. A caller in a hurry may write
    `tracker.pending[offset] = key_hash` for `admit` while `ahead` is false, and
    `del tracker.pending[offset]` for `done`.

    A record in flight takes at most 100 bytes, counted at a commit, besides its offset and hash,
    which are the record's own (`benchmarks/gaps.py`).

    Args:
        inherited: Facts whose ranges are disjoint; together they are the tenure's ranges.

    Attributes:
        pending: Admitted, unfinished offsets with their key hashes; ascending.
        seen_to: The first offset the tenure's streams have not covered. Starts at the lowest
            stable offset inherited: the stream has to begin there, or below.

    Raises:
        ValueError: If nothing is inherited, or two of the ranges overlap.

    >>> tracker = GapTracker([RangeProgress(KeyRange(0, 9), stable=41)])
    >>> [tracker.admit(offset, key_hash=3) for offset in (41, 42, 44)]
    [True, True, True]
    >>> tracker.cover(41, 50)
    >>> tracker.done(42)
    True
    >>> [str(fact) for fact in tracker.facts()]
    ['[0, 9] stable 41 gaps [42-43],[45-49]']
    """

    __slots__ = (
        "_held",
        "_inherited",
        "_marked",
        "_marked_ahead",
        "_marked_pending",
        "_marked_seen_to",
        "_released",
        "_top",
        "_turns",
        "pending",
        "seen_to",
    )

    def __init__(self, inherited: Iterable[RangeProgress]) -> None:
        facts = melted(inherited)
        if not facts:
            raise ValueError("a tenure has at least one range: no facts were given")
        for fact, following in pairwise(facts):
            if fact.range.overlaps(following.range):
                raise ValueError(f"a tenure's facts overlap: {fact.range} and {following.range}")
        self._held = union(fact.range for fact in facts)
        self._released: tuple[RangeProgress, ...] = ()
        self.seen_to = min(fact.stable for fact in facts)
        self._inherited = PartitionProgress(floor=self.seen_to, keep_cuts=True)
        for fact in facts:
            self._inherited.merge(fact)
        self._top = max(fact.next_offset for fact in facts)
        self.pending: dict[int, int] = {}
        self._turns = 0  # how often facts changed other than by the stream and by finished records
        self._marked: tuple[int, int, int] | None = None
        self._mark()

    @property
    def held(self) -> tuple[KeyRange, ...]:
        """The ranges not released, as a range set."""
        return self._held

    @property
    def ahead(self) -> bool:
        """Whether an inherited fact lies at or above `seen_to`, so that `admit` has to look."""
        return self._top > self.seen_to

    @property
    def stable(self) -> int:
        """The first offset not done in the held ranges, as far as the streams have seen (I10).

        What is inherited above `seen_to` does not raise it. Meant for once a commit: a dict steps
        over the entries deleted at its front, with 60,000 in flight for tens of microseconds. Still
        it beats all structures that cost more a record (`benchmarks/structures.py`).
        """
        return min(next(iter(self.pending), self.seen_to), self.seen_to)

    @property
    def changed(self) -> bool:
        """Whether `facts` tells more than at the last `mark_committed`; True before the first.

        May be late by a batch while one is admitted but not covered. O(1).
        """
        return self._marked != self._signature()

    def admit(self, offset: int, key_hash: int) -> bool:
        """Start tracking a record; offsets ascend, holes are fine.

        Returns:
            True: process it. False: an inherited fact says it is done already.

        Raises:
            ValueError: If `offset` lies below `seen_to`: such a record has been counted already.

        One dict insertion; while `ahead`, plus O(log pieces + log gaps).
        """
        if offset < self.seen_to:
            raise ValueError(f"I10: offset {offset} is below {self.seen_to}, seen already")
        if offset < self._top and self._inherited.is_done(key_hash, offset):
            return False
        self.pending[offset] = key_hash
        return True

    def cover(self, start: int, end: int) -> None:
        """A batch of the tenure's stream covered [start, end) without interruption. O(1).

        Raises:
            ValueError: If `start` lies above `seen_to`. The offsets between were in no batch, and
                a jump of the fetch position is never a hole.
        """
        if start > self.seen_to:
            raise ValueError(
                f"I10: a batch of [{start}, {end}) leaves [{self.seen_to}, {start}) unseen; the "
                f"stream of {_told(self._held)} has to continue at {self.seen_to} or below"
            )
        self.seen_to = max(self.seen_to, end)

    def done(self, offset: int) -> bool:
        """A record is finished. One dict deletion.

        Returns:
            False if it was not pending: finished before, learned, or released meanwhile.
        """
        return self.pending.pop(offset, None) is not None

    def learn(self, facts: Iterable[RangeProgress]) -> list[int]:
        """Add facts of predecessors that arrive after the start, as when a hash has drained.

        Facts about hashes not held are ignored; those above `seen_to` are remembered for `admit`.

        Returns:
            The pending offsets they say are done, ascending: dropped here, not to be processed.

        O(pending log pieces), plus the merge of the facts.
        """
        held_facts = [
            RangeProgress(key_range, fact.stable, fact.gaps)
            for fact in facts
            for key_range in intersect(self._held, (fact.range,))
        ]
        for fact in held_facts:
            self._inherited.merge(fact)
            self._top = max(self._top, fact.next_offset)
        is_done = self._inherited.is_done
        dropped = [o for o, key_hash in self.pending.items() if is_done(key_hash, o)]
        for offset in dropped:
            del self.pending[offset]
        self._turns += bool(held_facts)
        return dropped

    def release(self, ranges: Iterable[KeyRange]) -> tuple[RangeProgress, ...]:
        """Give up held hashes: freeze their facts as they are, drop their pending offsets.

        `facts` goes on listing what was frozen; the other hashes go on. What is given up has to
        stay unprocessed in this tenure: a later `done` of it is without effect.

        Returns:
            The frozen facts of these ranges.

        Raises:
            ValueError: If one of the hashes is not held.

        O(pending log pieces).
        """
        given_up = union(ranges)
        if not covers(self._held, given_up):
            raise ValueError(
                f"cannot release {_told(subtract(given_up, self._held))}: the tenure holds "
                f"{_told(self._held) or 'nothing any more'}"
            )
        pieces = self._pieces(given_up)
        missing = self._missing(pieces)
        frozen = melted(
            self._fact(piece, [o for o in offsets if o < self.seen_to])
            for piece, offsets in zip(pieces, missing, strict=True)
        )
        for offset in chain.from_iterable(missing):
            del self.pending[offset]
        self._held = subtract(self._held, given_up)
        self._released = melted((*self._released, *frozen))
        self._turns += bool(frozen)
        return frozen

    def forget_released(self) -> None:
        """List what was released no more in `facts`: another record tells it, once for all."""
        self._released = ()

    def facts(self) -> tuple[RangeProgress, ...]:
        """All facts of the tenure, of held and released hashes, sorted by range.

        O(pending log pieces); each gap range listed costs about 0.5 µs.
        """
        return melted((*self._held_facts(), *self._released))

    def mark_committed(self) -> None:
        """What `facts` tells now has been handed to a commit. O(pending)."""
        self._marked = self._signature()
        self._mark()
        self._pack()

    def news(self) -> Gaps:
        """The offsets done in all held hashes now that were not so at the last `mark_committed`.

        Before the first: those not inherited. O(pending + gap ranges).
        """
        seen = offset_ranges([self._marked_seen_to], [self.seen_to - 1])
        candidates = offset_range.union(
            chain(
                offset_ranges(self._marked_pending, self._marked_pending),
                seen if self._marked_seen_to < self.seen_to else (),
                self._ahead_of_all(),
            )
        )
        pending = offset_range.union(offset_ranges(self.pending, self.pending))
        return offset_range.subtract(offset_range.subtract(candidates, pending), self._marked_ahead)

    def check(self) -> None:
        """Assert what must hold between any two calls. O(pending log pieces)."""
        self._inherited.check()
        assert self.stable <= self.seen_to, "I10: stable is at most seen_to"
        offsets = list(self.pending)
        assert all(a < b for a, b in pairwise(offsets)), "I10: pending offsets ascend"
        for offset, key_hash in self.pending.items():
            assert any(key_hash in r for r in self._held), f"I2: {offset} is not held"
            assert not self._inherited.is_done(key_hash, offset), f"I2: {offset} is done already"
        facts = self.facts()
        for fact, following in pairwise(facts):
            assert not fact.range.overlaps(following.range), "I3: a hash has one fact"
        for fact in self._released:
            assert not intersect(self._held, (fact.range,)), "I2: what is released is not held"
        for fact in facts:
            for held in intersect(self._held, (fact.range,)):
                claimed = [o for o, h in self.pending.items() if h in held and fact.is_done(o)]
                assert not claimed, f"I2: {claimed} are pending but told as done in {fact}"

    # ── Facts of held hashes ──

    def _held_facts(self) -> tuple[RangeProgress, ...]:
        if self.stable >= self._top:  # every piece has caught up with what was inherited
            self._inherited = PartitionProgress(floor=self._top, keep_cuts=True)
            common = _between(list(self.pending), self.seen_to)
            return tuple(RangeProgress(key_range, *common) for key_range in self._held)
        limit = min(self._top, self.seen_to)
        shared = [o for o in self.pending if self._top <= o < self.seen_to]
        common = _between(shared, self.seen_to)
        pieces = self._pieces(self._held)
        return tuple(
            self._fact(piece, own + shared)
            if own or piece.next_offset > self.seen_to
            else RangeProgress(piece.range, *common)
            for piece, own in zip(pieces, self._missing(pieces, limit), strict=True)
        )

    def _pieces(self, ranges: Iterable[KeyRange]) -> list[RangeProgress]:
        """What was inherited for these ranges."""
        return [piece for key_range in ranges for piece in self._inherited.clip(key_range)]

    def _missing(
        self, pieces: Sequence[RangeProgress], limit: int | None = None
    ) -> list[list[int]]:
        """Per piece, the pending offsets of its hashes (below `limit`), ascending."""
        los = [piece.range.lo for piece in pieces]
        his = [piece.range.hi for piece in pieces]
        missing: list[list[int]] = [[] for _ in pieces]
        for offset, key_hash in self.pending.items():
            if limit is not None and offset >= limit:
                break
            i = bisect_right(los, key_hash) - 1
            if i >= 0 and key_hash <= his[i]:
                missing[i].append(offset)
        return missing

    def _fact(self, piece: RangeProgress, missing: list[int]) -> RangeProgress:
        """What is done in a piece: inherited, or seen and not missing."""
        stable, gaps = _between(missing, self.seen_to)
        if piece.next_offset <= self.seen_to:
            return RangeProgress(piece.range, stable, gaps)
        return range_progress(piece.range, stable, chain(gaps, _above(piece, self.seen_to)))

    # ── What a commit told ──

    def _signature(self) -> tuple[int, int, int]:
        # An admitted record raises seen_to (with its batch) and a finished one lowers the number
        # of pending ones, so both numbers stay the same only if nothing happened.
        return self.seen_to, len(self.pending), self._turns

    def _mark(self) -> None:
        self._marked_seen_to = self.seen_to
        self._marked_pending = [o for o in self.pending if o < self.seen_to]
        self._marked_ahead = self._ahead_of_all()

    def _pack(self) -> None:
        """Give back the room of finished records, if it is much.

        A dict only appends, and doubles when the room of deleted entries is used up, so one through
        which records stream takes up to 120 bytes for each that is left.
        """
        if getsizeof(self.pending) > _LOOSE_BYTES * len(self.pending) + _SMALL_BYTES:
            packed = dict(self.pending)
            self.pending.clear()  # the very dict is known to others
            self.pending.update(packed)

    def _ahead_of_all(self) -> Gaps:
        """The offsets at or above `seen_to` that are inherited for every held hash."""
        if not self.ahead or not self._held:
            return ()
        unseen = OffsetRange(self.seen_to, self._top - 1)
        return offset_range.complement(
            offset_range.union(
                chain.from_iterable(
                    offset_range.complement(_above(piece, self.seen_to), unseen)
                    for piece in self._pieces(self._held)
                )
            ),
            unseen,
        )


def _between(missing: list[int], end: int) -> tuple[int, Gaps]:
    """Stable offset and gap ranges, if everything below `end` is done but these offsets."""
    if missing and missing[-1] >= end:
        missing = [offset for offset in missing if offset < end]
    if not missing:
        return end, ()
    following = [*missing[1:], end]
    firsts = [a + 1 for a, b in zip(missing, following, strict=True) if b - a > 1]
    lasts = [b - 1 for a, b in zip(missing, following, strict=True) if b - a > 1]
    return missing[0], offset_ranges(firsts, lasts)


def _above(piece: RangeProgress, offset: int) -> Gaps:
    """What an inherited piece has done at or above an offset (a gap range across it is whole)."""
    done = tuple(gap for gap in piece.gaps if gap.last >= offset)
    return (OffsetRange(offset, piece.stable - 1), *done) if piece.stable > offset else done


def _told(ranges: tuple[KeyRange, ...]) -> str:
    return ", ".join(map(str, ranges))
