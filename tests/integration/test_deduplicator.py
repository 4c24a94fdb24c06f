"""A reader that sees each source once, in whatever order records arrive and wherever it begins."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.errors import InputGoneError, MisuseError, TopicMissingError
from coop_consumer.patterns import Deduplicator, committed_records, with_source
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S

pytestmark = pytest.mark.integration

ORDERS = TopicPartition("orders", 3)


@pytest.fixture
def place(bootstrap: str, topic: MakeTopic) -> TopicPartition:
    """Outputs of offsets 0 to 99, key by key and so out of order; the last 30 of them twice."""
    found = TopicPartition(topic(), 0)
    offsets = list(range(100))
    random.Random(7).shuffle(offsets)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for offset in [*offsets, *offsets[70:]]:
        headers = [*with_source([], ORDERS, offset)]
        producer.produce(found.topic, b"%d" % offset, partition=0, headers=[*headers])
    assert producer.flush(WAIT_S) == 0
    return found


def read(bootstrap: str, place: TopicPartition, first: int, dedup: Deduplicator) -> list[int]:
    records = committed_records({"bootstrap.servers": bootstrap}, place, first)
    return [int(it.value() or 0) for it in records if dedup.is_new(it)]


def test_bits_see_each_once_where_the_largest_offset_would_lose_most(
    bootstrap: str, place: TopicPartition
) -> None:
    found = read(bootstrap, place, 0, Deduplicator())
    assert sorted(found) == list(range(100))
    largest, kept = -1, []
    for offset in found:
        if offset > largest:
            largest, kept = offset, [*kept, offset]
    assert len(kept) < 20, "in this order the largest offset is soon there"


def test_a_reader_that_goes_on_knows_what_came_before(
    bootstrap: str, place: TopicPartition
) -> None:
    first = read(bootstrap, place, 0, Deduplicator())[:90]
    dedup = Deduplicator()
    dedup.catch_up({"bootstrap.servers": bootstrap}, place, 90)
    assert sorted(first + read(bootstrap, place, 90, dedup)) == list(range(100))
    bounded = Deduplicator()
    bounded.catch_up({"bootstrap.servers": bootstrap}, place, 100, look_back=10)
    assert len(read(bootstrap, place, 100, bounded)) == 20, "30 come again, and it knows 10"


def test_a_record_that_does_not_tell_its_source_is_named(bootstrap: str, topic: MakeTopic) -> None:
    place = TopicPartition(topic(), 0)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(place.topic, b"v", partition=0)
    producer.produce(place.topic, b"v", partition=0, headers=[("a", b"x"), ("b", b"y")])
    assert producer.flush(WAIT_S) == 0
    with pytest.raises(MisuseError, match=f"{place} offset 0: it has not the headers source"):
        read(bootstrap, place, 0, Deduplicator())
    with pytest.raises(MisuseError, match=f"{place} offset 1: b=b'y' is no offset"):
        read(bootstrap, place, 1, Deduplicator(("a", "b")))
    Deduplicator(("a", "b")).catch_up({"bootstrap.servers": bootstrap}, place, 2)


@pytest.mark.parametrize("identity", [(), "source.offset", ("",), (b"source.offset",)])
def test_an_identity_is_names_of_headers(identity: tuple[str, ...]) -> None:
    with pytest.raises(MisuseError, match="Give the names of one header or more"):
        Deduplicator(identity)


def test_a_partition_or_an_offset_that_is_not_there_is_named_at_once(
    bootstrap: str, place: TopicPartition
) -> None:
    config = {"bootstrap.servers": bootstrap}
    for wrong in (TopicPartition(place.topic, 9), TopicPartition(place.topic, -1)):
        with pytest.raises(MisuseError, match="has no partition"):
            list(committed_records(config, wrong, 0))
        with pytest.raises(MisuseError, match="has no partition"):
            Deduplicator().catch_up(config, wrong, 5)
    missing = TopicPartition(place.topic + "-not", 0)
    with pytest.raises(TopicMissingError):
        list(committed_records(config, missing, 0))
    with pytest.raises(TopicMissingError):
        Deduplicator().catch_up(config, missing, 5)
    with pytest.raises(MisuseError, match="above the end"):
        Deduplicator().catch_up(config, place, 10**6)
    with pytest.raises(MisuseError, match="offset -1 is negative"):
        Deduplicator().catch_up(config, place, -1)


def test_records_that_are_gone_are_passed_over_on_request(
    bootstrap: str, place: TopicPartition, admin: AdminClient
) -> None:
    config = {"bootstrap.servers": bootstrap}
    [deleted] = admin.delete_records([Place(place.topic, 0, 40)]).values()
    deleted.result(WAIT_S)
    with pytest.raises(InputGoneError, match=r"on\.data\.loss=warn"):
        list(committed_records(config, place, 7))
    found = committed_records({**config, "on.data.loss": "warn"}, place, 7)
    assert [it.offset() for it in found] == list(range(40, 130))
