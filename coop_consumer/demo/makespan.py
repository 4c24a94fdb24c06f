"""How long a heap of records takes, and how long it must take at least. Pure, but for a lock.

In: each record as its handler ends. Out: what was lost, repeated, out of order; the time in which
the heap was worked off, over the least time in which anybody could. Keys run one record at a time.
So nobody is quicker than the records of one key, nor than all workers that are never idle. Both are
counted in the time that handlers have really taken: so no group can be quicker than its bound.
"""

from __future__ import annotations

import threading
from collections import defaultdict

from coop_consumer.demo.check import Verdict


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
        self._spent_s: defaultdict[tuple[int, bytes], float] = defaultdict(float)

    def note(
        self, key: bytes, partition: int, offset: int, row: int, *, began_s: float, ended_s: float
    ) -> None:
        """A handler has ended."""
        with self._lock:
            if (partition, offset) in self._places:
                # A repeat may run beside later records of its key: no bound may count its time.
                self._repeated += 1
                return
            self._places.add((partition, offset))
            if row >= self._heap_row:
                self._spent_s[partition, key] += ended_s - began_s
            self._out_of_order += self._offsets.get((partition, key), -1) > offset
            self._offsets[partition, key] = offset
            self.count += 1
            self.last_s = max(self.last_s, ended_s)

    def least_s(self, workers: int) -> float:
        """The least time for the heap, in seconds; 0.0 before its first record. O(keys).

        Args:
            workers: How many the group has.

        >>> handled = HandledRecords(heap_row=0)
        >>> handled.note(b"a", 0, 0, 0, began_s=1.0, ended_s=4.0)
        >>> handled.note(b"b", 0, 1, 1, began_s=1.0, ended_s=2.0)
        >>> handled.least_s(workers=1), handled.least_s(workers=2)
        (4.0, 3.0)
        """
        with self._lock:
            of_keys = self._spent_s.values()
            return max(max(of_keys, default=0.0), sum(of_keys) / workers)

    def verdict(self, records: int) -> Verdict:
        """What is wrong, if there were so many records."""
        with self._lock:
            return Verdict(records - len(self._places), self._out_of_order, self._repeated)
