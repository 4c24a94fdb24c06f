"""An offset table as the state of one commit log. Pure; one thread.

In: committed records, in the order of the log, or the parts of a snapshot. Out: entries by place,
and the parts of a snapshot. A record that cannot be read is reported with its log offset, and the
last sound entry of its place stays. If there is none, the place is unknown: compaction may have
removed the sound records before the damaged one. Nobody may take that for "no entry", so whoever
asks for the place gets an error until somebody commits it again.

One record says of how many partitions the store's topic consists. Groups are spread by that number,
so a topic that has grown since would hide offsets.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from assignors import TopicPartition
from coop_consumer.errors import OffsetUnknownError
from coop_consumer.log_events import LogEvent
from coop_consumer.logs.records import NewRecord, VisibleRecord
from coop_consumer.logs.state_machine import SNAPSHOT_PART_MAX_BYTES
from offsets import CorruptRecordError, OffsetCommit, OffsetEntry, OffsetTable
from offsets.offset_codec import decode_place, encode_entry, encode_place

log = logging.getLogger(__name__)

_SIZE_KEY: Final = b"partitions"
_SIZE_BYTES: Final = 4
_REPORTS_MAX: Final = 10
"""Corrupt records of a log partition that get a line; the others are counted."""
_UNKNOWN_MARK: Final = b"\0"
"""Of a snapshot, behind the number of partitions: unknown places follow. Else a table does at once,
and that begins with its version, which is above 0."""
_UNKNOWN_COUNT: Final = struct.Struct(">I")
_UNKNOWN: Final = struct.Struct(">QI")
"""Log offset, and bytes of the key."""

_GroupPlace = tuple[str, TopicPartition]


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
        self._unreadable: dict[
            _GroupPlace, int
        ] = {}  # log offsets, of places that had no entry then

    def apply(self, records: Sequence[VisibleRecord]) -> Sequence[object]:
        """Take the log's next records. They have no results. O(records)."""
        for (offset, key, value), error in self.table.apply_all(records):
            if key == _SIZE_KEY and value is not None and len(value) == _SIZE_BYTES:
                self.partitions = int.from_bytes(value, "big")
            else:
                self._report(offset, error, self._note(offset, key))
        return (None,) * len(records)

    def _note(self, offset: int, key: bytes | None) -> str:
        """Note the place of a corrupt record, if it has no entry; what becomes of the place."""
        place = _place_of(key or b"")
        if place is None:
            return "It names no place, so no entry is concerned. Find out who wrote it"
        if self.table.get(*place) is not None:
            kept = "The last sound entry of its place counts"
        else:
            self._unreadable[place] = offset
            kept = "There is no sound entry of its place, so nobody gets one"
        return f"{kept}. Find out who wrote it; committing the entry again ends this"

    def get(self, group: str, place: TopicPartition) -> OffsetEntry | None:
        """The entry of a place; None if it has none.

        Raises:
            OffsetUnknownError: Its record is corrupt, and it has no sound one.
        """
        entry = self.table.get(group, place)
        if entry is None and (group, place) in self._unreadable:
            offset = self._unreadable[group, place]
            raise OffsetUnknownError(group, place.topic, place.partition, self._where, offset)
        return entry

    def found(
        self, group: str, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetEntry]:
        """The entries of these places, as far as there are any.

        Raises:
            OffsetUnknownError: As `get`.
        """
        entries = ((place, self.get(group, place)) for place in places)
        return {place: entry for place, entry in entries if entry is not None}

    def snapshot(self) -> Iterator[bytes]:
        """The parts of a snapshot."""
        data = b"".join(
            (self.partitions.to_bytes(_SIZE_BYTES, "big"), self._unknown(), self.table.snapshot())
        )
        for at in range(0, len(data), SNAPSHOT_PART_MAX_BYTES):
            yield data[at : at + SNAPSHOT_PART_MAX_BYTES]

    def restore(self, parts: Iterable[bytes]) -> None:
        """Replace everything by a snapshot.

        Raises:
            CorruptRecordError: If the parts are not a whole snapshot; then nothing is replaced.
        """
        data = b"".join(parts)
        unreadable, end = _unknown_in(data, _SIZE_BYTES)
        table = OffsetTable.restored(data[end:])
        self.table, self.partitions = table, int.from_bytes(data[:_SIZE_BYTES], "big")
        self._unreadable = unreadable

    def _unknown(self) -> bytes:
        """The places that are unknown now, for a snapshot; mostly no bytes."""
        found = {at: offset for at, offset in self._unreadable.items() if not self.table.get(*at)}
        if not found:
            return b""
        out = bytearray(_UNKNOWN_MARK + _UNKNOWN_COUNT.pack(len(found)))
        for (group, place), offset in found.items():
            key = encode_place(group.encode(), place.topic.encode(), place.partition)
            out += _UNKNOWN.pack(offset, len(key)) + key
        return bytes(out)

    def _report(self, offset: int, error: CorruptRecordError, outcome: str) -> None:
        self.corrupt += 1
        if self.corrupt <= _REPORTS_MAX:
            log.error(
                "%s, offset %d: %s. %s.%s",
                self._where,
                offset,
                error,
                outcome,
                " Further ones are counted only." if self.corrupt == _REPORTS_MAX else "",
                extra=LogEvent.OFFSET_STORE_CORRUPT.extra(offset=offset, error=error),
            )


def _place_of(key: bytes) -> _GroupPlace | None:
    """The place that a key names, if it can be read."""
    try:
        group, topic, partition = decode_place(key)
        return group.decode(), TopicPartition(topic.decode(), partition)
    except (CorruptRecordError, UnicodeDecodeError):
        return None


def _unknown_in(data: bytes, at: int) -> tuple[dict[_GroupPlace, int], int]:
    """The unknown places of a snapshot, from this byte on, and where they end."""
    found: dict[_GroupPlace, int] = {}
    if data[at : at + len(_UNKNOWN_MARK)] != _UNKNOWN_MARK:
        return found, at
    at += len(_UNKNOWN_MARK)
    try:
        (count,) = _UNKNOWN_COUNT.unpack_from(data, at)
        at += _UNKNOWN_COUNT.size
        for _ in range(count):
            offset, size = _UNKNOWN.unpack_from(data, at)
            at += _UNKNOWN.size + size
            place = _place_of(data[at - size : at])
            if place is None:
                raise CorruptRecordError("a key that cannot be read", at - size)
            found[place] = offset
    except struct.error as error:
        raise CorruptRecordError("a snapshot cut within its unknown places", at) from error
    return found, at


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
