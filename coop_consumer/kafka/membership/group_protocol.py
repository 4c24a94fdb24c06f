"""Kafka's consumer protocol: what JoinGroup and SyncGroup carry, and who puts it there.

In: a listener's opaque bytes, other members' messages (foreign input: what cannot be read wants and
owns nothing). Out: messages of the protocol, plans by the listener when this member leads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kafka import errors as kafka_errors
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.protocol.consumer import DEFAULT_GENERATION_ID
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from coop_consumer.kafka.membership.listener import (
    GroupMember,
    MemberAssignment,
    MembershipListener,
)
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted

log = logging.getLogger(__name__)

NOTHING: bytes = ConsumerProtocolAssignment(
    version=0, assigned_partitions=[], user_data=None
).encode()
"""The assignment of a leader that could not assign: no partitions, no user data."""

_NO_TOPICS: bytes = ConsumerProtocolSubscription(version=0, topics=[], user_data=b"").encode()
"""The subscription that stands for an unreadable one: its member wants and owns nothing."""


LeadersPlan = Callable[[Mapping[str, int], Sequence[GroupMember]], Mapping[str, MemberAssignment]]
"""How a leader assigns: partition counts and members → member id → assignment."""


class _Assignor(AbstractPartitionAssignor):  # type: ignore[misc] # ships no types
    """A name by which members agree on an assignor, and the listener behind it."""

    def __init__(self, protocol: str, listener: MembershipListener) -> None:
        self._protocol = protocol
        self._listener = listener

    @property
    def name(self) -> str:
        """By which members agree on an assignor."""
        return self._protocol

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Do nothing: `Coordinator` passes it to the listener, with the member id."""


class OpaqueAssignor(_Assignor):
    """Carries the listener's bytes through Kafka's consumer protocol, without looking inside."""

    def metadata(self, topics: Iterable[str]) -> Any:
        """The subscription to send in JoinGroup."""
        try:
            user_data = self._listener.on_joining()
        except TimeoutError as error:
            raise kafka_errors.KafkaTimeoutError("this member is too busy to say") from error
        return ConsumerProtocolSubscription(version=0, topics=sorted(topics), user_data=user_data)

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, bytes]:
        """The assignments to send in SyncGroup, by member id, as this member leads."""
        return _assigned(self._listener.lead_assign, cluster, members)


class PlainAssignor(_Assignor):
    """Joins as a plain member, under the name of a plain assignor.

    Attributes:
        generation: The last one that this member has joined; it dates what it says it owns.
    """

    generation = DEFAULT_GENERATION_ID

    def metadata(self, topics: Iterable[str]) -> Any:
        """The subscription to send in JoinGroup."""
        owned: dict[str, list[int]] = {}
        for topic, number in sorted(self._listener.owned()):
            owned.setdefault(topic, []).append(number)
        # Even an empty list is sent: without one, a librdkafka that leads a cooperative group would
        # crash with a null pointer. The generation is sent twice: Java's clients before 3.3 look
        # for it in the user data.
        return ConsumerProtocolSubscription(
            version=2,
            topics=sorted(topics),
            user_data=self.generation.to_bytes(4, "big", signed=True),
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers)
                for topic, numbers in owned.items()
            ],
            generation_id=self.generation,
        )

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, bytes]:
        """The assignments to send in SyncGroup, by member id, as this member leads."""
        return _assigned(self._listener.lead_plain, cluster, members)


def _assigned(plan: LeadersPlan, cluster: Any, members: Sequence[Any]) -> dict[str, bytes]:
    group = [
        GroupMember(
            member.member_id,
            member.group_instance_id,
            tuple(member.metadata.topics),
            bytes(member.metadata.user_data or b""),
            tuple(
                (owned.topic, number)
                for owned in member.metadata.owned_partitions
                for number in owned.partitions
            ),
        )
        for member in members
    ]
    topics = {topic for member in group for topic in member.topics}
    counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
    known = {topic: counts[topic] for topic in sorted(topics) if counts[topic]}
    # Without metadata there is nothing to assign yet; their arrival starts a rebalance.
    planned = plan(known, group) if known else {}
    if strangers := planned.keys() - {member.member_id for member in group}:
        raise ValueError(f"assigned to non-members: {sorted(strangers)}")
    return {member.member_id: encode(planned.get(member.member_id)) for member in group}


def encode(assignment: MemberAssignment | None) -> bytes:
    """The message of an assignment; None: of nothing."""
    if assignment is None:
        return NOTHING
    partitions = [(topic, list(numbers)) for topic, numbers in assignment.partitions.items()]
    encoded: bytes = ConsumerProtocolAssignment(
        version=0, assigned_partitions=partitions, user_data=assignment.user_data
    ).encode()
    return encoded


def decode(assignment: bytes) -> Any:
    """Read what a leader sent, which is foreign input: unreadable means nothing assigned."""
    try:
        return ConsumerProtocolAssignment.decode(assignment or NOTHING)
    except Exception as error:
        told = (
            "an assignment of %s from the group's leader cannot be read: this member holds nothing "
            "until the next one, and nothing is lost. Look for a stranger in the group, or a "
            "member of a newer version, with `coop-consumer status`"
        )
        extra = LogEvent.ASSIGNMENT_UNREADABLE.extra(error=error)
        log.exception(told, counted(len(assignment), "byte"), extra=extra)
        return ConsumerProtocolAssignment.decode(NOTHING)


def readable(subscription: bytes, member_id: str) -> bytes:
    """Return the subscription, or an empty one if nobody could read it."""
    try:
        ConsumerProtocolSubscription.decode(subscription)
    except Exception as error:
        told = (
            "what member %s sent to the group cannot be read: it gets nothing, the others go on, "
            "and nothing is lost. Look for a stranger in the group, with `coop-consumer status`"
        )
        extra = LogEvent.SUBSCRIPTION_UNREADABLE.extra(error=error)
        log.exception(told, member_id, extra=extra)
        return _NO_TOPICS
    return subscription
