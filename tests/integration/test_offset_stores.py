"""Offset stores on a real broker: rights, and what they cost when something is missing."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.errors import AuthorizationError
from coop_consumer.offset_stores import KafkaOffsetStore, OffsetEntry
from tests.support.job import Job
from tests.support.rights import READ_GROUP, READ_TOPIC, Right, grant
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration


@pytest.fixture
def orders(secured: EmbeddedBroker, root: AdminClient, group_id: str) -> Job:
    """A topic, and a group in which `ann` commits; so far she may do nothing."""
    create_topic(root, group_id)
    as_ann = secured.client_config("ann")
    return Job(secured.client_config("root"), root, f"{group_id}-group", group_id, own=as_ann)


# -- Kafka's own ---------------------------------------------------------------------------------


def test_with_the_rights_of_a_consumer_offsets_are_kept(orders: Job, root: AdminClient) -> None:
    grant(root, orders, [READ_TOPIC, READ_GROUP])
    place = TopicPartition(orders.topic, 0)
    with KafkaOffsetStore(orders.settings) as store:
        assert store.commit(orders.group, {place: OffsetEntry(42, "m")}) is None
        assert store.fetch(orders.group, [place]) == {place: OffsetEntry(42, "m")}


@pytest.mark.parametrize(
    ("right", "named"), [(READ_TOPIC, "group {group}: "), (READ_GROUP, "topic {topic}: ")]
)
def test_a_missing_right_is_named(orders: Job, root: AdminClient, right: Right, named: str) -> None:
    """She has one right; the other one is missing."""
    grant(root, orders, [right])
    place = TopicPartition(orders.topic, 0)
    missing = named.format(group=orders.group, topic=orders.topic)
    with KafkaOffsetStore(orders.settings) as store:
        with pytest.raises(AuthorizationError, match=f"^{missing}.*ann"):
            store.commit(orders.group, {place: OffsetEntry(42)})
        with pytest.raises(AuthorizationError, match=f"^{missing}.*ann"):
            store.fetch(orders.group, [place])
