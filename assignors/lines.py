"""Sticky division of partitions into ranges: who gives up which piece, and who gets it. Pure.

In: for each partition the pieces held now, and for each member its due and its host. Out: all lines
divided, each member within 1 % of its due. A line of pieces is a partition's hash space, or its
load (see `scale`): lines of load differ in length. `divide` moves as little as it can, in three
steps. *Plan* decides how much each member gives and takes. *Cut* frees the pieces that are given.
*Fill* hands out the free pieces, first to neighbours: so pieces grow rather than multiply. Upholds
I1: after each step disjoint pieces cover every line.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from assignors.claims import LINE, Piece

FREE = -1
"""The holder of a piece that nobody holds."""

_SLACK_PER_MILLE = 9  # who is this near to its due may stay as it is
_BAND_PER_MILLE = 10  # the promise
_SLIVER_PER_MILLE = 3  # of the smallest due: this much may go beside the plan to save a range


class Claimant(NamedTuple):
    """A member's part in the division.

    Args:
        due: How much it is due, over all lines.
        load: What its slack is measured by: the due, and what it carries besides.
        host: Where it runs.
    """

    due: int
    load: int
    host: str


def divide(
    lines: Sequence[Sequence[Piece]],
    claimants: Mapping[int, Claimant],
    lengths: Sequence[int] | None = None,
) -> list[list[Piece]]:
    """Divide whole lines among claimants, near to how they are held.

    Moves at most what reaching each due exactly would move; who is within 0.9 % of it keeps what it
    has as far as the others allow. O(n log n + pieces handed out x lines in part free), n pieces.

    Args:
        lines: For each partition what is held of it: ascending, disjoint, by claimants only.
        claimants: Members by index; their dues add up to the length of all lines.
        lengths: How long each line is; None: each as long as the hash space.

    Returns:
        For each line its pieces, ascending, without a hole.
    """
    return _Division(lines, claimants, lengths or [LINE] * len(lines)).divided()


def is_near(held: int, due: int) -> bool:
    """Whether a member may stay as it is."""
    return abs(held - due) * 1000 <= due * _SLACK_PER_MILLE


class _Segment:
    """A piece of a line that can change hands, linked to its neighbours."""

    __slots__ = ("begin", "end", "holder", "left", "line", "right")

    def __init__(self, line: int, piece: Piece) -> None:
        self.line = line
        self.begin, self.end, self.holder = piece
        self.left: _Segment | None = None
        self.right: _Segment | None = None

    @property
    def size(self) -> int:
        return self.end - self.begin

    @property
    def place(self) -> tuple[int, int]:
        return self.line, self.begin

    def neighbours(self) -> list[_Segment]:
        return [segment for segment in (self.left, self.right) if segment is not None]


class _FreePieces:
    """Free pieces to choose from, found by line and size.

    Args:
        segments: Free pieces of any lines.
        hosts: For each line who is on it; the division goes on adding to it.
    """

    def __init__(self, segments: Iterable[_Segment], hosts: Sequence[Collection[str]]) -> None:
        self._hosts = hosts
        self._blank: deque[_Segment] = deque()  # whole lines, ascending: nobody is there yet
        self._by_size: dict[int, list[tuple[int, int, _Segment]]] = {}  # of each line with somebody
        for segment in segments:
            if hosts[segment.line]:
                self.put(segment)
            else:
                self._blank.append(segment)

    def __bool__(self) -> bool:
        return bool(self._blank or self._by_size)

    def put(self, segment: _Segment) -> None:
        """Add a piece of a line that somebody is on."""
        insort(self._by_size.setdefault(segment.line, []), (segment.size, segment.begin, segment))

    def pop_most_suitable(self, host: str, want: int) -> _Segment:
        """Where the host already is, else where nobody is; what fits closest, else the largest.

        O(lines x log pieces) for the lines that are held in part.
        """
        lines = [line for line in self._by_size if host in self._hosts[line]]
        if not lines and self._blank:
            return self._blank.popleft()

        def misfit(choice: tuple[int, int]) -> tuple[bool, int, int, int]:
            line, at = choice
            size, begin, _ = self._by_size[line][at]
            return size < want, -size if size < want else size, line, begin

        choices = ((line, self._closest(line, want)) for line in lines or self._by_size)
        line, at = min(choices, key=misfit)
        _, _, segment = self._by_size[line].pop(at)
        if not self._by_size[line]:
            del self._by_size[line]
        return segment

    def _closest(self, line: int, want: int) -> int:
        """The position of the line's smallest piece of at least this size, else of its largest."""
        pieces = self._by_size[line]
        at = bisect_left(pieces, (want,))
        if at < len(pieces):
            return at
        largest = pieces[-1][0]
        return bisect_left(pieces, (largest,))


