"""What the records of a claim cost, as its holder has measured it. Pure values and their bytes.

In: weights by hash. Out: `ClaimLoad`, and at most 46 bytes of it. A weight or pace takes one byte
on a log scale, for a few percent do not matter where ranges are cut. Bytes from others are hostile:
what cannot be read, or cannot be, counts as no load.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from assignors.key_range import KeyRange

BINS = 8
"""Into so many equal parts the ranges of a claim are cut to weigh them."""

HEAVY_MAX = 4
"""So many hashes of a claim are named at most."""

LOAD_BYTES_MAX = BINS + 1 + HEAVY_MAX * 9

_WEIGHT_BITS = 6
"""Weights are written in units of 64 ps, up to six minutes: few handlers take more, none less."""


class HeavyHash(NamedTuple):
    """One hash that takes much: the key's hash (0..KEY_HASH_MAX), its weight."""

    key_hash: int
    weight: int


class ClaimLoad(NamedTuple):
    """What a claim's records cost, measured by its holder.

    A weight is picoseconds of handler time per offset of the partition. So a weight times the pace
    is picoseconds of work a second, and a member that is saturated or held is not underrated.

    Attributes:
        bins: 8 integers: the weight of the claim's i-th eighth (see `eighths`). Heavy hashes are
            not in the bins.
        heavy: At most 4 hashes, heaviest first, inside the claim's ranges.
        pace: How many offsets a second the partition has to do: its arrivals a second + what is
            left / 60 s, at least 1 while there is anything. All holders of a partition measure it
            alike, as of the whole partition.
    """

    bins: tuple[int, ...]
    heavy: tuple[HeavyHash, ...]
    pace: int

    @property
    def weight(self) -> int:
        """The weight of all of it."""
        return sum(self.bins) + sum(heavy.weight for heavy in self.heavy)


class RangesLoad(NamedTuple):
    """The ranges of one claim (sorted, disjoint), and what they cost."""

    ranges: tuple[KeyRange, ...]
    load: ClaimLoad


def eighths(ranges: Sequence[KeyRange]) -> Iterator[tuple[int, int, int]]:
    """Each part of the ranges that lies in one bin: first hash, hash after the last, bin; in order.

    The ranges are laid end to end. Of n hashes the i-th bin begins at position `n * i // 8`.

    >>> list(eighths([KeyRange(0, 9), KeyRange(20, 25)]))[4:6]
    [(8, 10, 4), (20, 22, 5)]
    """
    size = sum(key_range.size for key_range in ranges)
    ends = [size * (i + 1) // BINS for i in range(BINS)]
    at = bin_ = 0
    for key_range in ranges:
        lo = key_range.lo
        after = key_range.hi + 1
        while lo < after:
            while ends[bin_] <= at:
                bin_ += 1
            end = min(after, lo + ends[bin_] - at)
            yield lo, end, bin_
            at += end - lo
            lo = end


# ---- one byte a number: 0 is nothing, each sixth step doubles ------------------------------------

_STEPS = 1_000_000, 1_122_462, 1_259_921, 1_414_214, 1_587_401, 1_781_797
"""Millionths of 2 ** (i / 6)."""

_VALUES = [0] + [(_STEPS[i % 6] << i // 6) // 1_000_000 for i in range(255)]
_WEIGHTS = [value << _WEIGHT_BITS for value in _VALUES]
_BORDERS = [1] + [(one + other + 1) // 2 for one, other in pairwise(_VALUES[1:])]


def level_of(value: int) -> int:
    """The byte for a number, 0 … 255; whatever is too large is the largest.

    Raises:
        ValueError: It is negative.

    >>> level_of(0), level_of(1), level_of(10**100)
    (0, 6, 255)
    """
    if value < 0:
        raise ValueError(f"{value} is no weight or pace: it is negative")
    return bisect_right(_BORDERS, value)


def value_of(level: int) -> int:
    """The number that a byte stands for, within 8 % of what was written, from 10 on.

    >>> value_of(0), value_of(level_of(1)), value_of(level_of(1_000_000))
    (0, 1, 1048576)
    """
    return _VALUES[level]


def encode_load(load: ClaimLoad) -> bytes:
    """9 bytes, and 9 for each heavy hash.

    Raises:
        ValueError: There are not 8 bins, more than 4 heavy hashes, or a number is negative.
    """
    if len(load.bins) != BINS or len(load.heavy) > HEAVY_MAX:
        raise ValueError(
            f"{load} cannot be written: {BINS} bins and at most {HEAVY_MAX} heavy hashes are"
        )
    data = bytearray((level_of(load.pace), *(level_of(it >> _WEIGHT_BITS) for it in load.bins)))
    for key_hash, weight in load.heavy:
        data += key_hash.to_bytes(8, "big")
        data.append(level_of(weight >> _WEIGHT_BITS))
    return bytes(data)


def decode_load(data: bytes, ranges: Sequence[KeyRange]) -> ClaimLoad | None:
    """What a claim of these ranges costs, or None if the bytes do not say it. Raises nothing."""
    count, rest = divmod(len(data) - 1 - BINS, 9)
    if rest or not 0 <= count <= HEAVY_MAX:
        return None
    bins = tuple([_WEIGHTS[it] for it in data[1 : 1 + BINS]])
    heavy: list[HeavyHash] = []
    for at in range(1 + BINS, len(data), 9):
        key_hash = int.from_bytes(data[at : at + 8], "big")
        if not any(key_hash in key_range for key_range in ranges):
            return None
        heavy.append(HeavyHash(key_hash, _WEIGHTS[data[at + 8]]))
    if len({it.key_hash for it in heavy}) < len(heavy):
        return None
    return ClaimLoad(bins, tuple(heavy), value_of(data[0]))
