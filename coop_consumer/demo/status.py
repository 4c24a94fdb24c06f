"""The demo's one call site for the status of a group.

In: an address and a group. Out: a picture for the terminal.
"""

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from rich.table import Table

_BROKER_TIMEOUT_S = 30.0


def status_picture(bootstrap: str, group: str) -> Table:
    """Members, their partitions and the committed offsets, as stock tools see them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_consumer_groups([group])[group].result(_BROKER_TIMEOUT_S)
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    committed = {
        (place.topic, place.partition): place.offset
        for place in offsets[group].result(_BROKER_TIMEOUT_S).topic_partitions
    }
    table = Table("partition", "committed", "members", title=f"group {group}")
    for topic, partition in sorted(committed):
        members = [
            member.member_id[-12:]
            for member in described.members
            for place in member.assignment.topic_partitions
            if (place.topic, place.partition) == (topic, partition)
        ]
        table.add_row(
            f"{topic}-{partition}", f"{committed[topic, partition]:,}", ", ".join(members)
        )
    return table