class _Division:
    def __init__(
        self,
        lines: Sequence[Sequence[Piece]],
        claimants: Mapping[int, Claimant],
        lengths: Sequence[int],
    ) -> None:
        self._claimants = claimants
        self._length = sum(lengths)
        self._firsts = [
            _linked(line, pieces, length)
            for line, (pieces, length) in enumerate(zip(lines, lengths, strict=True))
        ]
        self._held = dict.fromkeys(claimants, 0)
        self._segments: dict[int, list[_Segment]] = {i: [] for i in claimants}
        self._hosts: list[set[str]] = [set() for _ in lines]
        for segment in self._all():
            if segment.holder != FREE:
                self._enter(segment)
        # No slack for a member that is due nothing here: it would keep a piece that it cannot use.
        self._slack = {
            i: claimant.load * _SLACK_PER_MILLE // 1000 if claimant.due else 0
            for i, claimant in claimants.items()
        }
        least = min(claimant.load for claimant in claimants.values())
        self._sliver = least * _SLIVER_PER_MILLE // 1000
        self._beside_the_plan = 0  # above zero: more is free than anybody is to take
        self._give: dict[int, int] = {}
        self._take: dict[int, int] = {}

    def divided(self) -> list[list[Piece]]:
        self._plan()
        for i in sorted(self._give, key=self._first_place):
            self._cut(i, self._give[i])
        self._grow({i: self._claimants[i].due for i in self._take})
        self._settle()
        self._grow({i: claimant.due + self._slack[i] for i, claimant in self._claimants.items()})
        self._scatter()
        return [
            [Piece(segment.begin, segment.end, segment.holder) for segment in _walk(first)]
            for first in self._firsts
        ]

    # Plan: how much each member gives and takes.

    def _plan(self) -> None:
        """Bring each member outside of its slack to exactly its due; move others only if needed.

        So the amount moved is that which must be given or that which must be got, whichever is
        more; exact dues for all would move both. A member that was moved is not at the edge of its
        slack, where the next small change of dues would move it again.
        """
        for i, claimant in self._claimants.items():
            over = self._held[i] - claimant.due
            if over > self._slack[i]:
                self._give[i] = over
            elif -over > self._slack[i]:
                self._take[i] = -over
        free = self._length - sum(self._held.values())
        missing = sum(self._take.values()) - sum(self._give.values()) - free
        if missing > 0:
            self._take_from_few(missing)

    def _take_from_few(self, missing: int) -> None:
        """Let members within their slack give, down to its lower edge, so that few ranges are cut.

        Of members with about the same to spare, neighbours give one after the other: their ends
        make one piece.
        """
        spare = {
            i: min(self._held[i], self._held[i] - claimant.due + self._slack[i])
            for i, claimant in self._claimants.items()
            if i not in self._give and i not in self._take
        }
        places = {i: self._first_place(i) for i in spare}
        quantum = max(self._sliver, 1)
        for i in sorted(spare, key=lambda i: (-spare[i] // quantum, places[i])):
            gift = min(spare[i], missing)
            if gift <= 0 or self._deviate(-missing):
                break  # who takes gets this much less
            self._give[i] = gift
            missing -= gift

    def _could_deviate(self, deviation: int) -> bool:
        """Whether so little is better left beside the plan.

        Deviations must not add up, for at the end somebody has to bear their sum.
        """
        return abs(self._beside_the_plan + deviation) <= self._sliver

    def _deviate(self, deviation: int) -> bool:
        """Leave so little beside the plan, if that can be."""
        if not self._could_deviate(deviation):
            return False
        self._beside_the_plan += deviation
        return True

    def _may_have(self, i: int, held: int) -> bool:
        """Whether a member would be within 1 % of its due."""
        claimant = self._claimants[i]
        return abs(held - claimant.due) * 1000 <= claimant.load * _BAND_PER_MILLE

    # Cut: free what is given.

    def _cut(self, i: int, gift: int) -> None:
        """Free whole pieces while one is small enough, then an end of one that remains.

        Best is a piece that joins what is free already, then one next to somebody who takes; of
        equals the largest, for then fewer change hands.
        """
        while gift > 0:
            pieces = [
                (self._attraction(segment), segment.size, segment.place, segment)
                for segment in self._segments[i]
                if self._is_droppable(segment, gift)
            ]
            if not pieces:
                break
            segment = max(pieces, key=lambda piece: piece[:3])[-1]
            if segment.size > gift:
                self._deviate(segment.size - gift)
            gift -= segment.size
            self._release(segment)
        if gift <= 0 or (self._may_have(i, self._held[i]) and self._deviate(-gift)):
            return
        segment, at_left = self._best_end(i)
        if at_left:
            self._split(segment, segment.begin + gift)
            self._release(segment)
        else:
            self._release(self._split(segment, segment.end - gift))

    def _is_droppable(self, segment: _Segment, gift: int) -> bool:
        excess = segment.size - gift
        return excess <= 0 or (
            self._may_have(segment.holder, self._held[segment.holder] - segment.size)
            and self._could_deviate(excess)
        )

    def _best_end(self, i: int) -> tuple[_Segment, bool]:
        """Where to cut: as for pieces, by what the part that is cut off would lie next to."""
        ends = [
            (self._pull(neighbour), segment.size, segment.place, at_left, segment)
            for segment in self._segments[i]
            for at_left, neighbour in ((False, segment.right), (True, segment.left))
        ]
        _, _, _, at_left, segment = max(ends, key=lambda end: end[:4])
        return segment, at_left

    def _attraction(self, segment: _Segment) -> int:
        return self._pull(segment.left) + self._pull(segment.right)

    def _pull(self, neighbour: _Segment | None) -> int:
        """How good it is to free what lies next to this."""
        if neighbour is None:
            return 0
        if neighbour.holder == FREE:
            return 2
        return int(neighbour.holder in self._take)

    # Fill: hand out what is free.

    def _grow(self, targets: Mapping[int, int]) -> None:
        """Let those next to free pieces take what they lack of them: it makes no new range."""
        for segment in self._free():
            rest: _Segment | None = segment
            for neighbour in segment.neighbours():
                i = neighbour.holder
                lack = targets.get(i, 0) - self._held.get(i, 0)
                if rest is not None and lack > 0:
                    at_left = neighbour.end == rest.begin
                    rest = self._take_part(rest, i, lack, at_left=at_left)

    def _settle(self) -> None:
        """Give those who still have to get something the free pieces that suit them best.

        Host by host, so that the members of one host come to lie side by side.
        """
        free = _FreePieces(self._free(), self._hosts)
        in_order = sorted(
            self._take,
            key=lambda i: (self._claimants[i].host, i),
        )
        for i in in_order:
            while free and (want := self._claimants[i].due - self._held[i]) > 0:
                if self._may_have(i, self._held[i]) and self._deviate(want):
                    break
                segment = free.pop_most_suitable(self._claimants[i].host, want)
                rest = self._take_part(segment, i, want, at_left=True)
                if rest is not None:
                    free.put(rest)

    def _scatter(self) -> None:
        """Give what nobody had to get to those with the most room, as few as possible."""
        heap = [(-self._room(i), i) for i in self._claimants]
        heapify(heap)
        rests = self._free()
        while rests:
            segment = rests.pop()
            room, i = heappop(heap)
            # Room for all is left by construction; a last unit of rounding goes to the roomiest.
            rest = self._take_part(segment, i, max(-room, 1), at_left=True)
            heappush(heap, (-self._room(i), i))
            if rest is not None:
                rests.append(rest)

    def _room(self, i: int) -> int:
        return self._claimants[i].due + self._slack[i] - self._held[i]

    # Moves on the lines. Each keeps links, hands and sums in step.

    def _take_part(self, segment: _Segment, i: int, want: int, *, at_left: bool) -> _Segment | None:
        """Give a free piece, or as much of it as is wanted, to a member; what is left of it."""
        excess = segment.size - want
        rest: _Segment | None = None
        if excess > 0 and not (
            self._may_have(i, self._held[i] + segment.size) and self._deviate(-excess)
        ):
            right = self._split(segment, segment.begin + want if at_left else segment.end - want)
            segment, rest = (segment, right) if at_left else (right, segment)
        segment.holder = i
        self._enter(segment)
        for neighbour in segment.neighbours():
            if neighbour.holder == i:
                self._segments[i].remove(neighbour)
                self._absorb(segment, neighbour)
        return rest

    def _release(self, segment: _Segment) -> None:
        self._held[segment.holder] -= segment.size
        self._segments[segment.holder].remove(segment)
        segment.holder = FREE
        for neighbour in segment.neighbours():
            if neighbour.holder == FREE:
                self._absorb(segment, neighbour)

    def _enter(self, segment: _Segment) -> None:
        self._held[segment.holder] += segment.size
        self._segments[segment.holder].append(segment)
        self._hosts[segment.line].add(self._claimants[segment.holder].host)

    def _split(self, segment: _Segment, at: int) -> _Segment:
        """Cut a piece in two; it stays the left one, the right one is returned."""
        right = _Segment(segment.line, Piece(at, segment.end, segment.holder))
        right.left, right.right = segment, segment.right
        if segment.right is not None:
            segment.right.left = right
        segment.end, segment.right = at, right
        if segment.holder != FREE:
            self._segments[segment.holder].append(right)
        return right

    def _absorb(self, segment: _Segment, neighbour: _Segment) -> None:
        """Join a piece with a neighbour of the same holder; the neighbour is gone."""
        if neighbour is segment.left:
            segment.begin, segment.left = neighbour.begin, neighbour.left
            if segment.left is None:
                self._firsts[segment.line] = segment
            else:
                segment.left.right = segment
        else:
            segment.end, segment.right = neighbour.end, neighbour.right
            if segment.right is not None:
                segment.right.left = segment

    # Looking around.

    def _all(self) -> list[_Segment]:
        return [segment for first in self._firsts for segment in _walk(first)]

    def _free(self) -> list[_Segment]:
        return [segment for segment in self._all() if segment.holder == FREE]

    def _first_place(self, i: int) -> tuple[tuple[int, int], int]:
        nowhere = (len(self._firsts), 0)
        return min((segment.place for segment in self._segments[i]), default=nowhere), i


def _linked(line: int, pieces: Sequence[Piece], length: int) -> _Segment:
    """The first segment of a line; what nobody holds is in free segments."""
    whole: list[Piece] = []
    end = 0
    for piece in [*pieces, Piece(length, length, FREE)]:
        if end < piece.begin:
            whole.append(Piece(end, piece.begin, FREE))
        if piece.begin < piece.end:
            whole.append(piece)
        end = piece.end
    first = last = _Segment(line, whole[0])
    for piece in whole[1:]:
        segment = _Segment(line, piece)
        last.right, segment.left = segment, last
        last = segment
    return first


def _walk(first: _Segment) -> Iterator[_Segment]:
    segment: _Segment | None = first
    while segment is not None:
        yield segment
        segment = segment.right
