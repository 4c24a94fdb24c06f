"""Work time: how long handlers take, and how busy workers are. Pure.

In: the chunks, batches and turns that executors have worked off, or are at, and time. Out: what a
record costs on average, what handlers have taken so far, by topic as well. A record costs nothing
here. What a record costs is known once its handler has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coop_consumer.core.load import HALF_LIFE_MS

if TYPE_CHECKING:
    from coop_consumer.core.tally import Tally

_REST_MAX_MS = 10 * HALF_LIFE_MS
_PS = 10**12


@dataclass(slots=True, eq=False)
class WorkTime:
    """Of one member.

    Attributes:
        spent: Seconds, records and topic of what was worked off; executors append, which is atomic.
            If records of several topics were worked off together, the last one names the topic.
        restarts: One for each child process that was started in the place of a dead one; executors
            append.
        workers: How many records, or batches, are processed at a time; 0: the executor can't know.
            Executors set it.
        running_s: Returns how many seconds what runs now has taken so far. Executors set it. It is
            called by the member's thread, while others run.
        total_s: Seconds of all handlers that have ended, as of the last `look`.
    """

    spent: deque[tuple[float, int, str]] = field(default_factory=deque)
    restarts: deque[int] = field(default_factory=deque)
    workers: int = 0
    running_s: Callable[[], float] = float
    total_s: float = 0.0
    _recent_s: float = 0.0
    _records: float = 0.0
    _at_ms: int = 0

    def look(self, now_ms: int, tally: Tally | None = None) -> None:
        """Take in what was worked off since the last look; the tally gets it by topic."""
        while tally is not None and self.restarts:
            tally.child_restarts += self.restarts.popleft()
        if not self.spent:
            return
        taken = [self.spent.popleft() for _ in range(len(self.spent))]
        spent_s = sum(seconds for seconds, _, _ in taken)
        records = sum(count for _, count, _ in taken)
        if tally is not None:
            for seconds, count, topic in taken:
                tally.of(topic).handler.observe(seconds / count, count)
        fade = 0.5 ** (min(max(now_ms - self._at_ms, 0), _REST_MAX_MS) / HALF_LIFE_MS)
        self._at_ms = now_ms
        self.total_s += spent_s
        self._recent_s = self._recent_s * fade + spent_s
        self._records = self._records * fade + records

    @property
    def busy_s(self) -> float:
        """Seconds of all handlers so far; it may go back a little, as a handler ends meanwhile."""
        return self.total_s + self.running_s()

    @property
    def cost_ps(self) -> int:
        """What a record takes on average, in picoseconds; 0: not known."""
        return round(self._recent_s * _PS / self._records) if self._records else 0
