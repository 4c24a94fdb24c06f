"""Records fetched and not yet handed on: a queue for each partition; partitions take turns. Pure.

In: pieces, as they were fetched. Out: pieces, with the same share of each partition. A broker sends
all it has of one partition before anything of the next. Without turns, the other partitions and
their busy keys would have no work while handlers process the first partition.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)
M = TypeVar("M")


class LookAhead(Generic[P, M]):
    """Queues of pieces, by partition.

    Attributes:
        size: The sum of all queues, in the unit of `add`.

    >>> ahead = LookAhead()
    >>> for place, piece in [("a", [0, 1]), ("a", [2, 3]), ("a", [4]), ("b", [0])]:
    ...     ahead.add(place, piece, size=len(piece))
    >>> ahead.take(2), ahead.size, ahead.take(9)
    ([('a', [0]), ('b', [0])], 4, [('a', [1]), ('a', [2, 3]), ('a', [4])])
    """

    def __init__(self) -> None:
        self.size = 0
        self._queues: OrderedDict[P, deque[tuple[Sequence[M], int]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __contains__(self, place: P) -> bool:
        return place in self._queues

    def add(self, place: P, piece: Sequence[M], size: int) -> None:
        """Append a piece to the queue of its partition."""
        self._queues.setdefault(place, deque()).append((piece, size))
        self.size += size

    def take(self, count: int, *, cuts: bool = True) -> list[tuple[P, Sequence[M]]]:
        """Take `count` messages, or all; each partition that has enough gets an equal share.

        The partitions take turns in pieces. A piece larger than the share is cut. If later turns
        soon balance it, the piece stays whole.
        """
        taken: list[tuple[P, Sequence[M]]] = []
        while count > 0 and self._queues:
            share = max(1, count // len(self._queues)) if cuts else count
            for place in list(self._queues):
                if count <= 0:
                    break
                piece = self._take_piece(place, share)
                count -= len(piece)
                taken.append((place, piece))
        return taken

    def _take_piece(self, place: P, count_max: int) -> Sequence[M]:
        """Take a partition's oldest piece, and move the partition behind the others."""
        queue = self._queues.pop(place)
        piece, size = queue.popleft()
        if len(piece) > count_max:
            left = size * (len(piece) - count_max) // len(piece)
            queue.appendleft((piece[count_max:], left))
            piece, size = piece[:count_max], size - left
        if queue:
            self._queues[place] = queue
        self.size -= size
        return piece

    def drop(self, place: P) -> None:
        """Forget the queue of a partition."""
        for _, size in self._queues.pop(place, ()):
            self.size -= size
