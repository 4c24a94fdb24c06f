"""Reads what a partition has, for those who bring no consumer of their own.

In: settings, a partition, an offset. Out: the records that are committed there, up to the end that
the partition had when the reading began. It joins no group and commits nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from coop_consumer import arguments
from coop_consumer.config import Config, IsolationLevel, OnDataLoss, Settings
from coop_consumer.errors import DataLossError, InputGoneError, MisuseError
from coop_consumer.kafka.log_end import offset_of
from coop_consumer.kafka.patience import AWAY_S, patiently
from coop_consumer.kafka.slice_reader import read_slice
from coop_consumer.kafka.topics import EARLIEST, LATEST, Topics
from coop_consumer.log_events import LogEvent
from coop_consumer.patterns.single_writer import checked_number, config_for
from offsets import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka import Message

    from assignors import TopicPartition

log = logging.getLogger(__name__)

_BEGINNING_S = 30.0
"""How long brokers may be away when a reading begins: as long as a restart, mostly."""

READER = "coop-consumer-reader"
"""A group name, for a configuration that needs one; nothing is committed under it."""


def reader_of(
    call: str, config: Settings | Mapping[str, object], place: TopicPartition
) -> tuple[Config, Topics]:
    """The checked configuration to read an existing partition with, and its topics.

    Raises:
        MisuseError: There is no such partition.
        ConfigError: For a bad setting.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    parsed = config_for(config, {"group.id": READER, "on.data.loss": OnDataLoss.STOP.value})
    parsed = replace(parsed, isolation_level=IsolationLevel.READ_COMMITTED)
    topic = arguments.a_place(call, place).topic
    topics = Topics(parsed)
    # Who asked for offsets of a topic that does not exist would ask again for a minute. And who
    # has just begun may have a wrong address: that is told soon.
    facts = patiently(
        lambda: topics.describe([topic], verb="consumed"), f"topic {topic}", away_s=_BEGINNING_S
    )[topic]
    if not 0 <= place.partition < facts.partitions:
        raise MisuseError(
            call,
            f"{topic} has no partition {place.partition}",
            f"Name one from 0 to {facts.partitions - 1}",
        )
    return parsed, topics


def committed_records(
    config: Settings | Mapping[str, object], place: TopicPartition, offset: int
) -> Iterator[Message]:
    """The committed records from an offset to the present last stable offset, in order.

    Args:
        config: One dict of dotted names, as for a consumer; no group is needed.
        place: The partition.
        offset: The first one to read.

    Raises:
        InputGoneError: The partition does not have some of them any more. With on.data.loss=warn
            it is read from its first record instead.
        MisuseError: There is no such partition, or no such offset.
        ConfigError: For a bad setting.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    parsed, topics = reader_of("committed_records()", config, place)
    offset = checked_number("committed_records()", offset, "offset")
    if offset < 0:
        raise MisuseError("committed_records()", f"offset {offset} is negative", "Begin at 0")
    if parsed.on_data_loss is OnDataLoss.WARN:
        low = offset_of(topics, place, EARLIEST)
        if offset < low:
            told = (
                "%s begins at offset %d, so it is not read from %d on (on.data.loss=warn). What "
                "was deleted is lost: raise the topic's retention"
            )
            extra = LogEvent.INPUT_GONE.extra(tp=place, offset=low)
            log.warning(told, place, low, offset, extra=extra)
            offset = low
    end = offset_of(topics, place, LATEST, committed=True)
    if offset >= end:
        return
    offsets = OffsetRange(offset, end - 1)
    for messages, _ in slices("committed_records()", parsed, topics, place, offsets):
        yield from messages


def slices(
    reader: str,
    config: Config,
    topics: Topics,
    place: TopicPartition,
    offsets: OffsetRange,
    *,
    remedy: str = "",
) -> Iterator[tuple[list[Message], int]]:
    """The records of an offset range, as of `read_slice`.

    Args:
        reader: Who reads, for an error.
        config: The clients' settings.
        topics: Of the cluster.
        place: The partition.
        offsets: The range; its records exist, or existed.
        remedy: What to do if some do not exist any more; "": as `InputGoneError` says.

    Raises:
        InputGoneError: Some of them were removed before they were read.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    try:
        yield from read_slice(config, place, offsets, patience_s=AWAY_S)
    except DataLossError as error:
        low, end = offset_of(topics, place, EARLIEST), offset_of(topics, place, LATEST)
        gone = InputGoneError(reader, place.topic, place.partition, error.first, low, end)
        gone.remedy = remedy or gone.remedy
        raise gone from error
