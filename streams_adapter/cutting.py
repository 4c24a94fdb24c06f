"""How what a partition has left is cut into slices. Pure.

In: what is done of the partition, key range by key range; which offsets are meant; bytes. Out: key
ranges with about as much left each. Within a partition slices differ by their keys alone: of two
offset ranges of one key the second would have to wait for the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import TypeVar

from assignors import KEY_HASH_MAX, KeyRange, TopicPartition
from coop_consumer.errors import MisuseError
from offsets import OffsetRange, RangeProgress
from offsets.offset_range import complement

AnyPlace = TypeVar("AnyPlace")

RANGES_MAX = 10_000
"""Of one partition: each slice reads all of its partition's offsets, and keeps its own keys."""

NOTHING_HEAVY: Mapping[int, float] = MappingProxyType({})
"""All hashes count alike."""

_UNIT = KEY_HASH_MAX + 1
_CALL = "plan()"


def checked_ranges(ranges: int | None) -> int | None:
    """How many ranges a partition is to have, if anybody says so.

    Raises:
        MisuseError: So many are not possible.
    """
    if ranges is None or (type(ranges) is int and 1 <= ranges <= RANGES_MAX):
        return ranges
    raise MisuseError(
        _CALL,
        f"ranges={ranges!r}",
        f"Choose a whole number from 1 to {RANGES_MAX}, or leave it out",
    )


def checked_until(
    until: Mapping[str, Mapping[int, int]] | Mapping[TopicPartition, int] | None,
) -> dict[TopicPartition, int]:
    """Where to end, by partition, from either form.

    Raises:
        MisuseError: It is of neither form.

    >>> checked_until({"orders": {3: 42}})
    {TopicPartition(topic='orders', partition=3): 42}
    """
    found: dict[TopicPartition, int] = {}
    for place, value in (until or {}).items():
        if isinstance(place, TopicPartition):
            found[place] = value  # type: ignore[assignment] # looked at below
        elif isinstance(value, Mapping):
            found |= {TopicPartition(place, number): offset for number, offset in value.items()}
        else:
            raise _not_until(place, value)
    for tp, offset in found.items():
        if type(offset) is not int or type(tp.partition) is not int:
            raise _not_until(tp, offset)
    return found


def _not_until(place: object, value: object) -> MisuseError:
    return MisuseError(
        _CALL,
        f"until has {value!r} at {place!r}",
        "Give {topic: {partition: offset}} or {TopicPartition: offset}",
    )


def weight(
    piece: RangeProgress, offsets: OffsetRange, heavy: Mapping[int, float] = NOTHING_HEAVY
) -> int:
    """The expected number of records left at these offsets, times N + 1. O(gaps + heavy).

    Below the offset that the range has seen, its undone offsets are counted one by one. Above, its
    share of the hash space stands for its share of the records (`status.remaining`), but for
    hashes whose shares are known.

    Args:
        piece: A range, and what is done in it.
        offsets: Which offsets are meant.
        heavy: Shares of heavy hashes, of all records of the partition.
    """
    seen_to = min(max(piece.next_offset, offsets.first), offsets.last + 1)
    unseen = offsets.last + 1 - seen_to
    known = 0
    if (first := max(piece.stable, offsets.first)) < seen_to:
        missing = complement(piece.gaps, OffsetRange(first, seen_to - 1))
        known = sum(part.size for part in missing)
    if not heavy:
        return known * _UNIT + unseen * piece.range.size
    light = max(0.0, 1.0 - sum(heavy.values()))
    own = sum(share for key_hash, share in heavy.items() if key_hash in piece.range)
    return known * _UNIT + round(unseen * (light * piece.range.size + own * _UNIT))


def records_left(
    pieces: Sequence[RangeProgress],
    offsets: OffsetRange,
    heavy: Mapping[int, float] = NOTHING_HEAVY,
) -> float:
    """About how many records are left at these offsets; see `weight`."""
    return sum(weight(piece, offsets, heavy) for piece in pieces) / _UNIT


def _apart(piece: RangeProgress, heavy: Iterable[int]) -> list[RangeProgress]:
    """A piece in parts, each heavy hash by itself."""
    bounds = {piece.range.lo, piece.range.hi + 1}
    bounds |= {at for it in heavy if it in piece.range for at in (it, it + 1)}
    return [replace(piece, range=KeyRange(lo, end - 1)) for lo, end in pairwise(sorted(bounds))]


def cut(
    pieces: Sequence[RangeProgress],
    offsets: OffsetRange,
    count: int,
    heavy: Mapping[int, float] = NOTHING_HEAVY,
) -> list[KeyRange]:
    """Key ranges with about as many records left each: at most `count`, disjoint, in order.

    Hashes with nothing left lie between these ranges; some lie inside of one, between two of its
    hashes. There are fewer ranges if fewer hashes are left. O(pieces + count).

    Args:
        pieces: What is done, over the whole hash space, in order.
        offsets: Which offsets are meant.
        count: How many to make, at least 1.
        heavy: Shares of heavy hashes. One that has more than its part is a range by itself, or with
            little beside it.

    >>> from assignors import WHOLE
    >>> low, high = WHOLE.parts(2)
    >>> [range_.lo == low.lo for range_ in cut([RangeProgress(WHOLE, 0)], OffsetRange(0, 9), 2)]
    [True, False]
    """
    parts_of = [part for piece in pieces for part in _apart(piece, heavy)] if heavy else pieces
    left = [(piece.range, weight(piece, offsets, heavy)) for piece in parts_of]
    left = [(key_range, own) for key_range, own in left if own]
    if not left:
        return []
    if len(left) == 1:  # as assignors cut it, so that facts of both have the same edges
        [(only, _)] = left
        return list(only.parts(min(count, max(only.hi - only.lo, 1))))
    total = sum(own for _, own in left)
    edges = [total * i // count for i in range(1, count)][::-1]
    parts: list[KeyRange] = []
    lo, before, hi = left[0][0].lo, 0, left[0][0].lo
    for key_range, own in left:
        while edges and edges[-1] < before + own:
            share = edges.pop() - before
            if key_range.size == 1:  # a heavy hash is cut at its nearer side
                share = own if 2 * share > own else 0
            at = key_range.lo + key_range.size * share // own
            if at > lo:
                parts.append(KeyRange(lo, at - 1 if at > key_range.lo else hi))
                lo = at
        before, hi = before + own, key_range.hi
    return [*parts, KeyRange(lo, hi)] if lo <= hi else parts


def shares(
    sizes: Mapping[AnyPlace, float], records: Mapping[AnyPlace, float], count: int
) -> dict[AnyPlace, int]:
    """How many slices each partition gets, about `count` in all, by its bytes.

    At least one, and no more than it has records.

    >>> shares({"a": 300.0, "b": 100.0}, {"a": 30, "b": 10}, 8)
    {'a': 6, 'b': 2}
    """
    total = sum(sizes.values())
    return {
        place: max(1, min(round(size * count / total) if total else 1, int(records[place])))
        for place, size in sizes.items()
    }
