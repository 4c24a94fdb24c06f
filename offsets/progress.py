"""Progress: which records of which key hashes are done. Pure; one thread.

In: `RangeProgress` values, facts of the form "every record of this key range below `stable` or
inside a gap range is done". Out: their union over the hash space of one partition and one epoch
(`PartitionProgress`). Facts are only ever added, so merging is commutative, associative and
idempotent. This upholds I3 under reordered, repeated and concurrent commits. Nothing here knows who
did the work.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from operator import itemgetter, sub
from typing import TypeAlias

from assignors.key_hash import KEY_HASH_MAX
from assignors.key_range import WHOLE, KeyRange
from offsets import offset_range
from offsets.offset_range import OFFSET_MAX, OffsetRange

Gaps: TypeAlias = tuple[OffsetRange, ...]

_FIRST, _LAST = itemgetter(0), itemgetter(1)


@dataclass(frozen=True, slots=True, order=True)
class RangeProgress:
    """A fact: every record of `range` below `stable` or inside a gap range is done.

    Attributes:
        range: The key hashes it speaks of.
        stable: The first offset not known to be done.
        gaps: Done offset ranges above `stable`: ascending, disjoint, not adjacent to each other
            nor to `stable`, so that equal facts are equal values. `range_progress` brings any
            ranges into this form.

    Raises:
        ValueError: If `stable` is no offset, or `gaps` are not in that form. O(gaps).

    >>> print(RangeProgress(KeyRange(0, 9), 43, (OffsetRange(45, 47), OffsetRange(50, 50))))
    [0, 9] stable 43 gaps [45-47],[50-50]
    """

    range: KeyRange
    stable: int
    gaps: Gaps = ()

    def __post_init__(self) -> None:
        if not 0 <= self.stable <= OFFSET_MAX + 1:
            raise ValueError(f"stable offset {self.stable} is not in 0 to {OFFSET_MAX + 1}")
        gaps = self.gaps
        if gaps and (gaps[0].first <= self.stable or _nearest(gaps) < 2):
            raise ValueError(
                f"gap ranges above stable offset {self.stable} must ascend and must touch neither "
                "it nor each other; range_progress() normalises them"
            )

    def __str__(self) -> str:
        gaps = f" gaps {','.join(map(str, self.gaps))}" if self.gaps else ""
        return f"{self.range} stable {self.stable}{gaps}"

    @property
    def next_offset(self) -> int:
        """The first offset above everything known to be done."""
        return self.gaps[-1].last + 1 if self.gaps else self.stable

    def is_done(self, offset: int) -> bool:
        """Whether the records of this range at `offset` are done. O(log gaps)."""
        return offset < self.stable or offset_range.contains(self.gaps, offset)


def range_progress(
    range: KeyRange,  # noqa: A002 -- the field's name
    stable: int,
    gaps: Iterable[OffsetRange] = (),
) -> RangeProgress:
    """The fact that `range` is done below `stable` and inside `gaps`, given in any order.

    >>> str(range_progress(KeyRange(0, 9), 43, [OffsetRange(45, 47), OffsetRange(40, 44)]))
    '[0, 9] stable 48'
    """
    return RangeProgress(range, *normalised(stable, gaps))


def normalised(stable: int, gaps: Iterable[OffsetRange]) -> tuple[int, Gaps]:
    """The same offsets with `stable` as high as it goes and the gap ranges in normal form.

    O(n) for input of a few sorted runs.
    """
    joined = offset_range.union(gaps)
    above = 0
    for first, last in joined:
        if first > stable:
            break
        stable = max(stable, last + 1)
        above += 1
    return stable, joined[above:]


class PartitionProgress:
    """The union of the facts of one partition in one epoch: done rectangles over the hash space.

    The hash space is cut into pieces wherever facts differ; neighbours with the same facts are one
    piece. Cutting points and pieces are two parallel sorted lists: in `benchmarks/structures.py`
    look-ups by bisection beat an interval tree several times over, as pieces never overlap.

    Args:
        floor: Every record below this offset counts as done, for every hash (the start of the
            epoch). Hashes that no fact speaks of stand there.
        keep_cuts: Keep pieces apart that have become equal. For a tenure, whose own work makes
            them differ again (`GapTracker`).

    >>> progress = PartitionProgress(floor=40)
    >>> progress.merge(RangeProgress(KeyRange(0, 9), 43, (OffsetRange(45, 47),)))
    >>> progress.is_done(5, 46), progress.is_done(10, 46), progress.stable
    (True, False, 40)
    """

    __slots__ = ("_facts", "_keep_cuts", "_los", "floor")

    def __init__(self, floor: int = 0, *, keep_cuts: bool = False) -> None:
        self.floor = floor
        self._keep_cuts = keep_cuts
        self._los = [WHOLE.lo]  # where each piece begins; it ends before the next one
        self._facts: list[tuple[int, Gaps]] = [(floor, ())]

    @property
    def stable(self) -> int:
        """The first offset that is not done for every hash. O(pieces)."""
        return min(stable for stable, _ in self._facts)

    @property
    def next_offset(self) -> int:
        """The first offset above everything that is done for any hash. O(pieces)."""
        return max(gaps[-1].last + 1 if gaps else stable for stable, gaps in self._facts)

    def is_done(self, key_hash: int, offset: int) -> bool:
        """Whether the record at `offset`, of that hash, is done. O(log pieces + log gaps)."""
        stable, gaps = self._facts[bisect_right(self._los, key_hash) - 1]
        return offset < stable or (bool(gaps) and offset_range.contains(gaps, offset))

    def copy(self) -> PartitionProgress:
        """Another union of the same facts. O(pieces)."""
        other = PartitionProgress(self.floor, keep_cuts=self._keep_cuts)
        other._los, other._facts = self._los.copy(), self._facts.copy()
        return other

    def merge(self, fact: RangeProgress) -> None:
        """Add a fact. O(log pieces), plus a linear merge of gap ranges per piece it overlaps."""
        left = self._cut(fact.range.lo)
        right = self._cut(fact.range.hi + 1)
        for i in range(left, right):
            self._facts[i] = _joined(self._facts[i], (fact.stable, fact.gaps))
        if not self._keep_cuts:
            self._melt(left, right)

    def clip(self, key_range: KeyRange) -> tuple[RangeProgress, ...]:
        """The facts of exactly this key range: pieces that tile it, in order.

        They stay apart where the facts differ, also where no fact was ever merged.
        """
        left = bisect_right(self._los, key_range.lo) - 1
        right = bisect_right(self._los, key_range.hi)
        return tuple(
            RangeProgress(
                KeyRange(max(self._los[i], key_range.lo), min(self._hi(i), key_range.hi)),
                *self._facts[i],
            )
            for i in range(left, right)
        )

    def contains(self, fact: RangeProgress) -> bool:
        """Whether the fact adds nothing. O(log pieces), plus the gaps of the pieces it overlaps."""
        return all(
            fact.stable <= piece.stable and _covers(piece, fact.gaps)
            for piece in self.clip(fact.range)
        )

    def check(self) -> None:
        """Assert the form that every method relies on."""
        assert self._los[0] == WHOLE.lo, "I3: the pieces must begin with the hash space"
        assert len(self._los) == len(self._facts), "I3: each piece has facts"
        assert all(a < b for a, b in pairwise(self._los)), "I3: pieces ascend"
        apart = self._keep_cuts or all(a != b for a, b in pairwise(self._facts))
        assert apart, "I3: equal neighbours are one piece"
        assert self.stable >= self.floor, "I3: no piece is below the floor"
        self.clip(WHOLE)  # each RangeProgress checks its own form

    def _hi(self, i: int) -> int:
        return self._los[i + 1] - 1 if i + 1 < len(self._los) else KEY_HASH_MAX

    def _cut(self, lo: int) -> int:
        """Make `lo` the beginning of a piece; its index (one past the last beyond the space)."""
        i = bisect_left(self._los, lo)
        if lo <= KEY_HASH_MAX and (i == len(self._los) or self._los[i] != lo):
            self._los.insert(i, lo)
            self._facts.insert(i, self._facts[i - 1])
        return i

    def _melt(self, left: int, right: int) -> None:
        """Make one piece of equal neighbours among pieces `left - 1` to `right`."""
        left, right = max(left - 1, 0), min(right + 1, len(self._los))
        kept = [left] + [i for i in range(left + 1, right) if self._facts[i] != self._facts[i - 1]]
        self._los[left:right] = [self._los[i] for i in kept]
        self._facts[left:right] = [self._facts[i] for i in kept]


def melted(facts: Iterable[RangeProgress]) -> tuple[RangeProgress, ...]:
    """The same facts, sorted, with neighbours that say the same made one. The ranges are disjoint.

    >>> low, high = RangeProgress(KeyRange(0, 4), 7), RangeProgress(KeyRange(5, 9), 7)
    >>> [str(fact) for fact in melted([high, low])]
    ['[0, 9] stable 7']
    """
    pieces: list[RangeProgress] = []
    for fact in sorted(facts, key=lambda fact: fact.range.lo):
        last = pieces[-1] if pieces else None
        if (
            last is not None
            and last.range.hi + 1 == fact.range.lo
            and (last.stable, last.gaps) == (fact.stable, fact.gaps)
        ):
            whole = KeyRange(last.range.lo, fact.range.hi)
            pieces[-1] = RangeProgress(whole, fact.stable, fact.gaps)
        else:
            pieces.append(fact)
    return tuple(pieces)


def _nearest(gaps: Gaps) -> int:
    """The least distance from a gap range's end to the next one's beginning; 2 if there is none.

    Without a loop in Python: each commit checks up to 60,000 of them.
    """
    return min(map(sub, map(_FIRST, islice(gaps, 1, None)), map(_LAST, gaps)), default=2)


def _joined(one: tuple[int, Gaps], other: tuple[int, Gaps]) -> tuple[int, Gaps]:
    """The union of two facts about the same hashes; the common cases cost no loop."""
    if one == other:
        return one
    if not one[1] and not other[1]:
        return max(one, other)
    return normalised(max(one[0], other[0]), chain(one[1], other[1]))


def _covers(piece: RangeProgress, gaps: Sequence[OffsetRange]) -> bool:
    """Whether a piece has all of these gap ranges, below its stable offset or in its own."""
    above = bisect_right(gaps, piece.stable - 1, key=lambda gap: gap.last)
    return offset_range.covers(piece.gaps, gaps[above:])
