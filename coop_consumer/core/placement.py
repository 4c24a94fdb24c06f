"""Where things lie: which partition of the progress log holds a data partition's history. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Callable

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's partitioner hash (32 bits, unsigned), as its Java client computes it."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if length > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    """Where Kafka's own producers put a key by default.

    >>> partition_of(b"N14228", 3)
    2
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def partition_by_crc32(key: bytes, partitions: int) -> int:
    """Where librdkafka's producers put a key by default.

    >>> partition_by_crc32(b"N14228", 3)
    1
    """
    return zlib.crc32(key) % partitions


PARTITIONERS: dict[str, Callable[[bytes, int], int]] = {
    "murmur2": partition_of,
    "consistent": partition_by_crc32,
}
"""By the names that librdkafka has for them, without their treatment of records without a key."""


def log_partition_of(group: str, topic: str, partition: int, log_partitions: int) -> int:
    """The progress log's partition for one data partition of a group: equal for all members.

    All history of a data partition lies in one log partition, which puts it in a total order.

    >>> log_partition_of("billing", "orders", 3, 50)
    35
    """
    name = f"{group}\0{topic}\0{partition}".encode()
    return partition_of(name, log_partitions)
