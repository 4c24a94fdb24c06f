"""When a failed record is tried again. Pure: chance comes in as an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Rng(Protocol):
    """A source of chance; `random.Random` is one."""

    def random(self) -> float:
        """The next number in [0, 1)."""
        ...


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with jitter, for a number of attempts and some time.

    Attributes:
        attempts_max: How often a record is tried at least, the first time included.
        for_ms: For how long it is tried at least, from its first failure on.
        backoff_ms: Wait after the first failure; doubles with each.
        backoff_max_ms: The longest wait.
    """

    attempts_max: int
    for_ms: int
    backoff_ms: int
    backoff_max_ms: int

    def is_used_up(self, attempts: int, tried_ms: int) -> bool:
        """Whether a record that failed that many times in that time is given up."""
        return attempts >= self.attempts_max and tried_ms >= self.for_ms

    def wait_ms(self, attempts: int, tried_ms: int, rng: Rng) -> int | None:
        """How long to wait after that many failed attempts in that time; None: give up.

        A record is given up once both are used up: its attempts and its time.

        The wait is spread over the upper half, so that keys that failed together come apart.
        """
        if self.is_used_up(attempts, tried_ms):
            return None
        wait = min(self.backoff_ms << min(attempts - 1, 30), self.backoff_max_ms)
        return round(wait * (0.5 + rng.random() / 2))
