"""How many messages a fetched batch has: enough to be cheap, few enough to be fair. Pure.

In: what was handed on, and when. Out: the size of the next batch. The interpreter is held while the
messages of a batch are made, so a batch is what is wanted in 10 ms. But a batch waits for the
interpreter: ms where many threads want it. So it has at least 400 messages, if these are wanted
in 100 ms. Where handlers are slow fewer messages make a batch, because partitions take turns in
batches. Where messages are large a batch has no more than 4 MiB of them.
"""

from __future__ import annotations

BATCH_MIN, BATCH_MAX = 400, 2_000
BATCH_S = 0.01
SLOW_MIN, SLOW_S = 16, 0.1
"""Where fewer than `BATCH_MIN` are wanted in this time, a batch has as few as are wanted."""
BATCH_BYTES_MAX = 4 << 20
_MEASURED_S = 0.05


class BatchSize:
    """Follows the rate at which messages are wanted.

    Args:
        now_s: The time.

    Attributes:
        size: Of the next batch.

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
        """Note how many messages were handed on in one batch; returns the size of the next one."""
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
