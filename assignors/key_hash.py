"""From a record to its place in the key-hash space. Pure; one call a record.

In: a key's bytes, or partition and offset where there is no key or no order to keep. Out: a key
hash, an integer from 0 to `KEY_HASH_MAX`. All members of a group must agree on these functions: a
hash with two meanings leaves records to nobody (I1, I2). So the only setting is the block size.
Kafka's producers choose partitions by another hash. With the same hash, the keys of one partition
would crowd into few ranges.
"""

from __future__ import annotations

import struct

import mmh3

KEY_HASH_MAX = 2**63 - 1
"""The largest key hash, N: the hash space is the closed interval [0, N]."""

PARTITION_HASH = 0
"""The hash of every record where the order of the partition is kept: it is like one key."""

_PLACE = struct.Struct(">iq")  # partition, offset or block number


def key_hash(key: bytes) -> int:
    """The hash of a record's key: the second long of MurmurHash3 x64-128 without its lowest bit.

    An empty key is a key like any other; a record whose key is null has none: see `null_key_hash`.

    >>> 0 <= key_hash(b"N14228") <= KEY_HASH_MAX
    True
    """
    return mmh3.mmh3_x64_128_uintdigest(key) >> 65


def null_key_hash(partition: int, offset: int) -> int:
    """The hash of a record with a null key: such records have no order to keep and spread evenly.

    Args:
        partition: The record's partition, 0 … 2^31 - 1.
        offset: The record's offset, 0 … 2^63 - 1.
    """
    return mmh3.mmh3_x64_128_uintdigest(_PLACE.pack(partition, offset)) >> 65


def block_hash(partition: int, offset: int, block_size: int) -> int:
    """The hash of a record where no order is asked for: one hash for each block of offsets.

    Whole blocks go to one member, so what it finishes is contiguous and its gap ranges stay few.

    Args:
        partition: The record's partition, 0 … 2^31 - 1.
        offset: The record's offset, 0 … 2^63 - 1.
        block_size: Offsets in a block, at least 1; equal for all members of a group.
    """
    return mmh3.mmh3_x64_128_uintdigest(_PLACE.pack(partition, offset // block_size)) >> 65
