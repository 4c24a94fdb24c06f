"""Hashes to load, and back: a monotone map for each partition. Pure; integers only.

In: the load of a partition's parts and of its heavy hashes (see `merged_load`). Out: a `Scale`, on
which all that is said of lines of hashes holds for lines of load, which differ in length. Any part
counts 2 % of the mean at least, for what is cold now may get warm; hence each hash has a place of
its own, and a border of ranges comes back as the same hash. What is cut inside of a heavy hash is
cut at the nearer side of it: hashes are atoms.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

from assignors.claims import LINE, Piece
from assignors.key_hash import KEY_HASH_MAX
from assignors.key_range import WHOLE, KeyRange
from assignors.merged_load import LineLoad

DENSITY = 64
"""The mean load of a hash, in units: even 2 % of that are more than one unit."""

_FLOOR_PERCENT = 2


class Scale:
    """The map between one partition's line of hashes and its load.

    Args:
        borders: Places on the line of hashes, ascending, from 0 to its end.
        marks: The load below each of them; between two of them it rises evenly, at least by one
            unit a hash.
    """

    __slots__ = ("_borders", "_marks")

    def __init__(self, borders: Sequence[int], marks: Sequence[int]) -> None:
        self._borders, self._marks = borders, marks

    @property
    def length(self) -> int:
        """The load of all of it."""
        return self._marks[-1]

    def load_below(self, hash_: int) -> int:
        """The load of all hashes below. O(log n)."""
        i = bisect_right(self._borders, hash_) - 1
        begin, load = self._borders[i], self._marks[i]
        if begin == hash_:
            return load
        step = self._marks[i + 1] - load
        return load + (hash_ - begin) * step // (self._borders[i + 1] - begin)

    def hash_at(self, load: int) -> int:
        """The place below which about this much load is: the nearest one. O(log n).

        It is the inverse: `hash_at(load_below(h)) == h`.
        """
        i = bisect_right(self._marks, load) - 1
        begin, mark = self._borders[i], self._marks[i]
        if mark == load:
            return begin
        below = begin + (load - mark) * (self._borders[i + 1] - begin) // (
            self._marks[i + 1] - mark
        )
        over, under = self.load_below(below + 1) - load, load - self.load_below(below)
        return below + 1 if over < under else below

    def to_load(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Pieces of the line of hashes as pieces of the line of load."""
        return [
            Piece(self.load_below(begin), self.load_below(end), holder)
            for begin, end, holder in pieces
        ]

    def to_hashes(self, pieces: Iterable[Piece]) -> list[Piece]:
        """The way back; a piece within one hash vanishes. Pieces that touch still do."""
        found = (
            Piece(self.hash_at(begin), self.hash_at(end), holder) for begin, end, holder in pieces
        )
        return [piece for piece in found if piece.begin < piece.end]

    def parts(self, k: int) -> tuple[KeyRange, ...]:
        """Cut the partition into `k` ranges of about equal load, in order, none empty.

        Like `KeyRange.parts` if the load is even.
        """
        if k == 1:
            return (WHOLE,)
        cuts: list[int] = [0]
        for i in range(1, k):
            cut = self.hash_at(self.length * i // k)
            cuts.append(min(max(cut, cuts[-1] + 1), LINE - k + i))
        lasts = [cut - 1 for cut in cuts[1:]] + [KEY_HASH_MAX]
        return tuple(KeyRange(lo, hi) for lo, hi in zip(cuts, lasts, strict=True))


EVEN = Scale((0, LINE), (0, LINE))
"""The identity: all hashes count the same, and one unit."""

NOT_WEIGHED = Scale((0, LINE), (0, LINE * DENSITY))
"""A partition that nobody has weighed, among others that are."""


def in_units(line: LineLoad, mean: tuple[int, int]) -> LineLoad:
    """The same load in units of scales, each part with the least that it counts.

    Args:
        line: A partition.
        mean: The load of some partitions, and how many they are.
    """
    total, count = mean
    per, each = LINE * DENSITY * count * (100 - _FLOOR_PERCENT), total * 100
    least = DENSITY * _FLOOR_PERCENT
    return LineLoad(
        [
            (begin, end, load * per // each + (end - begin) * least // 100)
            for begin, end, load in line.parts
        ],
        {key_hash: load * per // each for key_hash, load in line.heavy.items()},
    )


def scale_of(line: LineLoad, without: Collection[int] = ()) -> Scale:
    """The scale of a partition, each heavy hash a step in it. O(parts + heavy hashes x log).

    Args:
        line: Its load, in units.
        without: Heavy hashes that are left out.
    """
    coming = sorted((it for it in line.heavy if it not in without), reverse=True)
    key_hash = coming.pop() if coming else LINE
    borders, marks, below = [0], [0], 0
    for begin, end, load in line.parts:
        size, steps = end - begin, 0
        while key_hash < end:
            if borders[-1] < key_hash:
                borders.append(key_hash)
                marks.append(below + steps + load * (key_hash - begin) // size)
            steps += line.heavy[key_hash]
            borders.append(key_hash + 1)
            marks.append(below + steps + load * (key_hash + 1 - begin) // size)
            key_hash = coming.pop() if coming else LINE
        below += load + steps
        if borders[-1] < end:
            borders.append(end)
            marks.append(below)
    return Scale(borders, marks)
