"""A slice: some keys of a partition, from one offset to another; and its records, on an executor.

In: the values of a plan. Out: the records of the slice that are not done yet, in order, for the
user's code in a task. A slice travels to executors, so it has all that is needed to read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, cast

from assignors import KeyRange, TopicPartition
from coop_consumer import Config
from coop_consumer.core.record import Message, headers_of
from coop_consumer.kafka.patience import AWAY_S
from coop_consumer.kafka.slice_reader import read_slice
from coop_consumer.status.seen import Hashing
from offsets import OffsetRange, PartitionProgress, RangeProgress


class Noting(Protocol):
    """Takes numbers of slices: one of Spark's accumulators."""

    def add(self, term: frozenset[int], /) -> None:
        """Note these."""


class SliceRecord(NamedTuple):
    """A record of a slice, of plain values: it can travel, and be a row.

    Attributes:
        topic: The topic it came from.
        partition: The partition it came from.
        offset: Its offset there.
        key: The key's bytes, or None. An empty key is a key.
        value: The value's bytes; None for a tombstone.
        headers: The headers in their order, (name, value) each.
        timestamp_ms: Milliseconds since 1970 (create or append time); -1: none.
        key_hash: Where it lies in the hash space, 0 to 2**63 - 1.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int
    key_hash: int


@dataclass(frozen=True, slots=True)
class Slice:
    """What one task of a planned job processes.

    Attributes:
        number: Its number in the plan, from 0.
        topic: Its topic.
        partition: Its partition there.
        key_range: Its keys, by their hashes.
        offsets: Its offsets.
        done: What of it is done already; `records` leaves that out.
        bytes: About how many bytes of keys and values are left, as measured by samples.
        config: How to read it, and where a key lies in the hash space.
    """

    number: int
    topic: str
    partition: int
    key_range: KeyRange
    offsets: OffsetRange
    done: tuple[RangeProgress, ...]
    bytes: int
    config: Config = field(repr=False, compare=False)
    noting: Noting | None = field(default=None, repr=False, compare=False)

    @property
    def tp(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.tp} keys {self.key_range} offsets {self.offsets}"

    def records(self) -> Iterator[SliceRecord]:
        """The records of the slice that are not done, in the order of their offsets.

        It reads all records of the partition in these offsets, and yields those of its key range.
        Read it to its end: only then the slice counts as processed.

        Raises:
            DataLossError: Some of it is not in the topic any more.
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        topic, partition = self.topic, self.partition
        lo, hi = self.key_range.lo, self.key_range.hi
        place = Hashing(self.config.ordering.value, self.config.ordering_block_size).place
        done = PartitionProgress()
        for fact in self.done:
            done.merge(fact)
        for messages, _ in read_slice(self.config, self.tp, self.offsets, patience_s=AWAY_S):
            for message in cast("list[Message]", messages):
                offset, key = message.offset(), message.key()
                assert offset is not None, "a message without an offset"
                key_hash = place(partition, offset, key)
                if not lo <= key_hash <= hi or done.is_done(key_hash, offset):
                    continue
                kind, time_ms = message.timestamp()
                yield SliceRecord(
                    topic,
                    partition,
                    offset,
                    key,
                    message.value(),
                    headers_of(message),
                    time_ms if kind else -1,
                    key_hash,
                )
        if self.noting is not None:
            self.noting.add(frozenset([self.number]))
