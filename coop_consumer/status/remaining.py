"""How many records of a partition are left to do. Pure.

In: the progress of a partition, cut into ranges, and the partition's end. Out: a count. Below the
last offset that a range has seen, each undone offset is one of its records: offsets of foreign keys
count as done in its rectangle. Above it, the records are not known: the range's share of the hash
space stands for its share of the records. That part is an estimate and is marked as one. Heavy
hashes have shares of their own, as members have measured them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from math import ceil

from assignors import KEY_HASH_MAX, KeyRange
from offsets import OffsetRange, RangeProgress
from offsets.offset_range import complement, union

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Remaining:
    """Records left to do.

    Attributes:
        known: Undone offsets that a range has seen: each is a record (or one that compaction took).
        estimated: The expected number of the range's records among those nobody has seen.
    """

    known: int
    estimated: int

    @property
    def records(self) -> int:
        """All of them."""
        return self.known + self.estimated

    @property
    def is_exact(self) -> bool:
        """Whether nothing of it is an estimate."""
        return self.estimated == 0

    def __str__(self) -> str:
        return f"{self.records:,}" if self.is_exact else f"about {self.records:,}"


def undone(piece: RangeProgress, end: int) -> tuple[OffsetRange, ...]:
    """The offsets below `end` that are not done for a range, as an offset set. O(gaps)."""
    return complement(piece.gaps, OffsetRange(piece.stable, end - 1)) if piece.stable < end else ()


def remaining(
    pieces: Iterable[RangeProgress], end: int, shares: Mapping[int, float] | None = None
) -> Remaining:
    """What is left of the ranges `pieces` below `end`. O(gaps log gaps + pieces x shares).

    `shares` tells of single hashes which part of the partition's records they have. An offset that
    is undone in several ranges is one record: it has one hash.

    >>> from assignors import WHOLE
    >>> low, high = WHOLE.parts(2)
    >>> gaps = (OffsetRange(45, 47), OffsetRange(50, 50))
    >>> print(remaining([RangeProgress(low, 43, gaps), RangeProgress(high, 60)], end=60))
    about 9
    >>> print(remaining([RangeProgress(low, 43), RangeProgress(high, 143)], 143, {low.lo: 0.6}))
    about 80
    """
    pieces = list(pieces)
    seen = union(chain.from_iterable(undone(p, min(p.next_offset, end)) for p in pieces))
    ahead = [(max(end - p.next_offset, 0), p.range) for p in pieces]
    # Rounded up: a range that has not looked at the last record has not finished.
    estimated = -(-sum(count * key_range.size for count, key_range in ahead) // (KEY_HASH_MAX + 1))
    if shares and estimated:
        # A sum of floats may be above a whole number by a rounding error alone.
        expected = sum(count * _share(key_range, shares) for count, key_range in ahead)
        estimated = ceil(expected - _ROUNDING)
    return Remaining(sum(r.last - r.first + 1 for r in seen), estimated)


def _share(key_range: KeyRange, shares: Mapping[int, float]) -> float:
    """A range's part of the records: its heavy hashes, and an even part of all others.

    All ranges together have 1: shares are measured, so their sum may be more.
    """
    heavy = sum(shares.values())
    even = max(1.0 - heavy, 0.0) * key_range.size / (KEY_HASH_MAX + 1)
    own = sum(share for key_hash, share in shares.items() if key_hash in key_range)
    return even + own / max(heavy, 1.0)


def common_gaps(pieces: Iterable[RangeProgress]) -> tuple[OffsetRange, ...]:
    """The offset ranges done for every hash, above the lowest stable offset. O(gaps log gaps)."""
    pieces = list(pieces)
    stable = min(piece.stable for piece in pieces)
    end = max(piece.next_offset for piece in pieces)
    missing = union(chain.from_iterable(undone(piece, end) for piece in pieces))
    return complement(missing, OffsetRange(stable, end - 1)) if stable < end else ()
