"""Millions of offset entries in little memory: the table of an offset store. Pure; one thread.

In: entries by group, topic and partition, or the bytes of their records. Out: the last entry of
each place, and all of them as one block of bytes (a snapshot).

Names are kept once. Group, topic and partition of an entry are one number of 64 bits. It lies in an
array with open addressing, its offset at the same index of a second one. Metadata and gap ranges
lie in a dict beside, for entries that have any. An entry that has none takes 21 to 43 bytes, by how
full the arrays are, and its share of the names.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

from assignors import TopicPartition
from offsets.offset_codec import (
    KEY_HEAD,
    PLAIN,
    VERSION,
    check_text,
    decode_entry,
    decode_place,
    encode_entry,
)
from offsets.offset_entry import PARTITION_MAX, OffsetEntry
from offsets.offset_range import OFFSET_MAX
from offsets.progress import Gaps
from offsets.wire import CorruptRecordError, UnknownRecordVersionError, swapped

GROUPS_MAX: Final = 2**24 - 1
TOPICS_MAX: Final = 2**20 - 1

_GROUP_SHIFT: Final = 40
_TOPIC_SHIFT: Final = 20
_PARTITION_MASK: Final = 2**20 - 1
_TOPIC_MASK: Final = 2**20 - 1

_SPREAD: Final = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: it sends neighbours far from each other."""
_FIRST_BITS: Final = 4
_PLAIN_VALUE_BYTES: Final = PLAIN.size
_KEY_HEAD_BYTES: Final = KEY_HEAD.size
_HEADER: Final = Struct("<BBIIQQ")
"""Version, bits of a slot's index, groups, topics, entries, entries with something beside."""
_BESIDE: Final = Struct("<QI")
"""Place, and bytes of the value."""
_CRC: Final = Struct("<I")


LogEntry: TypeAlias = tuple[int, bytes | None, bytes | None]
"""Log offset, key and value of a record."""
Buffer: TypeAlias = "bytes | array[int]"


class _Beside(NamedTuple):
    metadata: str
    gaps: Gaps


