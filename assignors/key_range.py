"""Ranges of the key-hash space, and sets of them. Pure.

In and out: `KeyRange`, a closed interval of key hashes, and range sets: tuples of ranges that are
sorted and disjoint (`union` makes one of anything, and joins what touches). The set functions are
linear merges; they neither check nor repair the order of their arguments. I1 is stated in these
terms: the ranges of a partition are disjoint and their union is `(WHOLE,)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from assignors.key_hash import KEY_HASH_MAX


@dataclass(frozen=True, slots=True, order=True)
class KeyRange:
    """The key hashes from `lo` to `hi`, both included.

    Ordered by `lo`, then `hi`.

    Args:
        lo: The first hash of the range, at least 0.
        hi: The last hash of the range, at least `lo` and at most `KEY_HASH_MAX`.

    Raises:
        ValueError: If the bounds are in the wrong order or outside the hash space.

    >>> KeyRange(0, 9).intersection(KeyRange(5, 20))
    KeyRange(lo=5, hi=9)
    >>> 9 in KeyRange(0, 9)
    True
    """

    lo: int
    hi: int

    def __post_init__(self) -> None:
        if not 0 <= self.lo <= self.hi <= KEY_HASH_MAX:
            raise ValueError(
                f"[{self.lo}, {self.hi}] is no key range: 0 <= lo <= hi <= {KEY_HASH_MAX} must hold"
            )

    def __contains__(self, hash_: int) -> bool:
        return self.lo <= hash_ <= self.hi

    def __str__(self) -> str:
        return f"[{self.lo}, {self.hi}]"

    @property
    def size(self) -> int:
        """How many hashes the range holds."""
        return self.hi - self.lo + 1

    def overlaps(self, other: KeyRange) -> bool:
        """Whether at least one hash lies in both."""
        return self.lo <= other.hi and other.lo <= self.hi

    def intersection(self, other: KeyRange) -> KeyRange | None:
        """The hashes that lie in both, or None if there are none."""
        lo, hi = max(self.lo, other.lo), min(self.hi, other.hi)
        return KeyRange(lo, hi) if lo <= hi else None

    def parts(self, k: int) -> tuple[KeyRange, ...]:
        """Cut the range into `k` parts of equal size (to a hash or two), in order.

        Part i begins at `lo + (hi - lo) * i // k`; so two parts of `WHOLE` are [0, N/2 - 1] and
        [N/2, N], as the KIP prints them.

        Raises:
            ValueError: If `k` is below 1, or above `hi - lo` (a part would be empty).
        """
        if k == 1:
            return (self,)
        span = self.hi - self.lo
        if not 1 <= k <= span:
            raise ValueError(
                f"{self} cannot be cut into {k} parts: 1 to {max(span, 1)} are possible"
            )
        cuts = [self.lo + span * i // k for i in range(k)]
        lasts = [cut - 1 for cut in cuts[1:]] + [self.hi]
        return tuple(KeyRange(lo, hi) for lo, hi in zip(cuts, lasts, strict=True))


WHOLE = KeyRange(0, KEY_HASH_MAX)
"""The whole hash space: a partition that is not split."""


def union(ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
    """The set of all hashes in any of the ranges, given in any order, overlapping or not.

    What overlaps or touches is joined. O(n) for sorted input, O(n log n) otherwise.

    >>> union([KeyRange(10, 19), KeyRange(0, 9), KeyRange(30, 39)])
    (KeyRange(lo=0, hi=19), KeyRange(lo=30, hi=39))
    """
    joined: list[KeyRange] = []
    for r in sorted(ranges):
        if joined and r.lo <= joined[-1].hi + 1:
            if r.hi > joined[-1].hi:
                joined[-1] = KeyRange(joined[-1].lo, r.hi)
        else:
            joined.append(r)
    return tuple(joined)


def intersect(ranges: tuple[KeyRange, ...], other: tuple[KeyRange, ...]) -> tuple[KeyRange, ...]:
    """The hashes that lie in both range sets. O(n + m).

    >>> intersect((KeyRange(0, 19),), (KeyRange(5, 6), KeyRange(15, 30)))
    (KeyRange(lo=5, hi=6), KeyRange(lo=15, hi=19))
    """
    common: list[KeyRange] = []
    i = j = 0
    while i < len(ranges) and j < len(other):
        both = ranges[i].intersection(other[j])
        if both is not None:
            common.append(both)
        if ranges[i].hi < other[j].hi:
            i += 1
        else:
            j += 1
    return tuple(common)


def subtract(ranges: tuple[KeyRange, ...], other: tuple[KeyRange, ...]) -> tuple[KeyRange, ...]:
    """The hashes of the first range set that do not lie in the second. O(n + m).

    >>> subtract((KeyRange(0, 19),), (KeyRange(5, 6), KeyRange(15, 30)))
    (KeyRange(lo=0, hi=4), KeyRange(lo=7, hi=14))
    """
    rest: list[KeyRange] = []
    j = 0
    for r in ranges:
        lo = r.lo
        while j < len(other) and other[j].hi < lo:
            j += 1
        k = j  # other[k] may reach into the next range too, so j stays where it is
        while k < len(other) and other[k].lo <= r.hi:
            if lo < other[k].lo:
                rest.append(KeyRange(lo, other[k].lo - 1))
            lo = other[k].hi + 1
            k += 1
        if lo <= r.hi:
            rest.append(KeyRange(lo, r.hi))
        j = max(j, k - 1)
    return tuple(rest)


def hull(ranges: Iterable[KeyRange]) -> KeyRange:
    """From the first hash of any of them to the last: one range to name many by.

    >>> hull([KeyRange(5, 9), KeyRange(0, 2)])
    KeyRange(lo=0, hi=9)
    """
    known = list(ranges)
    return KeyRange(min(r.lo for r in known), max(r.hi for r in known))


def covers(ranges: tuple[KeyRange, ...], other: tuple[KeyRange, ...]) -> bool:
    """Whether every hash of the second range set lies in the first. O(n + m).

    >>> covers((WHOLE,), (KeyRange(5, 6),)), covers((KeyRange(5, 6),), (WHOLE,))
    (True, False)
    """
    return not subtract(other, ranges)
