"""The bytes of members' loads in the progress log. Pure.

In: `LoadRecord`s, or bytes of any origin. Out: the other of the two. Fields are only ever added at
the end: bytes behind those that are known here are passed over.

A number beyond all reason makes the whole record unreadable: the member counts as if it had told
nothing. It would move plans and the number of members that are asked for.

The key of a load must not disturb members that do not know loads: what they cannot read they count
and report. So it has the form of an announcement of a group whose name no group can have, because
it ends with a null byte and a word. To such a member it is another group's, whose values it never
reads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from assignors.key_hash import KEY_HASH_MAX
from offsets.records import KEY_BYTES_MAX, HeavyKey, LoadKey, LoadRecord, PartitionLoad
from offsets.wire import WireReader, put_numbers, put_signed, put_text

_MARK: Final = "\0load"
_TOPIC_ID_BYTES: Final = 16
_HEAVY_MAX: Final = 4

_WORKERS_MAX: Final = 1_000_000
_HANDLER_US_MAX: Final = 24 * 3_600_000_000
_WEIGHT_MAX: Final = _HANDLER_US_MAX * 1_000_000
"""In picoseconds an offset: no record costs more than its handler takes."""
_CAPACITY_MAX: Final = 2**32
_A_SECOND_MAX: Final = 10**9
_PER_MILLE: Final = 1_000
_MEMORY_MAX: Final = 2**50
_ADDRESS_CHARS_MAX: Final = 64
"""An IPv6 address in brackets with its port has less; a longer one is not told."""


def marked(key: LoadKey) -> str:
    """What stands for the group in the bytes of a key."""
    return key.group + _MARK


def load_key(group: str, member: str) -> LoadKey | None:
    """The key of a load, if that is what an announcement of this group is; else None."""
    return LoadKey(group[: -len(_MARK)], member) if group.endswith(_MARK) else None


def put_load(out: bytearray, record: LoadRecord) -> None:
    """Append a load. Of a number above its bound, the bound is written.

    Raises:
        ValueError: If a number is negative or too long, or a topic id has not 16 bytes.
    """
    us_max = _HANDLER_US_MAX
    put_numbers(out, record.incarnation)
    put_signed(out, record.at_ms)
    put_numbers(out, min(record.workers, _WORKERS_MAX), min(record.busy, _PER_MILLE))
    put_numbers(out, min(record.handler_us, us_max), min(record.finished, _A_SECOND_MAX))
    put_numbers(out, len(record.partitions))
    for partition in record.partitions:
        _put_topic_id(out, partition.topic_id)
        weight, pace = min(partition.weight, _WEIGHT_MAX), min(partition.pace, _A_SECOND_MAX)
        put_numbers(out, partition.partition, weight, pace)
    put_numbers(out, len(record.heavy))
    for heavy in record.heavy:
        _put_topic_id(out, heavy.topic_id)
        put_numbers(out, heavy.partition, heavy.key_hash, min(heavy.share, _PER_MILLE))
        key = heavy.key and heavy.key[:KEY_BYTES_MAX]
        put_numbers(out, 0 if key is None else 1 + len(key))
        out += key or b""
    put_numbers(out, min(record.p50_us, us_max), min(record.p99_us, us_max))
    put_numbers(out, min(record.memory_bytes, _MEMORY_MAX), min(record.capacity, _CAPACITY_MAX))
    put_numbers(out, sum(heavy.is_busy << i for i, heavy in enumerate(record.heavy)))
    put_text(out, record.ops_address if len(record.ops_address) <= _ADDRESS_CHARS_MAX else "")


def take_load(reader: WireReader) -> LoadRecord:
    """Take a load off bytes, and whatever follows.

    Raises:
        CorruptRecordError: If they are none, or a number is beyond all reason.
    """

    def up_to(most: int, what: str) -> int:
        number = reader.number()
        if number > most:
            raise reader.fail(f"a load of {number} {what}, {most} are the most")
        return number

    def partition() -> PartitionLoad:
        topic_id, number = reader.take(_TOPIC_ID_BYTES), reader.number()
        weight, pace = up_to(_WEIGHT_MAX, "ps an offset"), up_to(_A_SECOND_MAX, "offsets a second")
        return PartitionLoad(topic_id, number, weight, pace)

    def heavy() -> HeavyKey:
        topic_id, number = reader.take(_TOPIC_ID_BYTES), reader.number()
        key_hash = reader.number()
        if key_hash > KEY_HASH_MAX:
            raise reader.fail("a key hash of more than 63 bits")
        share, size = up_to(_PER_MILLE, "per mille by a key"), reader.number()
        if size > 1 + KEY_BYTES_MAX:
            raise reader.fail(f"{size - 1} bytes of a key, {KEY_BYTES_MAX} are the most")
        return HeavyKey(topic_id, number, key_hash, share, reader.take(size - 1) if size else None)

    record = LoadRecord(
        incarnation=reader.number(),
        at_ms=reader.signed(),
        workers=up_to(_WORKERS_MAX, "workers"),
        busy=up_to(_PER_MILLE, "per mille of the time"),
        handler_us=up_to(_HANDLER_US_MAX, "us a record"),
        finished=up_to(_A_SECOND_MAX, "records a second"),
        partitions=tuple(reader.list_of(partition)),
        heavy=tuple(reader.list_of(heavy)[:_HEAVY_MAX]),
    )
    if reader.at < len(reader.data):  # earlier versions end here
        p50_us, p99_us = up_to(_HANDLER_US_MAX, "us at p50"), up_to(_HANDLER_US_MAX, "us at p99")
        memory_bytes = up_to(_MEMORY_MAX, "bytes of memory")
        record = replace(record, p50_us=p50_us, p99_us=p99_us, memory_bytes=memory_bytes)
    if reader.at < len(reader.data):  # or here
        record = replace(record, capacity=up_to(_CAPACITY_MAX, "of capacity"))
    if reader.at < len(reader.data):  # or here
        busy = reader.number()
        heavy_keys = (replace(it, is_busy=bool(busy >> i & 1)) for i, it in enumerate(record.heavy))
        record = replace(record, heavy=tuple(heavy_keys))
    if reader.at < len(reader.data):  # or here
        address = reader.text()
        if len(address) > _ADDRESS_CHARS_MAX:
            raise reader.fail(f"an address of {len(address)}, {_ADDRESS_CHARS_MAX} are the most")
        record = replace(record, ops_address=address)
    reader.at = len(reader.data)
    return record


def _put_topic_id(out: bytearray, topic_id: bytes) -> None:
    if len(topic_id) != _TOPIC_ID_BYTES:
        raise ValueError(f"a topic id has {_TOPIC_ID_BYTES} bytes, this one {len(topic_id)}")
    out += topic_id
