"""Gaps of one tenure in one partition: what it admitted and has not finished. Pure; one thread.

In: the facts the tenure inherits, then per batch of its stream the admitted offsets and what the
batch covered, then finished offsets in any order; later facts of predecessors; releases. Out: the
facts to commit. Upholds I2, I3, I8 and I10.

The owner of a range counts the records of other hashes as done inside its own rectangle. So only
admitted, unfinished offsets are stored (`pending`): below `seen_to`, everything else is done, and
the gap ranges are what lies between two pending offsets. A record costs one dict insertion and one
deletion, however far apart the records of the range lie.

Facts end at the first waiting record above which no record is finished. Each waiting record beyond
would add one more gap range, of the foreign records before it: thousands in a backlog, in each
commit. So a commit costs in proportion to the records in progress, not to those that wait.

Inherited facts keep the range cut into pieces. Below the highest inherited offset, a pending offset
holds back only the piece of its own hash; above it, the whole tenure. So the pieces become equal
and melt into one when the stable offset passes that offset. No fact is ever taken back on the way:
I3 holds for every cell of hash x offset, not only where a record lies.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise, repeat
from sys import getsizeof

from assignors.key_range import KeyRange, covers, intersect, subtract, union
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
    `seen_to`, then `cover` the offsets of the batch. An offset of the batch that was not admitted
    is a foreign record or a hole, and counts as done. `admit_many` does both at once, while `ahead`
    is false.

    A record in flight takes at most 100 bytes, counted when `facts` are told, besides its offset
    and hash, which are the record's own (`benchmarks/gaps.py`).

    Args:
        inherited: Facts whose ranges are disjoint; together they are the tenure's ranges.

    Attributes:
        held: The ranges not released, as a range set.
        pending: Admitted, unfinished offsets with their key hashes; ascending.
        seen_to: The first offset the tenure's streams have not covered. Starts at the lowest
            stable offset inherited: the stream has to begin there, or below.
        done_to: No offset at or above it was finished here.

    Raises:
        ValueError: If nothing is inherited, or two of the ranges overlap.

    >>> tracker = GapTracker([RangeProgress(KeyRange(0, 9), stable=41)])
    >>> [tracker.admit(offset, key_hash=3) for offset in (41, 42, 44)]
    [True, True, True]
    >>> tracker.cover(41, 50)
    >>> tracker.done_many([42])
    []
    >>> [str(fact) for fact in tracker.facts()]
    ['[0, 9] stable 41 gaps [42-43]']
    """

    __slots__ = (
        "_inherited",
        "_released",
        "_top",
        "done_to",
        "held",
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
        self.held = union(fact.range for fact in facts)
        self._released: tuple[RangeProgress, ...] = ()
        self.seen_to = min(fact.stable for fact in facts)
        self._inherited = PartitionProgress(floor=self.seen_to, keep_cuts=True)
        for fact in facts:
            self._inherited.merge(fact)
        self._top = max(fact.next_offset for fact in facts)
        self.pending: dict[int, int] = {}
        self.done_to = self.seen_to

    @property
    def ahead(self) -> bool:
        """Whether an inherited fact lies at or above `seen_to`, so that `admit` has to look."""
        return self._top > self.seen_to

    @property
    def stable(self) -> int:
        """The first offset not done in the held ranges, as far as the streams have seen (I10).

        Facts inherited above `seen_to` do not raise it. Ask once a commit, not once a record: a
        dict steps over the entries deleted at its front, which takes tens of microseconds with
        60,000 in flight. Structures that answer faster cost more a record
        (`benchmarks/structures.py`).
        """
        return min(next(iter(self.pending), self.seen_to), self.seen_to)

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
                f"stream of {_told(self.held)} has to continue at {self.seen_to} or below"
            )
        self.seen_to = max(self.seen_to, end)

    def admit_many(self, offsets: Sequence[int], hashes: Sequence[int], end: int) -> None:
        """Start tracking all of our records in a batch, and cover the batch up to `end`.

        Offsets ascend. One dict insertion a record.

        Raises:
            ValueError: If `ahead` is true, as some may be done then, or the first of them lies
                below `seen_to`.
        """
        if self._top > self.seen_to or (offsets and offsets[0] < self.seen_to):
            raise ValueError(f"I10: offsets below {max(self._top, self.seen_to)} come one by one")
        self.pending.update(zip(offsets, hashes, strict=True))
        self.seen_to = max(self.seen_to, end)

    def done_many(self, offsets: Sequence[int]) -> list[int]:
        """Records are finished, in any order. One dict deletion a record.

        Returns:
            Those that were not pending: finished before, learned, or released meanwhile.
        """
        hashes = list(map(self.pending.pop, offsets, repeat(None)))
        self.done_to = max(self.done_to, max(offsets) + 1)
        if None not in hashes:
            return []
        return [
            offset for offset, key_hash in zip(offsets, hashes, strict=True) if key_hash is None
        ]

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
            for key_range in intersect(self.held, (fact.range,))
        ]
        for fact in held_facts:
            self._inherited.merge(fact)
            self._top = max(self._top, fact.next_offset)
        is_done = self._inherited.is_done
        dropped = [o for o, key_hash in self.pending.items() if is_done(key_hash, o)]
        for offset in dropped:
            del self.pending[offset]
        return dropped

    def release(self, ranges: Iterable[KeyRange]) -> tuple[RangeProgress, ...]:
        """Give up held hashes: freeze their facts as they are, drop their pending offsets.

        `facts` goes on listing the frozen facts; the other hashes go on. Records of the hashes
        given up must stay unprocessed in this tenure: a later `done_many` of them has no effect.

        Returns:
            The frozen facts of these ranges.

        Raises:
            ValueError: If one of the hashes is not held.

        O(pending log pieces).
        """
        given_up = union(ranges)
        if not covers(self.held, given_up):
            raise ValueError(
                f"cannot release {_told(subtract(given_up, self.held))}: the tenure holds "
                f"{_told(self.held) or 'nothing any more'}"
            )
        pieces = self._pieces(given_up)
        missing = self._missing(pieces)
        frozen = melted(
            self._fact(piece, offsets, self._end(offsets))
            for piece, offsets in zip(pieces, missing, strict=True)
        )
        for offset in chain.from_iterable(missing):
            del self.pending[offset]
        self.held = subtract(self.held, given_up)
        self._released = melted((*self._released, *frozen))
        return frozen

    def forget_released(self) -> None:
        """List what was released no more in `facts`: another record tells it, once for all."""
        self._released = ()

    def facts(self) -> tuple[RangeProgress, ...]:
        """All facts of the tenure, of held and released hashes, sorted by range.

        O(pending log pieces); each gap range listed costs about 0.5 µs.
        """
        self._pack()
        return melted((*self._held_facts(), *self._released))

    def check(self) -> None:
        """Assert what must hold between any two calls. O(pending log pieces)."""
        self._inherited.check()
        assert self.stable <= self.seen_to, "I10: stable is at most seen_to"
        offsets = list(self.pending)
        assert all(a < b for a, b in pairwise(offsets)), "I10: pending offsets ascend"
        for offset, key_hash in self.pending.items():
            assert any(key_hash in r for r in self.held), f"I2: {offset} is not held"
            assert not self._inherited.is_done(key_hash, offset), f"I2: {offset} is done already"
        facts = self.facts()
        for fact, following in pairwise(facts):
            assert not fact.range.overlaps(following.range), "I3: a hash has one fact"
        for fact in self._released:
            assert not intersect(self.held, (fact.range,)), "I2: what is released is not held"
        for fact in facts:
            for held in intersect(self.held, (fact.range,)):
                claimed = [o for o, h in self.pending.items() if h in held and fact.is_done(o)]
                assert not claimed, f"I2: {claimed} are pending but told as done in {fact}"

    # ── Facts of held hashes ──

    def _end(self, missing: list[int]) -> int:
        """Where facts end if these records wait.

        Never below where they ended before (I3): what is admitted later lies above that.
        """
        first = bisect_left(missing, self.done_to)
        return min(missing[first], self.seen_to) if first < len(missing) else self.seen_to

    def _held_facts(self) -> tuple[RangeProgress, ...]:
        waiting = list(self.pending)
        end = self._end(waiting)
        if self.stable >= self._top:  # every piece has caught up with what was inherited
            self._inherited = PartitionProgress(floor=self._top, keep_cuts=True)
            common = _between(waiting, end)
            return tuple(RangeProgress(key_range, *common) for key_range in self.held)
        limit = min(self._top, end)
        shared = waiting[bisect_left(waiting, self._top) : bisect_left(waiting, end)]
        common = _between(shared, end)
        pieces = self._pieces(self.held)
        return tuple(
            self._fact(piece, own + shared, end)
            if own or piece.next_offset > end
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

    def _fact(self, piece: RangeProgress, missing: list[int], end: int) -> RangeProgress:
        """What is done in a piece: inherited, or below `end` and not missing."""
        stable, gaps = _between(missing, end)
        if piece.next_offset <= end:
            return RangeProgress(piece.range, stable, gaps)
        return range_progress(piece.range, stable, chain(gaps, _above(piece, end)))

    def _pack(self) -> None:
        """Give back the room of finished records, if it is much.

        A dict only appends, and doubles when the room of deleted entries is used up, so one through
        which records stream takes up to 120 bytes for each that is left.
        """
        if getsizeof(self.pending) > _LOOSE_BYTES * len(self.pending) + _SMALL_BYTES:
            packed = dict(self.pending)
            self.pending.clear()  # the very dict is known to others
            self.pending.update(packed)


def _between(missing: list[int], end: int) -> tuple[int, Gaps]:
    """Stable offset and gap ranges, if everything below `end` is done but these offsets."""
    missing = missing[: bisect_left(missing, end)]
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
