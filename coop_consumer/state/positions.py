"""Up to where a store is valid: for each key range an offset of the changelog. Pure.

In: ranges that were read or written up to an offset, at a time. Out: where a restore of some ranges
has to begin, and a few bytes to keep beside the data. The time matters because a changelog forgets
deletions: a store that was not updated for longer would keep deleted keys.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from assignors import KeyRange, subtract, union

_HEAD = struct.Struct(">B16s")  # format, the changelog's topic id
_PIECE = struct.Struct(">QQqq")
VERSION = 1


@dataclass(frozen=True, slots=True)
class Position:
    """The store has all of the changelog below an offset for these keys.

    Attributes:
        range: The keys.
        offset: The first offset that the store does not have.
        time_s: A time at or before which the record at that offset was not written (Unix time).
    """

    range: KeyRange
    offset: int
    time_s: int


Positions = tuple[Position, ...]
"""Sorted, disjoint."""


def moved(positions: Positions, ranges: Iterable[KeyRange], offset: int, time_s: int) -> Positions:
    """Positions with these ranges at least at `offset`; higher ones stay. O(pieces).

    >>> at = moved((), [KeyRange(0, 9)], 5, 100)
    >>> [(str(it.range), it.offset) for it in moved(at, [KeyRange(4, 6)], 7, 100)]
    [('[0, 3]', 5), ('[4, 6]', 7), ('[7, 9]', 5)]
    """
    ranges = union(ranges)
    pieces = [
        Position(part, it.offset, it.time_s)
        for it in positions
        for part in subtract((it.range,), ranges)
    ]
    for key_range, at, seen_s in begins(positions, ranges):
        pieces.append(Position(key_range, max(at, offset), max(seen_s, time_s)))
    pieces.sort(key=lambda it: it.range.lo)
    melted: list[Position] = []
    for piece in pieces:
        last = melted[-1] if melted else None
        if last is not None and _joins(last, piece):
            whole = KeyRange(last.range.lo, piece.range.hi)
            melted[-1] = Position(whole, piece.offset, piece.time_s)
        else:
            melted.append(piece)
    return tuple(melted)


def without(positions: Positions, ranges: tuple[KeyRange, ...]) -> Positions:
    """Positions without these ranges."""
    return tuple(
        Position(part, it.offset, it.time_s)
        for it in positions
        for part in subtract((it.range,), ranges)
    )


def begins(positions: Positions, ranges: Iterable[KeyRange]) -> list[tuple[KeyRange, int, int]]:
    """These ranges in pieces, each with its offset and time; offset 0 if nothing is known."""
    found: list[tuple[KeyRange, int, int]] = []
    for key_range in ranges:
        left: tuple[KeyRange, ...] = (key_range,)
        for it in positions:
            shared = it.range.intersection(key_range)
            if shared is not None:
                found.append((shared, it.offset, it.time_s))
                left = subtract(left, (shared,))
        found += [(part, 0, 0) for part in left]
    return sorted(found, key=lambda piece: piece[0].lo)


def encode(positions: Positions, changelog_id: bytes) -> bytes:
    """Positions as bytes, for the changelog of this topic id (16 bytes)."""
    pieces = [_PIECE.pack(it.range.lo, it.range.hi, it.offset, it.time_s) for it in positions]
    return b"".join([_HEAD.pack(VERSION, changelog_id), *pieces])


def decode(data: bytes, changelog_id: bytes) -> Positions | None:
    """The positions that were encoded; None: another format or changelog, or invalid bytes."""
    if len(data) < _HEAD.size or (len(data) - _HEAD.size) % _PIECE.size:
        return None
    if _HEAD.unpack_from(data) != (VERSION, changelog_id):
        return None
    try:
        return tuple(
            Position(KeyRange(lo, hi), offset, time_s)
            for lo, hi, offset, time_s in _PIECE.iter_unpack(data[_HEAD.size :])
        )
    except ValueError:
        return None


def _joins(left: Position, right: Position) -> bool:
    is_next = left.range.hi + 1 == right.range.lo
    return is_next and (left.offset, left.time_s) == (right.offset, right.time_s)
