"""Ranges that have multiplied are made fewer again, little by little. Pure.

In: for each line its pieces. Out: the same lines, with small pieces given to those beside them.
Every move of load cuts off a piece, so under drift they get more and more, and each costs its
holder a place in every commit. To deal all afresh would stop everybody. So as long as there are
more than four pieces a member, the smallest ones go to a neighbour, 5 % of all load at most; that
gives back as much where its own pieces lie, and no more than 10 % moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop

from assignors.claims import Piece

_PIECES_MAX = 4  # a member
_MOVED_PERCENT = 5


def is_scattered(lines: Iterable[Sequence[Piece]]) -> bool:
    """Whether there are more than four pieces a member."""
    counts = Counter(piece.holder for line in lines for piece in line)
    return counts.total() > _PIECES_MAX * len(counts)


def gathered(lines: Sequence[Sequence[Piece]]) -> list[list[Piece]]:
    """The lines, with fewer pieces if there are too many. O(n log n).

    Args:
        lines: For each line its pieces, ascending and disjoint.
    """
    pieces = [list(line) for line in lines]
    counts = Counter(piece.holder for line in pieces for piece in line)
    over = counts.total() - _PIECES_MAX * len(counts)
    if over <= 0:
        return pieces
    room = sum(end - begin for line in pieces for begin, end, _ in line) * _MOVED_PERCENT // 100
    heap = [
        (end - begin, number, begin) for number, line in enumerate(pieces) for begin, end, _ in line
    ]
    heapify(heap)
    while heap and over > 0:
        size, number, begin = heappop(heap)
        if size > room:
            break
        line = pieces[number]
        at = next((at for at, piece in enumerate(line) if piece.begin == begin), -1)
        if at < 0 or line[at].end - begin != size or counts[line[at].holder] < 2:
            continue  # it has grown, or is all that its holder has
        beside = [
            line[i].holder
            for i in (at - 1, at + 1)
            if 0 <= i < len(line) and begin in (line[i].end, line[i].begin - size)
        ]
        if not beside:
            continue
        # Between two pieces of one member both borders go; else whoever has fewer takes it.
        taker = min(beside, key=lambda i: (-beside.count(i), counts[i], i))
        counts[line[at].holder] -= 1
        room -= size
        before = len(line)
        line[at] = Piece(begin, begin + size, taker)
        _join(line, at)
        joined = before - len(line)
        counts[taker] -= joined - 1
        over -= joined
    return pieces


def _join(line: list[Piece], at: int) -> None:
    """Join a piece with those of the same holder that touch it."""
    if at + 1 < len(line) and _is_one(line[at], line[at + 1]):
        line[at : at + 2] = [Piece(line[at].begin, line[at + 1].end, line[at].holder)]
    if at > 0 and _is_one(line[at - 1], line[at]):
        line[at - 1 : at + 1] = [Piece(line[at - 1].begin, line[at].end, line[at].holder)]


def _is_one(left: Piece, right: Piece) -> bool:
    return left.holder == right.holder and left.end == right.begin
