"""Ranges of offsets, and sets of them. Pure.

In and out: `OffsetRange`, a closed interval of offsets, printed as the KIP prints it: `[45-47]`;
and offset sets: tuples of ranges that are ascending, disjoint and not adjacent (`union` makes one
of anything). The set functions are linear merges; they neither check nor repair their arguments. A
commit may hold 60,000 gap ranges, so a range is a tuple underneath and can be made in bulk
(`offset_ranges`); everything above this module treats it as a frozen value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Final, NamedTuple

OFFSET_MAX: Final = 2**63 - 1
"""The highest offset Kafka's wire format can carry."""


class _Bounds(NamedTuple):
    first: int
    last: int


class OffsetRange(_Bounds):
    """The offsets from `first` to `last`, both included.

    Ordered by `first`, then `last`.

    Args:
        first: The first offset of the range, at least 0.
        last: The last offset of the range, at least `first` and at most `OFFSET_MAX`.

    Raises:
        ValueError: If the bounds are in the wrong order or outside what Kafka can count.

    >>> print(OffsetRange(45, 47))
    [45-47]
    >>> 47 in OffsetRange(45, 47), OffsetRange(45, 47).size
    (True, 3)
    """

    __slots__ = ()

    def __new__(cls, first: int, last: int) -> OffsetRange:
        """Check the bounds."""
        if not 0 <= first <= last <= OFFSET_MAX:
            raise ValueError(
                f"[{first}-{last}] is no offset range: 0 <= first <= last <= {OFFSET_MAX} must hold"
            )
        return super().__new__(cls, first, last)

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and self.first <= offset <= self.last

    def __str__(self) -> str:
        return f"[{self.first}-{self.last}]"

    @property
    def size(self) -> int:
        """How many offsets the range holds."""
        return self.last - self.first + 1


def offset_ranges(firsts: Iterable[int], lasts: Iterable[int]) -> tuple[OffsetRange, ...]:
    """One range per pair of bounds, unchecked: 0.1 µs a range instead of 0.5 µs.

    For callers whose bounds are in order by construction.

    >>> offset_ranges([45, 50], [47, 50])
    (OffsetRange(first=45, last=47), OffsetRange(first=50, last=50))
    """
    return tuple(map(tuple.__new__, repeat(OffsetRange), zip(firsts, lasts, strict=True)))


def union(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """The offset set of everything in any of the ranges, given in any order.

    What overlaps or touches is joined. O(n) for input of a few sorted runs, else O(n log n).

    >>> union([OffsetRange(48, 49), OffsetRange(45, 47), OffsetRange(52, 52)])
    (OffsetRange(first=45, last=49), OffsetRange(first=52, last=52))
    """
    firsts: list[int] = []
    lasts: list[int] = []
    reach = -2  # adjacent to no offset
    for first, last in sorted(ranges):
        if first > reach + 1:
            firsts.append(first)
            lasts.append(last)
            reach = last
        elif last > reach:
            lasts[-1] = reach = last
    return offset_ranges(firsts, lasts)


def subtract(
    ranges: Sequence[OffsetRange], other: Sequence[OffsetRange]
) -> tuple[OffsetRange, ...]:
    """The offsets of the first offset set that do not lie in the second. O(n + m).

    >>> subtract([OffsetRange(41, 50)], [OffsetRange(43, 45), OffsetRange(48, 49)])
    (OffsetRange(first=41, last=42), OffsetRange(first=46, last=47), OffsetRange(first=50, last=50))
    """
    rest: list[OffsetRange] = []
    j = 0
    for first, last in ranges:
        lowest = first
        while j < len(other) and other[j].first <= last:
            if lowest < other[j].first:
                rest.append(OffsetRange(lowest, other[j].first - 1))
            lowest = max(lowest, other[j].last + 1)
            if other[j].last > last:
                break  # it may reach into the next range too
            j += 1
        if lowest <= last:
            rest.append(OffsetRange(lowest, last))
    return tuple(rest)


def complement(ranges: Sequence[OffsetRange], within: OffsetRange) -> tuple[OffsetRange, ...]:
    """The offsets of `within` that do not lie in the offset set. O(n).

    >>> complement([OffsetRange(45, 47)], OffsetRange(43, 50))
    (OffsetRange(first=43, last=44), OffsetRange(first=48, last=50))
    """
    return subtract((within,), ranges)


def contains(ranges: Sequence[OffsetRange], offset: int) -> bool:
    """Whether the offset lies in the offset set. O(log n)."""
    nearest = bisect_right(ranges, offset, key=itemgetter(0)) - 1
    return nearest >= 0 and offset <= ranges[nearest].last


def covers(ranges: Sequence[OffsetRange], other: Sequence[OffsetRange]) -> bool:
    """Whether every offset of the second offset set lies in the first. O(n + m).

    >>> covers([OffsetRange(41, 50)], [OffsetRange(43, 45), OffsetRange(50, 50)])
    True
    """
    i = 0
    for first, last in other:
        while i < len(ranges) and ranges[i].last < first:
            i += 1
        if i == len(ranges) or not ranges[i].first <= first <= last <= ranges[i].last:
            return False
    return True
