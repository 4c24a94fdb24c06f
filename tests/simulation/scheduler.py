"""The scheduler: what happens next, and when. The only source of time and chance of a simulation.

In: calls with a delay. Out: those calls, one a step, in the order of virtual time. The seed decides
the order within a millisecond. No thread, no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

Call = Callable[[], object]


class Scheduler:
    """One seed's order of events.

    Attributes:
        rng: All chance of the world comes from here.
        now_ms: Virtual time.
        steps: How many calls were made.
    """

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now_ms = 0
        self.steps = 0
        self._count = 0
        self._heap: list[tuple[int, float, int, Call]] = []

    def after(self, delay_ms: int, call: Call) -> None:
        """Call `call` in so many milliseconds."""
        self._count += 1
        heappush(self._heap, (self.now_ms + delay_ms, self.rng.random(), self._count, call))

    def step(self) -> None:
        """Run the next call."""
        at_ms, _, _, call = heappop(self._heap)
        self.now_ms = max(self.now_ms, at_ms)
        self.steps += 1
        call()

    def between(self, low: int, high: int) -> int:
        """A whole number in [low, high], mostly a low one: most delays are short, some are long."""
        return low + int((high - low + 1) * self.rng.random() ** 3)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.rng.random() < probability


class Channel:
    """A connection: messages arrive late, but in the order in which they were sent."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._queue: deque[Call] = deque()

    def send(self, delay_ms: int, call: Call) -> None:
        """Call `call` in about that time, after everything that was sent before."""
        self._queue.append(call)
        self._scheduler.after(delay_ms, self._arrive)

    def _arrive(self) -> None:
        self._queue.popleft()()
