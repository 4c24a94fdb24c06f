"""Pace: how many offsets a second a partition has to do. Pure.

In: where the partition ends, as fetches tell. Out: its arrivals a second over the last minutes, and
a sixtieth of what is left. All holders of a partition fetch it from the same brokers, so they
measure the same. Only differences of one member's clock count.
"""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.core.load import HALF_LIFE_MS

_STEP_MS = 1_000
_REST_MAX_MS = 10 * HALF_LIFE_MS
LEFT_S = 60
"""What is left is to be done in so many seconds."""


@dataclass(slots=True, eq=False)
class PartitionPace:
    """Of one partition.

    Attributes:
        end: Where it ends, as far as was told; -1: not yet.
    """

    end: int = -1
    _from: int = 0
    _at_ms: int = 0
    _arrived: float = 0.0
    _seconds: float = 0.0

    def told(self, end: int, now_ms: int) -> None:
        """It ends here now. One that ends below what was told has been cut off, or made again."""
        if self.end < 0 or end < self.end:
            self._from, self._at_ms = end, now_ms
        self.end = end
        passed_ms = now_ms - self._at_ms
        if passed_ms < _STEP_MS:
            return
        fade = 0.5 ** (min(passed_ms, _REST_MAX_MS) / HALF_LIFE_MS)
        self._arrived = self._arrived * fade + end - self._from
        self._seconds = self._seconds * fade + passed_ms / 1_000
        self._from, self._at_ms = end, now_ms

    def offsets_a_second(self, left: int) -> int:
        """The pace, with so many offsets left; 0: nothing is to be done."""
        arrivals = self._arrived / self._seconds if self._seconds else 0.0
        return max(round(arrivals + left / LEFT_S), 1) if arrivals or left else 0
