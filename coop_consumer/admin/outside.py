"""What is written from outside a group: records of the progress log, and committed offsets.

In: entries; offsets and metadata. Out: both are acknowledged. The coordinator refuses the commit of
a group that has members, so no running member is overruled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.core.events import Appended, AppendFailed
from coop_consumer.errors import BrokerUnreachableError
from coop_consumer.kafka.coordinator import MOVES_OR_LOADS, ask_about_group
from coop_consumer.kafka.log_writer import LogWriter
from coop_consumer.kafka.topics import Topics
from coop_consumer.kafka.translate import translated
from coop_consumer.status.errors import GroupInUseError
from offsets import Committed

_TIMEOUT_S = 15.0
_NOT_EMPTY = (
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.NON_EMPTY_GROUP,
    KafkaError.REBALANCE_IN_PROGRESS,
)
_APPENDED_MAX = 5_000
"""Records of one log partition that are appended before their acknowledgement is awaited."""


def append_from_outside(
    config: Config,
    settings: dict[str, Any],
    entries: Mapping[int, Sequence[tuple[bytes, bytes | None]]],
) -> None:
    """Append entries of each log partition, in their order, and wait for all. Blocks.

    Args:
        config: Names the progress topic.
        settings: Of the Producer.
        entries: By the number of the log partition.

    Raises:
        ProgressTopicError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    heard: SimpleQueue[Appended | AppendFailed] = SimpleQueue()
    writer = LogWriter(settings, config.progress_log, heard.put, name="coop-append")
    try:
        # A Producer takes a limited number of records at a time.
        for first in range(0, max(map(len, entries.values()), default=0), _APPENDED_MAX):
            rest = {number: told for number, told in entries.items() if len(told) > first}
            for number, told in rest.items():
                writer.append(number, told[first : first + _APPENDED_MAX], number)
            for _ in rest:
                answer = heard.get(timeout=_TIMEOUT_S)
                if isinstance(answer, AppendFailed):
                    raise answer.error
    except Empty:
        detail = f"{config.progress_log} took no record in {_TIMEOUT_S:g} s"
        raise BrokerUnreachableError(config.bootstrap_servers, detail) from None
    finally:
        writer.close(_TIMEOUT_S)


def commit_from_outside(
    topics: Topics, group: str, offsets: Mapping[TopicPartition, Committed]
) -> None:
    """Commit next offsets and their metadata.

    Without our tag in the metadata (`offsets.history`) an offset is somebody's decision, and later
    members begin there.

    Raises:
        GroupInUseError: The group has members.
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    places = [
        Place(tp.topic, tp.partition, offset, metadata)
        for tp, (offset, metadata) in offsets.items()
    ]
    asked = [ConsumerGroupTopicPartitions(group, places)]

    def commit(left_s: float) -> list[Place]:
        [future] = topics.admin.alter_consumer_group_offsets(asked).values()
        answered: list[Place] = future.result(left_s).topic_partitions
        for place in answered:
            if place.error is not None and place.error.code() in MOVES_OR_LOADS:
                raise KafkaException(place.error)
        return answered

    # A repeated call sets the same offsets again.
    answered = ask_about_group(group, commit, _TIMEOUT_S)
    for place in answered:
        if place.error is None:
            continue
        if place.error.code() in _NOT_EMPTY:
            raise GroupInUseError(group, ("one that has just joined",))
        raise translated(place.error, f"group {group}")
