"""Heavy hashes dealt one by one: whose each is, before what is left is divided. Pure.

In: heavy hashes that may not be cut, what members are due and carry. Out: an owner for each. The
largest comes first. It stays with its holder if that fits, for a move costs a pause of its key;
else it goes where most room is. So the rest, which can be cut anywhere, evens out what they leave.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace
from operator import attrgetter
from typing import NamedTuple

from assignors.claims import Piece
from assignors.member import TopicPartition

_FIT_PERCENT = 101  # of a due: what is due is a mean, rounded
_begin = attrgetter("begin")


class Atom(NamedTuple):
    """A heavy hash.

    Args:
        load: What it costs.
        tp: Its partition.
        key_hash: The hash, as a place on the line.
        holder: Who holds it, or -1.
        takers: Who may have it: member indices, ascending.
    """

    load: int
    tp: TopicPartition
    key_hash: int
    holder: int
    takers: tuple[int, ...]


def deal(
    atoms: Iterable[Atom], dues: Sequence[int], carried: Sequence[int]
) -> dict[TopicPartition, dict[int, int]]:
    """For each partition the owner of each hash. O(n log n).

    Args:
        atoms: What to deal.
        dues: For each member how much it is due in all.
        carried: How much of that it has already; what it gets is not added here.
    """
    sums = list(carried)
    has_one: set[int] = set()
    owners: dict[TopicPartition, dict[int, int]] = {}
    heaps: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for atom in sorted(atoms, key=lambda atom: (-atom.load, atom.tp, atom.key_hash)):
        i = atom.holder
        fits = i not in has_one or (sums[i] + atom.load) * 100 <= dues[i] * _FIT_PERCENT
        if i not in atom.takers or not fits:
            if atom.takers not in heaps:
                heaps[atom.takers] = [(sums[i] - dues[i], i) for i in atom.takers]
                heapify(heaps[atom.takers])
            heap = heaps[atom.takers]
            # Sums only grow, so an outdated entry is too low: correct it, look again.
            while heap[0] != (current := (sums[heap[0][1]] - dues[heap[0][1]], heap[0][1])):
                heapreplace(heap, current)
            i = heap[0][1]
        has_one.add(i)
        sums[i] += atom.load
        owners.setdefault(atom.tp, {})[atom.key_hash] = i
    return owners


def holder_of(pieces: Sequence[Piece], key_hash: int) -> int:
    """Who holds a hash, or -1; pieces ascend. O(log n)."""
    i = bisect_right(pieces, key_hash, key=_begin) - 1
    return pieces[i].holder if i >= 0 and key_hash < pieces[i].end else -1


def without_owners(pieces: Iterable[Piece], owners: dict[int, int]) -> list[Piece]:
    """The pieces of a line; what holds just one of these hashes goes to a neighbour.

    So a single hash that is dealt by itself does not cut what lies around it.
    """
    found: list[Piece] = []
    loose: Piece | None = None
    for piece in pieces:
        begin, end, holder = piece
        touches = bool(found) and found[-1].end == begin
        if end - begin == 1 and begin in owners:
            if touches:
                found[-1] = Piece(found[-1].begin, end, found[-1].holder)
            else:
                loose = piece
            continue
        if loose is not None and loose.end == begin:
            begin = loose.begin
        loose = None
        if touches and found[-1].holder == holder:
            begin = found.pop().begin
        found.append(Piece(begin, end, holder))
    return found


def with_owners(pieces: Iterable[Piece], owners: dict[int, int]) -> list[Piece]:
    """The pieces of a whole line, with single hashes given to their owners.

    >>> for piece in with_owners([Piece(0, 9, 1)], {5: 2}):
    ...     print(*piece)
    0 5 1
    5 6 2
    6 9 1
    """
    coming = sorted(owners, reverse=True)
    found: list[Piece] = []

    def add(begin: int, end: int, holder: int) -> None:
        if begin >= end:
            return
        if found and found[-1].holder == holder and found[-1].end == begin:
            begin = found.pop().begin
        found.append(Piece(begin, end, holder))

    for begin, end, holder in pieces:
        at = begin
        while coming and coming[-1] < end:
            key_hash = coming.pop()
            add(at, key_hash, holder)
            add(key_hash, key_hash + 1, owners[key_hash])
            at = key_hash + 1
        add(at, end, holder)
    return found
