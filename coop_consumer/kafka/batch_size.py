"""How many messages a fetched batch has: enough to be cheap, few enough to be fair. Pure.

In: how many messages were handed on, and when. Out: the size of the next batch. Making the messages
of a batch holds the interpreter, so a batch has the messages that handlers take in 10 ms. If many
threads want the interpreter, a batch waits milliseconds for it. So a batch has at least 400
messages if handlers take these within 100 ms. With slow handlers a batch has fewer messages,
because partitions take turns in batches. With large messages a batch has at most 4 MiB.
"""

from __future__ import annotations

BATCH_MIN, BATCH_MAX = 400, 2_000
BATCH_S = 0.01
SLOW_MIN, SLOW_S = 16, 0.1
"""If handlers take fewer than `BATCH_MIN` in this time, a batch has as many as they take."""
BATCH_BYTES_MAX = 4 << 20
_MEASURED_S = 0.05


class BatchSize:
    """Follows the rate at which handlers take messages.

    Args:
        now_s: The time.

    Attributes:
        size: Messages in the next batch.

    >>> sizes = BatchSize(0.0)
    >>> sizes.size, [sizes.note(sizes.size, 0.001 * ms, bytes_each=100) for ms in range(7)]
    (16, [16, 32, 64, 128, 256, 400, 400])
    """

    def __init__(self, now_s: float) -> None:
        self.size = SLOW_MIN
        self._rate = 0.0
        self._counted = 0
        self._since_s = now_s

    def note(self, count: int, now_s: float, bytes_each: float) -> int:
        """Note that `count` messages were handed on; returns the size of the next batch."""
        self._counted += count
        at_least = max(self._counted, self._rate * SLOW_S)  # it doubles until a rate is known
        passed_s = now_s - self._since_s
        if passed_s >= _MEASURED_S:
            self._rate = self._counted / passed_s
            at_least = self._rate * SLOW_S
            self._since_s, self._counted = now_s, 0
        low = min(max(SLOW_MIN, at_least), BATCH_MIN)
        wanted = min(max(low, self._rate * BATCH_S), BATCH_MAX)
        self.size = max(1, round(min(wanted, BATCH_BYTES_MAX / bytes_each)))
        return self.size
