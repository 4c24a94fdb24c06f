"""How long a heap of records takes, and how long it must take at least. Pure, but for a lock.

In: each record as its handler ends. Out: what was lost, repeated, out of order; the time in which
the heap was worked off, over the least time in which anybody could. Keys run one record at a time.
So nobody is quicker than the heaviest key alone, nor than all workers that are never idle.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from coop_consumer.demo.check import Verdict


def least_s(keys: Iterable[bytes], workers: int, handler_s: float) -> float:
    """The least time for records of these keys, in seconds.

    >>> least_s([b"a"] * 6 + [b"b"] * 2, workers=4, handler_s=0.5)
    3.0
    >>> least_s([b"a", b"b", b"c", b"d"], workers=2, handler_s=0.5)
    1.0
    """
    counts = Counter(keys)
    if not counts:
        return 0.0
    return max(*counts.values(), counts.total() / workers) * handler_s


class HandledRecords:
    """The records that a group has handled. Any thread.

    Args:
        heap_row: The row of the first record of the heap; those before it are a warm-up.

    Attributes:
        count: Records handled, each once.
        last_s: When the last one ended, by the clock of whoever notes it.
    """

    def __init__(self, heap_row: int) -> None:
        self.count = 0
        self.last_s = 0.0
        self._heap_row = heap_row
        self._lock = threading.Lock()
        self._places: set[tuple[int, int]] = set()
        self._offsets: dict[tuple[int, bytes], int] = {}
        self._repeated = self._out_of_order = 0
        self._heap, self._spent_s = 0, 0.0

    def note(
        self, key: bytes, partition: int, offset: int, row: int, *, began_s: float, ended_s: float
    ) -> None:
        """A handler has ended."""
        with self._lock:
            if row >= self._heap_row:
                self._heap += 1
                self._spent_s += ended_s - began_s
            if (partition, offset) in self._places:
                self._repeated += 1
                return
            self._places.add((partition, offset))
            self._out_of_order += self._offsets.get((partition, key), -1) > offset
            self._offsets[partition, key] = offset
            self.count += 1
            self.last_s = max(self.last_s, ended_s)

    @property
    def handler_s(self) -> float:
        """What a record of the heap has taken on average; 0.0 before the first one."""
        with self._lock:
            return self._spent_s / self._heap if self._heap else 0.0

    def verdict(self, records: int) -> Verdict:
        """What is wrong, if there were so many records."""
        with self._lock:
            return Verdict(records - len(self._places), self._out_of_order, self._repeated)
