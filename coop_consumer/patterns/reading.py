"""Reads what a partition has, for those who bring no consumer of their own.

In: settings, a partition, an offset. Out: the records that are committed there, up to the end that
the partition had when the reading began. It joins no group and commits nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from coop_consumer.config import Config, IsolationLevel
from coop_consumer.errors import DataLossError, InputGoneError
from coop_consumer.kafka.log_end import offset_of
from coop_consumer.kafka.patience import AWAY_S
from coop_consumer.kafka.slice_reader import read_slice
from coop_consumer.kafka.topics import EARLIEST, LATEST, Topics
from offsets import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka import Message

    from assignors import TopicPartition

READER = "coop-consumer-reader"
"""A group name, for a configuration that needs one; nothing is committed under it."""


def committed_records(
    config: Mapping[str, object], place: TopicPartition, offset: int
) -> Iterator[Message]:
    """The committed records from an offset to the present last stable offset, in order.

    Args:
        config: One dict of dotted names, as for a consumer; no group is needed.
        place: The partition.
        offset: The first one to read.

    Raises:
        InputGoneError: The partition does not have some of them any more.
        ConfigError: For a bad setting.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    parsed = Config.from_dict({"group.id": READER, **config}, both_clients=False)
    parsed = replace(parsed, isolation_level=IsolationLevel.READ_COMMITTED)
    topics = Topics(parsed)
    end = offset_of(topics, place, LATEST, committed=True)
    if offset >= end:
        return
    reading = read_slice(parsed, place, OffsetRange(offset, end - 1), patience_s=AWAY_S)
    try:
        for messages, _ in reading:
            yield from messages
    except DataLossError as error:
        low, end = offset_of(topics, place, EARLIEST), offset_of(topics, place, LATEST)
        where = (place.topic, place.partition, error.first, low, end)
        raise InputGoneError("committed_records()", *where) from error
