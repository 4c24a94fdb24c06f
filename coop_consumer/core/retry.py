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
    """Exponential back-off with jitter, up to a number of attempts.

    Attributes:
        attempts_max: How often a record is tried, the first time included.
        backoff_ms: Wait after the first failure; doubles with each.
        backoff_max_ms: The longest wait.
    """

    attempts_max: int
    backoff_ms: int
    backoff_max_ms: int

    def wait_ms(self, attempts: int, rng: Rng) -> int | None:
        """How long to wait after that many failed attempts; None: give up.

        The wait is spread over the upper half, so that keys that failed together come apart.
        """
        if attempts >= self.attempts_max:
            return None
        wait = min(self.backoff_ms << min(attempts - 1, 30), self.backoff_max_ms)
        return round(wait * (0.5 + rng.random() / 2))
