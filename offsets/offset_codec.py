"""The bytes of an offset store's records: a key, and the entry under it. Pure.

In: group, topic, partition and entry, or bytes of any origin. Out: the other of the two. Equal
places have equal keys, as compaction compares their bytes. Bytes from a log are hostile input:
decoding raises nothing but `CorruptRecordError`, or its subclass if the version is unknown.

A key is a version byte, the lengths of both names, the partition's number, and the names. A value
is a version byte and the offset in 8 bytes. If an entry has metadata or gap ranges, both follow
(`wire`). Fixed places make it quick: a store reads a million of them when it starts.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from offsets.offset_entry import ENTRY_GAPS_MAX, METADATA_BYTES_MAX, PARTITION_MAX, OffsetEntry
from offsets.wire import (
    CorruptRecordError,
    UnknownRecordVersionError,
    WireReader,
    put_gaps,
    put_text,
)

VERSION: Final = 1
"""The version this code writes, and the only one it reads."""

PLAIN: Final = Struct(">BQ")
"""The value of an entry that is an offset and nothing else."""

KEY_HEAD: Final = Struct(">BHHI")
"""The beginning of a key: version, bytes of both names, partition."""

_KEY_BYTES: Final = KEY_HEAD.size
_OFFSET_LIMIT: Final = 2**63


def encode_place(group: bytes, topic: bytes, partition: int) -> bytes:
    """The key of a place; both names as UTF-8.

    Raises:
        struct.error: If a name or the number is too large: `OffsetCommit.check` refuses them.
    """
    return KEY_HEAD.pack(VERSION, len(group), len(topic), partition) + group + topic


def decode_place(data: bytes) -> tuple[bytes, bytes, int]:
    """Group, topic and partition of a key. The names may be no UTF-8: see `check_text`.

    Raises:
        CorruptRecordError: If these bytes are no key.
    """
    if len(data) < _KEY_BYTES:
        raise CorruptRecordError(f"a key of {len(data)} bytes, below {_KEY_BYTES}", 0)
    version, group_bytes, topic_bytes, partition = KEY_HEAD.unpack_from(data)
    if version != VERSION:
        raise UnknownRecordVersionError(f"version {version} is unknown, {VERSION} is known", 0)
    split = _KEY_BYTES + group_bytes
    if len(data) != split + topic_bytes or not group_bytes or not topic_bytes:
        raise CorruptRecordError(f"names of {group_bytes} and {topic_bytes} bytes do not fit", 1)
    if partition > PARTITION_MAX:
        raise CorruptRecordError(f"partition {partition} is above {PARTITION_MAX}", 5)
    return data[_KEY_BYTES:split], data[split:], partition


def check_text(name: bytes) -> None:
    """A name must be UTF-8.

    Raises:
        CorruptRecordError: It is not.
    """
    try:
        name.decode()
    except UnicodeDecodeError as error:
        raise CorruptRecordError(f"a name that is not UTF-8 ({error.reason})", 0) from error


def encode_entry(entry: OffsetEntry) -> bytes:
    """The value of an entry."""
    offset, metadata, gaps = entry
    plain = PLAIN.pack(VERSION, offset)
    if not metadata and not gaps:
        return plain
    out = bytearray(plain)
    put_text(out, metadata)
    put_gaps(out, offset, gaps)
    return bytes(out)


def decode_entry(data: bytes) -> OffsetEntry:
    """The entry of a value.

    Raises:
        CorruptRecordError: If these bytes are no value.
    """
    if len(data) < PLAIN.size:
        raise CorruptRecordError(f"a value of {len(data)} bytes, below {PLAIN.size}", 0)
    version, offset = PLAIN.unpack_from(data)
    if version != VERSION:
        raise UnknownRecordVersionError(f"version {version} is unknown, {VERSION} is known", 0)
    if offset >= _OFFSET_LIMIT:
        raise CorruptRecordError(f"{offset} is above the highest offset", 1)
    if len(data) == PLAIN.size:
        return OffsetEntry(offset)
    reader = WireReader(data)
    reader.at = PLAIN.size
    metadata = reader.text()
    try:
        size = len(metadata.encode())
    except UnicodeEncodeError as error:
        raise reader.fail("metadata with a lone surrogate") from error
    if size > METADATA_BYTES_MAX:
        raise reader.fail(f"metadata above {METADATA_BYTES_MAX} bytes")
    gaps = reader.own_gaps(offset)
    if len(gaps) > ENTRY_GAPS_MAX:
        raise reader.fail(f"more than {ENTRY_GAPS_MAX} gap ranges")
    reader.end()
    return OffsetEntry(offset, metadata, gaps)
