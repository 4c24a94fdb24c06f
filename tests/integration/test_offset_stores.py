"""Offset stores on a real broker: rights, and what they cost when something is missing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count, takewhile

import pytest
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.errors import AuthorizationError
from coop_consumer.logs import kafka_reader
from coop_consumer.offset_stores import KafkaOffsetStore, LogOffsetStore, OffsetEntry
from tests.support.brokers import MakeTopic
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


# -- over logs -----------------------------------------------------------------------------------


def test_a_commit_of_several_batches_is_seen_as_a_whole(
    bootstrap: str, topic: MakeTopic, group_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch has ten entries, the reader gets one batch at a time, and it reads in parts."""
    monkeypatch.setattr(kafka_reader, "READ_MAX", 50)
    small = {"batch.num.messages": 10, "fetch.message.max.bytes": 1_000}
    config, log = {"bootstrap.servers": bootstrap, **small}, topic(1)
    places, enough = [TopicPartition("orders", number) for number in range(200)], threading.Event()
    with ExitStack() as entered:
        writer = entered.enter_context(LogOffsetStore(config, log, "writer"))
        reader = entered.enter_context(LogOffsetStore(config, log, "reader"))
        thread = entered.enter_context(ThreadPoolExecutor(1))
        entered.callback(enough.set)

        def commit() -> None:
            for offset in takewhile(lambda _: not enough.is_set(), count()):
                assert writer.commit(group_id, dict.fromkeys(places, OffsetEntry(offset))) is None

        committing, seen = thread.submit(commit), set[int]()
        while len(seen) < 10 and not committing.done():
            offsets = {entry.offset for entry in reader.fetch(group_id, places).values()}
            assert len(offsets) <= 1
            seen |= offsets
        enough.set()
        committing.result()


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
