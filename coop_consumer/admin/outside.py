"""Commits offsets in the name of a group that has no members.

In: offsets and metadata. Out: Kafka's own committed offsets. The coordinator refuses the commit if
the group has members, so no running member is overruled.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from assignors import TopicPartition
from coop_consumer.kafka.coordinator import MOVES_OR_LOADS, ask_about_group
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