class OffsetTable:
    """The last entry of each group, topic and partition.

    >>> table = OffsetTable()
    >>> table.put("billing", TopicPartition("orders", 3), OffsetEntry(42))
    >>> table.get("billing", TopicPartition("orders", 3))
    OffsetEntry(offset=42, metadata='', gaps=())
    >>> table.get("billing", TopicPartition("orders", 4)) is None
    True
    """

    __slots__ = ("_beside", "_bits", "_count", "_groups", "_offsets", "_places", "_topics")

    def __init__(self) -> None:
        self._groups: dict[bytes, int] = {}  # from 1, so that no place is 0
        self._topics: dict[bytes, int] = {}
        self._beside: dict[int, _Beside] = {}
        self._count = 0
        self._make_room(_FIRST_BITS)

    def __len__(self) -> int:
        return self._count

    # ── Entries ──

    def get(self, group: str, place: TopicPartition) -> OffsetEntry | None:
        """The entry of a place; None if it has none. O(1)."""
        group_id = self._groups.get(group.encode())
        topic_id = self._topics.get(place.topic.encode())
        if group_id is None or topic_id is None:
            return None
        number = group_id << _GROUP_SHIFT | topic_id << _TOPIC_SHIFT | place.partition
        slot = self._slot(number)
        if not self._places[slot]:
            return None
        beside = self._beside.get(number)
        return OffsetEntry(self._offsets[slot], *(beside or ()))

    def found(
        self, group: str, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetEntry]:
        """The entries of these places, as far as there are any. O(places)."""
        entries = ((place, self.get(group, place)) for place in places)
        return {place: entry for place, entry in entries if entry is not None}

    def put(self, group: str, place: TopicPartition, entry: OffsetEntry) -> None:
        """Replace the entry of a place. O(1), but O(n) whenever the number of entries has doubled.

        Args:
            group: Its name.
            place: The partition; `OffsetCommit.check` knows what is allowed.
            entry: The entry; the same.

        Raises:
            ValueError: There are too many names: see `check_room`.
        """
        number = self._number(group.encode(), place.topic.encode(), place.partition)
        self._put(number, entry)

    def apply(self, key: bytes, value: bytes) -> None:
        """Take the entry of a record. O(1), as `put`.

        Raises:
            CorruptRecordError: If it is none; then the table is as before.
        """
        group, topic, partition = decode_place(key)
        if len(value) == _PLAIN_VALUE_BYTES and value[0] == VERSION and value[1] < 128:
            number = self._number(group, topic, partition)
            if number in self._beside:
                del self._beside[number]
            self._set(number, PLAIN.unpack(value)[1])
        else:
            entry = decode_entry(value)
            self._put(self._number(group, topic, partition), entry)

    def apply_all(self, records: Iterable[LogEntry]) -> list[tuple[LogEntry, CorruptRecordError]]:
        """Take the entries of records, in order. 1 to 2 µs a record of known names.

        What is usual is done here, in one loop without calls; `apply` does the rest.

        Args:
            records: Log offset, key and value of each.

        Returns:
            Each record that is none, and why. It has changed nothing.
        """
        corrupt: list[tuple[LogEntry, CorruptRecordError]] = []
        groups, topics, beside = self._groups.get, self._topics.get, self._beside
        unpack_key, unpack_value = KEY_HEAD.unpack_from, PLAIN.unpack
        places, offsets, shift, mask, room = self._slots()
        for record in records:
            _, key, value = record
            if key and value and len(value) == _PLAIN_VALUE_BYTES and len(key) > _KEY_HEAD_BYTES:
                version, split, topic_bytes, partition = unpack_key(key)
                split += _KEY_HEAD_BYTES
                group_id, topic_id = groups(key[_KEY_HEAD_BYTES:split]), topics(key[split:])
                value_version, offset = unpack_value(value)
                if (
                    group_id
                    and topic_id
                    and version == value_version == VERSION
                    and partition <= PARTITION_MAX
                    and len(key) == split + topic_bytes
                    and offset <= OFFSET_MAX
                ):
                    number = group_id << _GROUP_SHIFT | topic_id << _TOPIC_SHIFT | partition
                    slot = number * _SPREAD >> shift & mask
                    step = 0
                    while (found := places[slot]) != number and found:
                        step += 1
                        slot = slot + step & mask
                    if found:
                        offsets[slot] = offset
                        if beside:
                            beside.pop(number, None)
                        continue
                    if room > 0:
                        places[slot], offsets[slot] = number, offset
                        self._count += 1
                        room -= 1
                        continue
            try:
                self.apply(key or b"", value or b"")
            except CorruptRecordError as error:
                corrupt.append((record, error))
            places, offsets, shift, mask, room = self._slots()
        return corrupt

    def check_room(self, group: str, topics: Iterable[str]) -> None:
        """Check that entries of these names have room.

        Raises:
            ValueError: A table takes 16,777,215 names of groups and 1,048,575 of topics.
        """
        new = {name for topic in topics if (name := topic.encode()) not in self._topics}
        if len(self._topics) + len(new) > TOPICS_MAX:
            raise ValueError(f"{len(self._topics)} topics are known, and {TOPICS_MAX} is the most")
        if len(self._groups) >= GROUPS_MAX and group.encode() not in self._groups:
            raise ValueError(f"{GROUPS_MAX} groups are known, and no table takes more")

    def entries(self) -> Iterator[tuple[str, TopicPartition, OffsetEntry]]:
        """All entries, in no order. Nothing may be put meanwhile. O(n)."""
        groups = ["", *(name.decode() for name in self._groups)]
        topics = ["", *(name.decode() for name in self._topics)]
        for number, offset in zip(self._places, self._offsets, strict=True):
            if number:
                topic = topics[number >> _TOPIC_SHIFT & _TOPIC_MASK]
                place = TopicPartition(topic, number & _PARTITION_MASK)
                entry = OffsetEntry(offset, *(self._beside.get(number) or ()))
                yield groups[number >> _GROUP_SHIFT], place, entry

    # ── Snapshots ──

    def snapshot(self) -> bytes:
        """The whole table. O(n), at the speed of memory but for metadata and gap ranges."""
        names = [*self._groups, *self._topics]
        beside = [
            (number, encode_entry(OffsetEntry(self._offsets[self._slot(number)], *it)))
            for number, it in self._beside.items()
        ]
        counts = len(self._groups), len(self._topics), self._count, len(beside)
        parts: list[Buffer] = [
            _HEADER.pack(VERSION, self._bits, *counts),
            _little(array("H", map(len, names))),
            *names,
            _little(self._places),
            _little(self._offsets),
            *chain.from_iterable((_BESIDE.pack(at, len(value)), value) for at, value in beside),
        ]
        return b"".join([*parts, _CRC.pack(reduce(_crc32_on, parts, 0))])

    @classmethod
    def restored(cls, data: bytes) -> OffsetTable:
        """The table of a snapshot. O(n), at the speed of memory.

        The checksum vouches for all that follows: the bytes are those of a snapshot, or refused.

        Raises:
            CorruptRecordError: If the bytes are not a whole snapshot.
        """
        if len(data) < _HEADER.size + _CRC.size:
            raise CorruptRecordError(f"a snapshot of {len(data)} bytes", 0)
        if data[0] != VERSION:
            raise UnknownRecordVersionError(f"version {data[0]} is unknown, {VERSION} is known", 0)
        end = len(data) - _CRC.size
        view = memoryview(data)
        if crc32(view[:end]) != _CRC.unpack_from(data, end)[0]:
            raise CorruptRecordError("the checksum of the snapshot is wrong", end)
        table = cls()
        _, table._bits, groups, topics, table._count, beside = _HEADER.unpack_from(data)
        at, size = _HEADER.size, 2 * (groups + topics)
        lengths = _numbers("H", view[at : at + size])
        at += size
        for number, length in enumerate(lengths):
            ids = table._groups if number < groups else table._topics
            ids[data[at : at + length]] = len(ids) + 1
            at += length
        size = 8 << table._bits
        table._places = _numbers("Q", view[at : at + size])
        table._offsets = _numbers("Q", view[at + size : at + 2 * size])
        at += 2 * size
        for _ in range(beside):
            number, length = _BESIDE.unpack_from(data, at)
            at += _BESIDE.size
            entry = decode_entry(data[at : at + length])
            table._beside[number] = _Beside(entry.metadata, entry.gaps)
            at += length
        return table

    # ── Slots ──

    def _number(self, group: bytes, topic: bytes, partition: int) -> int:
        group_id = self._groups.get(group) or _named(self._groups, group, GROUPS_MAX)
        topic_id = self._topics.get(topic) or _named(self._topics, topic, TOPICS_MAX)
        return group_id << _GROUP_SHIFT | topic_id << _TOPIC_SHIFT | partition

    def _put(self, number: int, entry: OffsetEntry) -> None:
        self._set(number, entry.offset)
        if entry.metadata or entry.gaps:
            self._beside[number] = _Beside(entry.metadata, entry.gaps)
        else:
            self._beside.pop(number, None)

    def _set(self, number: int, offset: int) -> None:
        slot = self._slot(number)
        self._offsets[slot] = offset
        if not self._places[slot]:
            self._places[slot] = number
            self._count += 1
            if self._count > 3 << self._bits - 2:  # three of four slots
                self._grow()

    def _slots(self) -> tuple[array[int], array[int], int, int, int]:
        """Both arrays, by which bits a place is found in them, and how many more they take."""
        bits = self._bits
        room = (3 << bits - 2) - self._count
        return self._places, self._offsets, 64 - bits, (1 << bits) - 1, room

    def _slot(self, number: int) -> int:
        """Where the place is, or else the empty slot where it will be."""
        places, mask = self._places, (1 << self._bits) - 1
        slot = number * _SPREAD >> 64 - self._bits & mask
        step = 0
        while (found := places[slot]) != number and found:
            step += 1  # 1, 3, 6, 10, … slots further: all of them, if their number is a power of 2
            slot = slot + step & mask
        return slot

    def _make_room(self, bits: int) -> None:
        self._bits = bits
        self._places = array("Q", bytes(8 << bits))
        self._offsets = array("Q", bytes(8 << bits))

    def _grow(self) -> None:
        """Move all entries into arrays of twice the size: 0.3 µs an entry."""
        known = zip(self._places, self._offsets, strict=True)
        self._make_room(self._bits + 1)
        places, offsets = self._places, self._offsets
        shift, mask = 64 - self._bits, (1 << self._bits) - 1
        for number, offset in known:
            if number:
                slot = number * _SPREAD >> shift & mask
                step = 0
                while places[slot]:
                    step += 1
                    slot = slot + step & mask
                places[slot] = number
                offsets[slot] = offset

    def check(self) -> None:
        """Assert that every entry is found, and that nothing else is there. O(n)."""
        taken = [(slot, number) for slot, number in enumerate(self._places) if number]
        assert len(taken) == self._count, "the count is that of the slots"
        assert self._count <= 3 << self._bits - 2, "a quarter of the slots is free"
        assert all(self._slot(number) == slot for slot, number in taken), "each is found"
        assert self._beside.keys() <= {number for _, number in taken}, "nothing without an offset"


def _named(ids: dict[bytes, int], name: bytes, most: int) -> int:
    """The number of a new name."""
    check_text(name)
    if len(ids) >= most:
        raise CorruptRecordError(f"{most} names are known, and there is no room for another", 0)
    number = ids[name] = len(ids) + 1
    return number


def _little(numbers: array[int]) -> Buffer:
    """Their bytes, the lowest first, copied only if need be."""
    return numbers if sys.byteorder == "little" else swapped(numbers[:])


def _numbers(typecode: str, data: memoryview) -> array[int]:
    """The numbers of such bytes."""
    numbers: array[int] = array(typecode)
    numbers.frombytes(data)
    return swapped(numbers)


def _crc32_on(before: int, data: Buffer) -> int:
    return crc32(data, before)
