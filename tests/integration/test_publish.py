"""A publisher's transactions on a real broker: all or nothing, and only the newest of a name."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import MisuseError, PublisherFencedError, RecordTooLargeError
from coop_consumer.kafka.own_topics import for_batches_of
from coop_consumer.kafka.publish import Publisher, marks_of
from coop_consumer.kafka.topics import Topics
from tests.support.brokers import MakeTopic
from tests.support.stock import records_of

pytestmark = pytest.mark.integration

Values = Callable[[str], list[bytes | None]]


@pytest.fixture
def config(bootstrap: str, group_id: str) -> Config:
    return Config.from_dict({"bootstrap.servers": bootstrap, "group.id": group_id})


@pytest.fixture
def values(bootstrap: str) -> Values:
    """What readers of transactions see in a topic's only partition."""

    def read(topic: str) -> list[bytes | None]:
        settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
        found: list[Message] = list(records_of(settings, topic, 0))
        return [message.value() for message in found]

    return read


def test_records_and_their_mark_are_written_together(
    config: Config, topic: MakeTopic, group_id: str, values: Values
) -> None:
    name = topic()
    place = TopicPartition(name, 0)
    with Publisher(config, group_id) as publisher:
        assert publisher.marks([place]) == {}
        with publisher.transaction():
            publisher.write(name, b"a", b"k", [("h", b"1")])
            publisher.mark(place, 7, "seven")
        assert publisher.marks([place]) == {place: (7, "seven")}
        with pytest.raises(ZeroDivisionError), publisher.transaction():  # noqa: PT012
            publisher.write(name, b"b")
            publisher.mark(place, 8, "eight")
            late = publisher._delivered
            1 / 0  # noqa: B018
        with publisher.transaction():  # it goes on after an abort
            late(KafkaError(KafkaError._PURGE_QUEUE), Message(topic=name))
            publisher.write(name, b"c")
    assert values(name) == [b"a", b"c"]
    assert marks_of(config, group_id, [place]) == {place: (7, "seven")}


def test_the_newest_of_a_name_fences_the_others(
    config: Config, topic: MakeTopic, group_id: str, values: Values
) -> None:
    name = topic()
    place = TopicPartition(name, 0)
    with Publisher(config, group_id) as older:
        with pytest.raises(PublisherFencedError, match="took over"), older.transaction():  # noqa: PT012
            older.write(name, b"older")
            older.mark(place, 1)
            with Publisher(config, group_id) as newer:
                assert newer.marks([place]) == {}
                with newer.transaction():
                    newer.write(name, b"newer")
                    newer.mark(place, 2)
        with pytest.raises(PublisherFencedError), older.transaction():
            older.write(name, b"once more")
    assert values(name) == [b"newer"]
    assert marks_of(config, group_id, [place]) == {place: (2, "")}


def test_whichever_call_finds_out_says_that_it_was_fenced(
    config: Config, topic: MakeTopic, group_id: str, values: Values
) -> None:
    """confluent-kafka raises errors of its own out of poll() and flush() then."""
    name = topic()
    fenced = pytest.raises(PublisherFencedError, match="took over")
    with Publisher(config, group_id) as older, fenced, older.transaction():
        older.write(name, b"older")
        older.send()
        with Publisher(config, group_id) as newer, newer.transaction():
            newer.write(name, b"newer")
        for number in range(10_000):
            older.write(name, b"older still")
            if number % 1_000 == 0:
                older.send()
    assert values(name) == [b"newer"]


@pytest.mark.parametrize("behind", [0, 50_000])
def test_a_refused_record_voids_all_and_is_named(
    config: Config, topic: MakeTopic, group_id: str, values: Values, behind: int
) -> None:
    """Also if others are withdrawn because of it, and librdkafka tells of those first."""
    name, other = topic(config={"max.message.bytes": "1000"}), topic()
    with Publisher(config, group_id) as publisher:
        with pytest.raises(RecordTooLargeError, match=name), publisher.transaction():  # noqa: PT012
            publisher.write(name, b"small")
            publisher.write(name, b"x" * 2_000)
            for _ in range(behind):
                publisher.write(other, b"x" * 100)
        assert values(name) == values(other) == []


def clients() -> set[int]:
    gc.collect()
    return {id(it) for it in gc.get_objects() if isinstance(it, Producer | Consumer)}


@pytest.mark.parametrize("end", ["fenced", "abandoned"])
def test_a_closed_publisher_keeps_no_client_whatever_its_errors_are_kept_by(
    config: Config, topic: MakeTopic, group_id: str, end: str
) -> None:
    """confluent-kafka keeps exceptions for ever, and they keep the frames of calls that failed."""
    name, before = topic(), clients()
    ends = pytest.raises((PublisherFencedError, ZeroDivisionError))
    with ends, Publisher(config, group_id) as it:
        with it.transaction():
            it.write(name, b"a")
            it.send()
        with it.transaction():
            it.write(name, b"b")
            it.send()
            Publisher(config, group_id).close()
            if end == "abandoned":
                1 / 0  # noqa: B018
    assert clients() <= before
    with pytest.raises(MisuseError, match="is closed"), it.transaction():
        raise AssertionError
    with pytest.raises(MisuseError, match="is closed"):
        it.send()
    it.close()


def test_small_records_go_in_batches_that_a_small_topic_takes(
    config: Config, topic: MakeTopic, group_id: str, values: Values
) -> None:
    """librdkafka gathers up to 1 MB of them by default, and all were refused together."""
    name = topic(config={"max.message.bytes": "2000"})
    wanted = [b"x" * 500 + b"%d" % number for number in range(20)]
    fitted = for_batches_of(config, Topics(config), name)
    with Publisher(fitted, group_id) as publisher, publisher.transaction():
        for value in wanted:
            publisher.write(name, value)
    assert values(name) == wanted
