"""The bytes of members' loads in the progress log. Pure.

In: `LoadRecord`s, or bytes of any origin. Out: the other of the two. Fields are only ever added at
the end: bytes behind those that are known here are passed over.

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
from offsets.wire import WireReader, put_numbers, put_signed

_MARK: Final = "\0load"
_TOPIC_ID_BYTES: Final = 16
_HEAVY_MAX: Final = 4


def marked(key: LoadKey) -> str:
    """What stands for the group in the bytes of a key."""
    return key.group + _MARK


def load_key(group: str, member: str) -> LoadKey | None:
    """The key of a load, if that is what an announcement of this group is; else None."""
    return LoadKey(group[: -len(_MARK)], member) if group.endswith(_MARK) else None


def put_load(out: bytearray, record: LoadRecord) -> None:
    """Append a load.

    Raises:
        ValueError: If a number is out of its bounds, or a topic id has not 16 bytes.
    """
    put_numbers(out, record.incarnation)
    put_signed(out, record.at_ms)
    put_numbers(out, record.workers, record.busy, record.handler_us, record.finished)
    put_numbers(out, len(record.partitions))
    for partition in record.partitions:
        _put_topic_id(out, partition.topic_id)
        put_numbers(out, partition.partition, partition.weight, partition.pace)
    put_numbers(out, len(record.heavy))
    for heavy in record.heavy:
        _put_topic_id(out, heavy.topic_id)
        put_numbers(out, heavy.partition, heavy.key_hash, heavy.share)
        key = heavy.key and heavy.key[:KEY_BYTES_MAX]
        put_numbers(out, 0 if key is None else 1 + len(key))
        out += key or b""
    put_numbers(out, record.p50_us, record.p99_us, record.memory_bytes, record.capacity)


def take_load(reader: WireReader) -> LoadRecord:
    """Take a load off bytes, and whatever follows.

    Raises:
        CorruptRecordError: If they are none.
    """

    def partition() -> PartitionLoad:
        return PartitionLoad(
            reader.take(_TOPIC_ID_BYTES), reader.number(), reader.number(), reader.number()
        )

    def heavy() -> HeavyKey:
        topic_id, number = reader.take(_TOPIC_ID_BYTES), reader.number()
        key_hash, share, size = reader.number(), reader.number(), reader.number()
        if key_hash > KEY_HASH_MAX:
            raise reader.fail("a key hash of more than 63 bits")
        if size > 1 + KEY_BYTES_MAX:
            raise reader.fail(f"{size - 1} bytes of a key, {KEY_BYTES_MAX} are the most")
        return HeavyKey(topic_id, number, key_hash, share, reader.take(size - 1) if size else None)

    record = LoadRecord(
        incarnation=reader.number(),
        at_ms=reader.signed(),
        workers=reader.number(),
        busy=reader.number(),
        handler_us=reader.number(),
        finished=reader.number(),
        partitions=tuple(reader.list_of(partition)),
        heavy=tuple(reader.list_of(heavy)[:_HEAVY_MAX]),
    )
    if reader.at < len(reader.data):  # earlier versions end here
        p50_us, p99_us, memory_bytes = reader.number(), reader.number(), reader.number()
        record = replace(record, p50_us=p50_us, p99_us=p99_us, memory_bytes=memory_bytes)
    if reader.at < len(reader.data):  # or here
        record = replace(record, capacity=reader.number())
    reader.at = len(reader.data)
    return record


def _put_topic_id(out: bytearray, topic_id: bytes) -> None:
    if len(topic_id) != _TOPIC_ID_BYTES:
        raise ValueError(f"a topic id has {_TOPIC_ID_BYTES} bytes, this one {len(topic_id)}")
    out += topic_id
