"""The topics that are ours, made on brokers that learn of them one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.core.record_size import RECORD_MAX_BYTES
from coop_consumer.errors import AuthorizationError, ProgressTopicError, TopicMissingError
from coop_consumer.kafka.own_topics import (
    DEAD_LETTER_MAX_BYTES,
    changelog,
    progress_topic,
    record_max_bytes,
    writer_settings,
)
from coop_consumer.kafka.topics import LATEST, TopicFacts, Topics

MISSING = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
DATA = TopicFacts(b"d" * 16, 3)


@dataclass
class Description:
    """As much of a topic's description as is read."""

    topic_id: Uuid
    partitions: list[Any]


@dataclass
class Partition:
    """One of them."""

    replicas: list[int] = field(default_factory=lambda: [1])


@dataclass
class Value:
    """A setting, or an offset."""

    value: str = ""
    offset: int = 0


class SlowCluster:
    """An admin client whose every look at a new topic asks a broker that hears of it late.

    Args:
        late: How many times each kind of look says that the topic does not exist.
    """

    def __init__(self, late: int) -> None:
        self._late = late
        self._topics: dict[str, tuple[int, dict[str, str]]] = {}
        self._asked: dict[tuple[str, str], int] = {}

    def _answer(self, look: str, name: str, make: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        asked = self._asked[look, name] = self._asked.get((look, name), 0) + 1
        if name in self._topics and asked > self._late:
            future.set_result(make())
        else:
            future.set_exception(KafkaException(MISSING))
        return future

    def _forget(self) -> None:
        """From here on the broker hears late of new topics again."""
        self._asked.clear()

    def settings(self, name: str) -> dict[str, str]:
        return self._topics[name][1]

    def delete(self, name: str) -> None:
        del self._topics[name]

    def create_topics(self, new: Iterable[NewTopic]) -> dict[str, Future[Any]]:
        self._forget()
        done: Future[Any] = Future()
        done.set_result(None)
        self._topics |= {it.topic: (it.num_partitions, it.config) for it in new}
        return {it.topic: done for it in new}

    def create_partitions(self, new: Iterable[NewPartitions]) -> dict[str, Future[Any]]:
        self._forget()
        done: Future[Any] = Future()
        done.set_result(None)
        for it in new:
            self._topics[it.topic] = it.new_total_count, self._topics[it.topic][1]
        return {it.topic: done for it in new}

    def describe_topics(self, names: TopicCollection) -> dict[str, Future[Any]]:
        def told(name: str) -> Description:
            return Description(Uuid(1, 2), [Partition()] * self._topics[name][0])

        return {
            name: self._answer("describe", name, lambda name=name: told(name))
            for name in names.topic_names
        }

    def describe_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        def told(name: str) -> dict[str, Value]:
            return {key: Value(text) for key, text in self._topics[name][1].items()}

        return {
            it: self._answer("settings", it.name, lambda name=it.name: told(name))
            for it in resources
        }

    def list_offsets(self, asked: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        return {it: self._answer("offsets", it.topic, lambda: Value(offset=7)) for it in asked}


def topics_of(cluster: SlowCluster, config: Config) -> Topics:
    """The topics of that cluster."""

    class Slow(Topics):
        def _new_admin(self) -> AdminClient:
            return cluster  # type: ignore[return-value] # it does what is asked of one here

    return Slow(config)


@pytest.fixture
def config() -> Config:
    return Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, config: Config) -> Topics:
    """Topics on a cluster whose brokers learn late; its pauses take no time."""
    monkeypatch.setattr(Topics, "again_s", 0)
    return topics_of(SlowCluster(late=3), config)


def test_the_progress_topic_is_looked_at_until_every_broker_that_is_asked_has_heard_of_it(
    slow: Topics, config: Config
) -> None:
    assert progress_topic(slow, config).partitions == 50
    assert slow.offsets([TopicPartition(config.progress_topic, 0)], LATEST)


@pytest.mark.parametrize(("asked", "partitions"), [({}, 8), ({"progress.topic.partitions": 3}, 3)])
def test_a_group_with_exactly_once_gets_a_progress_topic_of_few_partitions(
    slow: Topics, asked: dict[str, object], partitions: int
) -> None:
    """Each costs a transaction a marker, however many Kafka's own offsets topic has."""
    slow.create("__consumer_offsets", 50, 1, {})
    settings = {"bootstrap.servers": "b:9092", "group.id": "g", **asked}
    once = Config.from_dict({**settings, "processing.guarantee": "exactly_once"})
    assert progress_topic(slow, once).partitions == partitions
    assert slow.describe(["__individual_commit_offsets-g"])


def test_a_progress_topic_that_is_deleted_once_it_is_found_is_made_again(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SlowCluster(late=0)
    topics = topics_of(cluster, config)
    topics.create(config.progress_topic, 7, 1, {"cleanup.policy": "compact"})
    real, gone = topics.settings_of, [config.progress_topic]

    def settings_of(name: str) -> dict[str, str]:
        if gone:
            cluster.delete(gone[0])
            topics._seen_s.clear()  # else it is asked for again for some seconds
            raise TopicMissingError(gone.pop(), "consumed")
        return dict(real(name))

    monkeypatch.setattr(topics, "settings_of", settings_of)
    assert progress_topic(topics, config).partitions == 50


def test_who_finds_a_progress_topic_that_another_member_just_made_asks_for_its_settings_again(
    slow: Topics, config: Config
) -> None:
    slow.create(config.progress_topic, 50, 1, {"cleanup.policy": "compact"})
    assert progress_topic(slow, config).partitions == 50


def test_a_changelog_is_looked_at_until_every_broker_that_is_asked_has_heard_of_it(
    slow: Topics, config: Config
) -> None:
    slow.create("orders", 3, 1, {})
    assert changelog(slow, config, "orders", DATA).partitions == 3
    grown = TopicFacts(DATA.id, 5)
    assert changelog(slow, config, "orders", grown).partitions == 5
    assert slow.offsets([TopicPartition("g-orders-state", 4)], LATEST)


def test_a_topic_that_was_just_made_by_somebody_is_asked_for_again(
    slow: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow.create("orders", 3, 1, {})
    monkeypatch.setattr(slow, "_seen_s", {})  # it was somebody else
    assert slow.describe(["orders"])["orders"].partitions == 3


def test_a_topic_that_nobody_made_is_missing_after_a_moment(slow: Topics) -> None:
    with pytest.raises(TopicMissingError, match="orders"):
        slow.describe(["orders"], patience_s=0.01)


@pytest.mark.parametrize("verb", ["consumed", "written", "done"])
def test_a_topic_that_is_missing_says_what_is_not_done_with_it(
    slow: Topics, verb: Literal["consumed", "written", "done"]
) -> None:
    with pytest.raises(TopicMissingError, match=f"Nothing is {verb}. Create the topic"):
        slow.describe(["orders"], patience_s=0, verb=verb)


@pytest.mark.parametrize(("verb", "right"), [("consumed", "read"), ("written", "write")])
def test_a_topic_that_may_not_be_looked_at_says_which_right_is_needed(
    slow: Topics,
    monkeypatch: pytest.MonkeyPatch,
    verb: Literal["consumed", "written"],
    right: str,
) -> None:
    """Brokers hide a topic from whoever may do nothing with it; each of both rights shows it."""

    def refuse(_: object, names: TopicCollection) -> dict[str, Future[Any]]:
        refused: Future[Any] = Future()
        error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        refused.set_exception(KafkaException(error))
        return dict.fromkeys(names.topic_names, refused)

    monkeypatch.setattr(SlowCluster, "describe_topics", refuse)
    with pytest.raises(AuthorizationError, match=f"may not {right}.*Grant {right} on topic orders"):
        slow.describe(["orders"], verb=verb)


# ---- what they take ----------------------------------------------------------------------------


def made(settings: Mapping[str, str], **ours: object) -> tuple[TopicFacts, Config]:
    """The facts of a progress topic that somebody made with these settings."""
    named = {name.replace("_", "."): value for name, value in ours.items()}
    config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g", **named})
    topics = topics_of(SlowCluster(late=0), config)
    topics.create(config.progress_topic, 50, 1, {"cleanup.policy": "compact", **settings})
    return progress_topic(topics, config), config


def test_topics_of_ours_do_not_inherit_the_limits_and_clocks_of_brokers(config: Config) -> None:
    cluster = SlowCluster(late=0)
    topics = topics_of(cluster, config)
    topics.create("orders", 3, 1, {"max.message.bytes": "5000000"})
    progress_topic(topics, config)
    changelog(topics, config, "orders", DATA)
    progress, log = cluster.settings(config.progress_topic), cluster.settings("g-orders-state")
    assert progress["max.message.bytes"] == "1048588"
    assert log["max.message.bytes"] == "5000000", "state may be as large as what it was made of"
    assert {it["message.timestamp.type"] for it in (progress, log)} == {"LogAppendTime"}


def test_records_are_as_large_as_an_existing_progress_topic_takes_them() -> None:
    assert record_max_bytes(*made({})) == RECORD_MAX_BYTES
    assert record_max_bytes(*made({"max.message.bytes": "1048588"})) == RECORD_MAX_BYTES
    assert record_max_bytes(*made({"max.message.bytes": "100000"})) == 87_500
    assert record_max_bytes(*made({}, message_max_bytes=100_000)) == 87_500


def test_batches_are_as_large_as_an_existing_progress_topic_takes_them() -> None:
    small = writer_settings(*made({"max.message.bytes": "100000"}))
    assert small["batch.size"] == 87_500
    assert small["message.max.bytes"] == DEAD_LETTER_MAX_BYTES, "a dead letter goes by itself"
    assert writer_settings(*made({}))["batch.size"] == 875_000
    assert writer_settings(*made({}, batch_size=1_000))["batch.size"] == 1_000
    assert writer_settings(*made({}, message_max_bytes=2_000))["message.max.bytes"] == 2_000


def test_a_progress_topic_that_takes_no_record_is_refused_at_the_start() -> None:
    with pytest.raises(ProgressTopicError, match=r"max.message.bytes=1000, .*--add-config max"):
        made({"max.message.bytes": "1000"})
