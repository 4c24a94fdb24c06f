"""What members hold now, made consistent: of each partition, disjoint pieces with one holder each.

In: the owned ranges that members report. Out: `Piece`s by partition. Pure. What no longer exists or
is not subscribed is ignored. Two members may report one hash, for a paused member may report an old
truth; neither lies more than the other, so the lower index keeps it.

All arithmetic on pieces is done on a line [0, N) of half-open pieces, where N = `KEY_HASH_MAX` and
the hash N itself goes with its lower neighbour. This makes a cut in two fall where the KIP prints
it, and here is the one place that converts.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from assignors.assignment import Roster
from assignors.key_hash import KEY_HASH_MAX
from assignors.key_range import KeyRange, union
from assignors.member import TopicPartition

LINE = KEY_HASH_MAX
"""The length of a partition's line."""


class Piece(NamedTuple):
    """The part [begin, end) of a partition's line, and who holds it."""

    begin: int
    end: int
    holder: int


def held_pieces(roster: Roster) -> dict[TopicPartition, list[Piece]]:
    """For each partition of which anything is owned: who owns what, ascending and disjoint.

    O(n log n) in the number of owned ranges.
    """
    claimed: dict[TopicPartition, list[Piece]] = {}
    for i, member in enumerate(roster.members):
        topics = set(member.topics)
        for tp, ranges in member.owned.items():
            in_use = tp.topic in topics and tp.topic in roster.counts
            if in_use and 0 <= tp.partition < roster.counts[tp.topic]:
                claimed.setdefault(tp, []).extend(_pieces(ranges, i))
    return {tp: _settled(pieces) for tp, pieces in claimed.items() if pieces}


def key_ranges(pieces: Iterable[Piece]) -> tuple[KeyRange, ...]:
    """The same hashes as ranges: sorted, what touches joined."""
    return union(
        KeyRange(piece.begin, KEY_HASH_MAX if piece.end == LINE else piece.end - 1)
        for piece in pieces
    )


def _pieces(ranges: Iterable[KeyRange], holder: int) -> Iterable[Piece]:
    for key_range in ranges:
        piece = Piece(key_range.lo, min(key_range.hi + 1, LINE), holder)
        if piece.begin < piece.end:
            yield piece


def _settled(claimed: list[Piece]) -> list[Piece]:
    """A sweep along the line: where claims overlap, the lowest holder's counts."""
    claimed.sort()
    borders = sorted({border for piece in claimed for border in piece[:2]})
    settled: list[Piece] = []
    active: list[tuple[int, int]] = []  # (holder, end) of the claims that began: a heap
    coming = iter([*claimed, Piece(LINE, LINE, -1)])
    next_claim = next(coming)
    for begin, end in pairwise(borders):
        while next_claim.begin == begin:
            heappush(active, (next_claim.holder, next_claim.end))
            next_claim = next(coming)
        while active and active[0][1] <= begin:
            heappop(active)
        if not active:
            continue
        holder = active[0][0]
        if settled and settled[-1].end == begin and settled[-1].holder == holder:
            settled[-1] = Piece(settled[-1].begin, end, holder)
        else:
            settled.append(Piece(begin, end, holder))
    return settled
