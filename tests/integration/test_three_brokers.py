"""First looks at topics that were just made, on brokers that hear of them one after the other."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from assignors import TopicPartition
from coop_consumer import Record, Worker, WorkerPool
from coop_consumer.config import Config
from coop_consumer.kafka.own_topics import changelog, progress_topic
from coop_consumer.kafka.policies import PolicyLog
from coop_consumer.kafka.publish import Publisher
from coop_consumer.kafka.topics import EARLIEST, Topics
from tests.support.brokers import own_broker

pytestmark = pytest.mark.integration

PARTITIONS = 50
TRIES = range(6)
"""Without a second look, some 12 of 20 failed."""


@pytest.fixture(scope="module")
def config() -> Iterator[Config]:
    with own_broker(nodes=3) as broker:
        yield Config.from_dict(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "progress.topic.partitions": PARTITIONS,
            }
        )


@pytest.fixture
def fresh(config: Config) -> Config:
    """A configuration whose topics do not exist yet."""
    name = secrets.token_hex(4)
    return replace(config, progress_topic=f"progress-{name}", group_id=f"group-{name}")


@pytest.mark.parametrize("_", TRIES)
def test_a_progress_topic_can_be_used_as_soon_as_it_is_made(fresh: Config, _: int) -> None:
    topics = Topics(fresh)
    assert progress_topic(topics, fresh).partitions == PARTITIONS
    places = [TopicPartition(fresh.progress_topic, number) for number in range(PARTITIONS)]
    assert set(topics.offsets(places, EARLIEST).values()) == {0}
    with closing(PolicyLog(fresh)) as log:
        assert log.read() == {}


@pytest.mark.parametrize("_", TRIES)
def test_a_changelog_can_be_used_as_soon_as_it_is_made_and_as_it_grows(
    fresh: Config, _: int
) -> None:
    topics, name = Topics(fresh), fresh.changelog_for("orders")
    topics.create("orders", 3, 3, {})
    orders = topics.once_made("orders")
    assert changelog(topics, fresh, "orders", orders).partitions == 3
    assert changelog(topics, fresh, "orders", replace(orders, partitions=9)).partitions == 9
    assert topics.offsets([TopicPartition(name, 8)], EARLIEST)


@pytest.mark.parametrize("_", TRIES)
def test_a_mark_can_lie_on_a_progress_topic_that_was_just_made(fresh: Config, _: int) -> None:
    progress_topic(Topics(fresh), fresh)
    place = TopicPartition(fresh.progress_topic, 0)
    with Publisher(fresh, fresh.group_id) as publisher:
        with publisher.transaction():
            publisher.mark(place, 7, "text")
        assert publisher.marks([place]) == {place: (7, "text")}


class Idle(Worker):
    """For a topic that is empty."""

    def process(self, record: Record) -> None:
        """Never called."""


def test_members_of_a_fresh_cluster_all_start(fresh: Config) -> None:
    """All make the same progress topic at once, and the topic they consume is as young."""
    topic = f"{fresh.group_id}-in"
    Topics(fresh).create(topic, 3, 3, {})
    settings = {
        "bootstrap.servers": fresh.bootstrap_servers,
        "group.id": fresh.group_id,
        "progress.topic": fresh.progress_topic,
    }
    pools = [WorkerPool(Idle, settings, [topic], workers=1, until_caught_up=True) for _ in TRIES]
    for pool in pools:
        pool.start()
    for pool in pools:
        pool.wait()
