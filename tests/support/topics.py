"""Topics for tests, on any broker: the broker knows each topic before a test uses it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.support.stock import eventually

ADMIN_TIMEOUT_S = 60.0


def create_topic(
    admin: AdminClient,
    name: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic with the broker's default replication; return when it can be used.

    The controller answers before the brokers know the topic. So the function asks for metadata
    until every partition has a leader.

    Raises:
        KafkaException: The topic exists, or the broker refuses it.
        TimeoutError: Not every partition has a leader in time.
    """
    new = NewTopic(name, num_partitions=partitions, config=dict(config or {}))
    admin.create_topics([new])[name].result(ADMIN_TIMEOUT_S)
    deadline = time.monotonic() + ADMIN_TIMEOUT_S
    while time.monotonic() < deadline:
        if _leaders(admin, name) == partitions:
            return
    raise TimeoutError(f"topic {name}: not all of {partitions} partitions have a leader")


def set_topic(admin: AdminClient, name: str, setting: str, value: str) -> None:
    """Change one setting of a topic; return when a broker knows it."""
    change = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change])
    [changed] = admin.incremental_alter_configs([resource]).values()
    changed.result(ADMIN_TIMEOUT_S)

    def is_known() -> bool:
        [described] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
        return bool(described.result(ADMIN_TIMEOUT_S)[setting].value == value)

    eventually(is_known)


def remove_below(admin: AdminClient, name: str, offset: int, partition: int = 0) -> None:
    """Remove the records of a topic that is not compacted below an offset; -1: all of them."""
    place = TopicPartition(name, partition, offset)
    admin.delete_records([place])[place].result(ADMIN_TIMEOUT_S)


def truncate(admin: AdminClient, name: str, below: Mapping[int, int]) -> None:
    """Delete the records of a compacted topic below an offset of each partition.

    A topic that is only compacted cannot be truncated. A broker learns of a change some time after
    the controller has accepted it.
    """
    set_topic(admin, name, "cleanup.policy", "compact,delete")
    places = [TopicPartition(name, number, offset) for number, offset in below.items()]

    def is_done() -> bool:
        try:
            for removed in admin.delete_records(places).values():
                removed.result(ADMIN_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.POLICY_VIOLATION:
                raise
            return False
        return True

    eventually(is_done)
    set_topic(admin, name, "cleanup.policy", "compact")


def _leaders(admin: AdminClient, name: str) -> int:
    """How many partitions of the topic have a leader, as far as the broker knows."""
    known = admin.list_topics(name, ADMIN_TIMEOUT_S).topics[name].partitions.values()
    return sum(partition.leader >= 0 for partition in known)
