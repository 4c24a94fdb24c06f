"""An offset table as the state of one commit log. Pure; one thread.

In: committed records, in the order of the log, or the parts of a snapshot. Out: entries by place,
and the parts of a snapshot. A record that cannot be read is reported with its log offset, and the
last sound entry of its place stays.

One record says of how many partitions the store's topic consists. Groups are spread by that number,
so a topic that has grown since would hide offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from coop_consumer.log_events import LogEvent
from coop_consumer.logs.records import NewRecord, VisibleRecord
from coop_consumer.logs.state_machine import SNAPSHOT_PART_MAX_BYTES
from offsets import CorruptRecordError, OffsetCommit, OffsetTable
from offsets.offset_codec import encode_entry, encode_place

log = logging.getLogger(__name__)

_SIZE_KEY: Final = b"partitions"
_SIZE_BYTES: Final = 4
_REPORTS_MAX: Final = 10
"""Corrupt records of a log partition that get a line; the others are counted."""


class OffsetMachine:
    """The entries of one log partition. See `StateMachine`.

    Args:
        where: The log partition, for reports: `offsets-3`.

    Attributes:
        table: The entries.
        partitions: Of the store's topic, as the log says; 0: nobody has used it yet.
        corrupt: How many records could not be read.
    """

    def __init__(self, where: str) -> None:
        self.table = OffsetTable()
        self.partitions = 0
        self.corrupt = 0
        self._where = where

    def apply(self, records: Sequence[VisibleRecord]) -> Sequence[object]:
        """Take the log's next records. They have no results. O(records)."""
        for (offset, key, value), error in self.table.apply_all(records):
            if key == _SIZE_KEY and value is not None and len(value) == _SIZE_BYTES:
                self.partitions = int.from_bytes(value, "big")
            else:
                self._report(offset, error)
        return (None,) * len(records)

    def snapshot(self) -> Iterator[bytes]:
        """The parts of a snapshot."""
        data = self.partitions.to_bytes(_SIZE_BYTES, "big") + self.table.snapshot()
        for at in range(0, len(data), SNAPSHOT_PART_MAX_BYTES):
            yield data[at : at + SNAPSHOT_PART_MAX_BYTES]

    def restore(self, parts: Iterable[bytes]) -> None:
        """Replace everything by a snapshot.

        Raises:
            CorruptRecordError: If the parts are not a whole snapshot; then nothing is replaced.
        """
        data = b"".join(parts)
        table = OffsetTable.restored(data[_SIZE_BYTES:])
        self.table, self.partitions = table, int.from_bytes(data[:_SIZE_BYTES], "big")

    def _report(self, offset: int, error: CorruptRecordError) -> None:
        self.corrupt += 1
        if self.corrupt <= _REPORTS_MAX:
            log.error(
                "%s, offset %d: %s. The last sound entry of its place counts. Find out who wrote "
                "it; committing the entry again ends this.%s",
                self._where,
                offset,
                error,
                " Further ones are counted only." if self.corrupt == _REPORTS_MAX else "",
                extra=LogEvent.OFFSET_STORE_CORRUPT.extra(offset=offset, error=error),
            )


def size_record(partitions: int) -> NewRecord:
    """The record that says of how many partitions the store's topic consists."""
    return NewRecord(_SIZE_KEY, partitions.to_bytes(_SIZE_BYTES, "big"))


def records_of(commit: OffsetCommit) -> list[NewRecord]:
    """One record an entry."""
    group = commit.group.encode()
    return [
        NewRecord(encode_place(group, place.topic.encode(), place.partition), encode_entry(entry))
        for place, entry in commit.entries.items()
    ]
