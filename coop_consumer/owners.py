"""The owner of a key, as the group's coordinator knows it.

In: a member that runs, a topic and a key. Out: an `Owner`, by the present assignment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors import TopicPartition, key_hash
from coop_consumer.arguments import a_key, a_topic, whole
from coop_consumer.core.placement import partition_of
from coop_consumer.errors import MisuseError

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.member.member import MemberRun


@dataclass(frozen=True, slots=True)
class Owner:
    """The member that processes a key.

    Attributes:
        member: The member's name in the group.
        host: Where it runs, by its setting `host`.
    """

    member: str
    host: str


def owner_of(
    config: Config, asked: MemberRun, topic: str, key: bytes, partition: int | None
) -> Owner | None:
    """The member of the group that processes a key; None while its range has no owner.

    Args:
        config: The group's.
        asked: Knows the topics, and shows the group.
        topic: The key's topic.
        key: Its bytes.
        partition: The partition of its records; None: the one that Kafka's own clients choose.

    Raises:
        MisuseError: A key has no owner (`ordering=none`), or there is no such partition.
        CoopConsumerError: The broker did not answer.
    """
    a_topic("owner_of()", topic)
    a_key("owner_of()", key)
    if partition is not None:
        whole("owner_of()", partition, "number of a partition")
    if config.ordering == "none":
        raise MisuseError("owner_of()", "with ordering=none a key has no owner", "Set ordering=key")
    count = asked.partitions(topic)
    if partition is None and count:
        partition = partition_of(key, count)
    tp = TopicPartition(topic, partition or 0)
    refuse_unknown("owner_of()", asked, [tp])
    hashed = key_hash(key)
    members = asked.group_view().described().members
    owners = (one for one in members if any(hashed in own for own in one.ranges.get(tp, ())))
    return next((Owner(one.name, one.host) for one in owners), None)


def refuse_unknown(call: str, asked: MemberRun, partitions: Iterable[TopicPartition]) -> None:
    """See that these partitions are consumed here.

    Raises:
        MisuseError: One is not.
    """
    for tp in partitions:
        if not 0 <= tp.partition < asked.partitions(tp.topic):
            raise MisuseError(
                call,
                f"{tp} is no partition of a topic subscribed to or assigned",
                "Name a partition of a topic that is consumed here",
            )
