"""The order checker: watches a worker from inside and counts what must not happen (I4).

In: the begin and end of every record. Out: how many records began before an earlier one of their
key had ended, or after a later one; how many came twice. About half a microsecond a record.
"""

from __future__ import annotations

from coop_consumer import Record

_RUNS = 1


class OrderChecker:
    """Counts order violations and repeats, per (partition, key)."""

    def __init__(self) -> None:
        self.out_of_order = 0
        self.repeated = 0
        self._last: dict[tuple[int, bytes | None], int] = {}
        self._running: dict[tuple[int, bytes | None], int] = {}

    def begin(self, record: Record) -> None:
        """A handler starts."""
        place = (record.partition, record.key)
        last = self._last.get(place, -1)
        if self._running.get(place) or record.offset < last:
            self.out_of_order += 1
        if record.offset == last:
            self.repeated += 1
        self._running[place] = _RUNS
        self._last[place] = record.offset

    def end(self, record: Record) -> None:
        """A handler has ended."""
        self._running[record.partition, record.key] = 0
