"""The records of a topic, for a person to look at: what it has now, and what comes.

In: a configuration, a topic, a place to begin at. Out: records, of each partition in order. It
joins no group and commits nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message

from assignors import TopicPartition
from coop_consumer.admin.target import Target
from coop_consumer.config import Config, IsolationLevel
from coop_consumer.errors import BrokerUnreachableError
from coop_consumer.kafka.tail import Tail
from coop_consumer.kafka.topics import EARLIEST, LATEST, Topics, at_time
from coop_consumer.status.errors import PartitionMissingError

_LOOK_S = 0.2
"""How often an interrupt from the keyboard is heard, if nothing comes."""
_PATIENCE_S = 30.0
"""How long a record that is there may take to come."""


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record as it lies in its topic; `timestamp_ms` is None if it has no time."""

    tp: TopicPartition
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_topic(
    config: Config,
    topic: str,
    start: Target,
    *,
    numbers: Collection[int] = (),
    follows: bool = False,
) -> Iterator[list[TopicRecord]]:
    """The records of a topic from a place on, in batches as they come.

    Args:
        config: Of the client; its isolation level says which records are seen.
        topic: The topic.
        start: An end, an offset, or a time. An offset that a partition does not have means the
            nearest one that it has.
        numbers: Only of these partitions; by default of all.
        follows: Whether to wait for records that come later. Then there is no end.

    Raises:
        PartitionMissingError: A number is none of the topic's.
        InputGoneError: Records were removed while they were read.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    topics = Topics(config)
    topics.check_broker()
    count = topics.describe([topic], verb="done")[topic].partitions
    topics.check_right(topic, "READ")
    known = [TopicPartition(topic, number) for number in range(count)]
    chosen = [TopicPartition(topic, number) for number in sorted(set(numbers))] or known
    for tp in chosen:
        PartitionMissingError.check(tp, known)
    committed = config.isolation_level is IsolationLevel.READ_COMMITTED
    begins = topics.offsets(chosen, EARLIEST)
    ends = topics.offsets(chosen, LATEST, committed=committed)
    starts = _starts(topics, start, begins, ends)
    if follows:
        ends = {}
    elif all(starts[tp] >= end for tp, end in ends.items()):
        return
    tail = Tail(config, f"a read of {topic}", starts)
    try:
        yield from _batches(config, tail, ends)
    finally:
        tail.close()


def _starts(
    topics: Topics,
    start: Target,
    begins: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    match start.kind:
        case "latest":
            return ends
        case "offset":
            return {tp: min(max(start.value, begins[tp]), end) for tp, end in ends.items()}
        case "time":
            found = topics.offsets(begins, at_time(start.value))
            return {tp: ends[tp] if at < 0 else at for tp, at in found.items()}
        case _:
            return begins


def _batches(
    config: Config, tail: Tail, ends: dict[TopicPartition, int]
) -> Iterator[list[TopicRecord]]:
    """What comes, up to these ends; without ends, for ever."""
    heard_s = time.monotonic()
    while True:
        before = dict(tail.positions)
        records = [_record(message) for message in tail.messages(_LOOK_S)]
        if tail.positions != before:
            heard_s = time.monotonic()
        if not ends:
            yield records
            continue
        # The partition may have got more since the start.
        yield [it for it in records if it.offset < ends[it.tp]]
        read = {tp for tp, end in ends.items() if tail.positions[tp] >= end}
        if len(read) == len(ends):
            return
        tail.keep_paused(read)
        if time.monotonic() - heard_s > _PATIENCE_S:
            [first, *_] = sorted(ends.keys() - read)
            detail = f"{first}: no record came in {_PATIENCE_S:g} s"
            raise BrokerUnreachableError(config.bootstrap_servers, detail)


def _record(message: Message) -> TopicRecord:
    kind, timestamp_ms = message.timestamp()
    key, value = message.key(), message.value()
    # (Only what is to be produced may be a dict, or have texts for values.)
    headers: Any = message.headers() or ()
    return TopicRecord(
        tp=TopicPartition(message.topic() or "", message.partition() or 0),
        offset=message.offset() or 0,
        timestamp_ms=timestamp_ms if kind else None,
        key=None if key is None else bytes(key),
        value=None if value is None else bytes(value),
        headers=tuple((name, it) for name, it in headers),
    )
