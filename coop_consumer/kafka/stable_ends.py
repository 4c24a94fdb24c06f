"""Which partitions a fetch cannot get past their last stable offset. No Kafka in here.

In: again and again, where the fetch stands, and what lies there. Out: how long the fetch of which
partition has been held up by an undecided transaction. It asks no broker: a fetch tells a client
where a partition ends, whether its records can be read or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

LOOK_S = 1.0
"""A transaction takes some milliseconds, so one that is seen twice is worth a count."""

Place = TypeVar("Place")
"""How a caller names a partition."""


class StableEnds(Generic[Place]):
    """Looks at the partitions of one fetch, once a second.

    Args:
        tell: Takes for how long each partition has been held up, in ms; once with none, when all go
            on again.
    """

    def __init__(self, tell: Callable[[Mapping[Place, int]], None]) -> None:
        self._tell = tell
        self._due_s = 0.0
        self._since_s: dict[Place, tuple[int, float]] = {}
        self._is_told = False

    def is_due(self, now_s: float) -> bool:
        """Whether it is time to look."""
        return now_s >= self._due_s

    def looked(self, at_end: Mapping[Place, tuple[int, int]], now_s: float) -> None:
        """Take in a look.

        Args:
            at_end: Of each partition that is read as far as it can be, the position, and the offset
                its next record gets.
            now_s: A clock that only grows.
        """
        self._due_s = now_s + LOOK_S
        before, self._since_s = self._since_s, {}
        waits = {}
        for place, (position, end) in at_end.items():
            if end <= position:
                continue
            known, since_s = before.get(place, (-1, now_s))
            if known != position:
                since_s = now_s
            self._since_s[place] = position, since_s
            if since_s < now_s:
                waits[place] = int((now_s - since_s) * 1_000)
        if waits or self._is_told:
            self._tell(waits)
        self._is_told = bool(waits)
