"""The log that holds all progress: an append-only sequence of keyed records. Pure.

In: records, appended one by one. Out: records in offset order, and whether that was all of them.
`Log` is the port that the real progress topic implements in another room; `MemoryLog` is the same
promises in memory, for tests and the simulation. `tests/contract/test_log.py` holds the promises.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of the log.

    Attributes:
        offset: Its place in the log; offsets ascend, with holes after compaction.
        key: What compaction goes by.
        value: The bytes, or None: a tombstone, which deletes the key.
        timestamp_ms: When it was appended, in milliseconds since 1970; for display only.
    """

    offset: int
    key: bytes
    value: bytes | None
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class LogBatch:
    """What one read found.

    Attributes:
        records: Some of the records at or above the offset asked for, without omission.
        next_offset: Where to go on reading.
        end_offset: The end of the log as this very read saw it: the next record's offset, or
            higher, after holes.
    """

    records: Sequence[LogRecord]
    next_offset: int
    end_offset: int

    @property
    def is_complete(self) -> bool:
        """Whether nothing was left to read when this read happened.

        Both figures are of the same read; an end asked for beforehand would allow to act on a
        prefix of the log.
        """
        return self.next_offset == self.end_offset


class Log(Protocol):
    """An append-only, compacted log: one total order of records."""

    def append(self, key: bytes, value: bytes | None) -> int:
        """Append a record, durably; its offset."""

    def read(self, offset: int, max_records: int) -> LogBatch:
        """Up to `max_records` records, beginning with the first at or above `offset`."""


class MemoryLog:
    """A log in memory, compacted on demand.

    >>> log = MemoryLog()
    >>> [log.append(b"a", b"1"), log.append(b"b", b"2"), log.append(b"a", b"3")]
    [0, 1, 2]
    >>> log.compact()
    >>> [(record.offset, record.value) for record in log.read(0, max_records=10).records]
    [(1, b'2'), (2, b'3')]
    """

    __slots__ = ("_records", "end_offset")

    def __init__(self) -> None:
        self._records: list[LogRecord] = []
        self.end_offset = 0

    def append(self, key: bytes, value: bytes | None, timestamp_ms: int = 0) -> int:
        """Append a record; its offset. O(1)."""
        offset = self.end_offset
        self._records.append(LogRecord(offset, key, value, timestamp_ms))
        self.end_offset = offset + 1
        return offset

    def read(self, offset: int, max_records: int) -> LogBatch:
        """Up to `max_records` records from `offset` on. O(log n + records).

        Raises:
            ValueError: If `offset` lies outside the log, or `max_records` is below 1.
        """
        if not 0 <= offset <= self.end_offset:
            raise ValueError(f"offset {offset} is outside the log, 0 to {self.end_offset}")
        if max_records < 1:
            raise ValueError(f"max_records={max_records} is below 1: the read would never end")
        i = bisect_left(self._records, offset, key=lambda record: record.offset)
        records = self._records[i : i + max_records]
        more = i + max_records < len(self._records)
        next_offset = records[-1].offset + 1 if more else self.end_offset
        return LogBatch(records, next_offset, self.end_offset)

    def compact(self, end_offset: int | None = None, *, drop_tombstones: bool = False) -> None:
        """Keep the last record of each key among those below `end_offset` (default: the end).

        The last record of the log always stays, as Kafka never cleans the active segment. Records
        at or above `end_offset`, which stands for that segment's beginning, neither go nor count.

        Args:
            end_offset: Where the part to compact ends.
            drop_tombstones: Drop the tombstones in that part too, as Kafka does some time later.
        """
        end_offset = self.end_offset if end_offset is None else end_offset
        last = {record.key: record.offset for record in self._records if record.offset < end_offset}

        def stays(record: LogRecord) -> bool:
            if record.offset >= end_offset or record is self._records[-1]:
                return True
            dropped = drop_tombstones and record.value is None
            return last[record.key] == record.offset and not dropped

        self._records = [record for record in self._records if stays(record)]
