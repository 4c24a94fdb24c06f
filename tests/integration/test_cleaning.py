"""One partition cleaned while attempts fall and meet: each output once, in order; no Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import PublisherFencedError
from coop_consumer.kafka.topics import LATEST, Topics
from coop_consumer.patterns import cleaning
from coop_consumer.patterns.cleaning import Cleaned, CleaningOrder, clean_partition
from coop_consumer.patterns.seen import IDENTITY
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S
from tests.support.stock import abort, eventually, records_of

pytestmark = pytest.mark.integration


@pytest.fixture
def order(
    bootstrap: str, topic: MakeTopic, group_id: str, monkeypatch: pytest.MonkeyPatch
) -> CleaningOrder:
    """Offsets 0 to 59 of an origin, 30 to 49 of them twice; 7 records a transaction."""
    monkeypatch.setattr(cleaning, "TRANSACTION_RECORDS", 7)
    monkeypatch.setattr("coop_consumer.kafka.slice_reader.BATCH_MAX", 7)
    source, target = topic(), topic()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for offset in (*range(50), *range(30, 60)):
        headers: list[tuple[str, str | bytes | None]] = [
            ("source.partition", b"0"),
            ("source.offset", str(offset).encode()),
        ]
        producer.produce(source, b"v", headers=headers)
    assert producer.flush(WAIT_S) == 0
    config = Config.from_dict({"bootstrap.servers": bootstrap, "group.id": group_id})
    place = TopicPartition(source, 0)
    ends = (Topics(config).offsets([place], LATEST)[place],)
    ids = f"{source} {target}"  # unique as those of topics
    return CleaningOrder(config, group_id, source, target, ids, ends, IDENTITY, None, "stop")


def copied(order: CleaningOrder) -> list[int]:
    settings = {
        "bootstrap.servers": order.config.bootstrap_servers,
        "isolation.level": "read_committed",
    }
    headers: list[Any] = [dict(it.headers() or ()) for it in records_of(settings, order.target, 0)]
    return [int(named["source.offset"]) for named in headers]


def test_an_attempt_that_falls_within_a_transaction_leaves_nothing_of_it(
    order: CleaningOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, calls = cleaning.copy_to, [0]

    def fall(*given: Any) -> None:
        calls[0] += 1
        copy(*given)
        assert calls[0] < 25, "the test wants it"

    monkeypatch.setattr(cleaning, "copy_to", fall)
    with pytest.raises(AssertionError, match="the test wants it"):
        clean_partition(order, 0)
    assert copied(order) == list(range(21)), "three transactions"
    monkeypatch.setattr(cleaning, "copy_to", copy)
    assert clean_partition(order, 0) == Cleaned(0, read=59, copied=39, repeats=20)
    assert clean_partition(order, 0) == Cleaned(0, read=0, copied=0, repeats=0)
    assert copied(order) == list(range(60))


def test_an_attempt_that_lives_on_beside_a_newer_one_is_fenced(
    order: CleaningOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, calls = cleaning.copy_to, [0]

    def meet(*given: Any) -> None:
        calls[0] += 1
        copy(*given)
        if calls[0] == 25:
            assert clean_partition(order, 0).copied == 39

    monkeypatch.setattr(cleaning, "copy_to", meet)
    with pytest.raises(PublisherFencedError):
        clean_partition(order, 0)
    assert copied(order) == list(range(60))


def test_a_tail_of_aborted_records_is_no_reason_to_wait(order: CleaningOrder) -> None:
    """apache/pinot#18337, risingwave#24717: a reader waited for a record that never comes."""
    client = {"bootstrap.servers": order.config.bootstrap_servers}
    abort(client, order.source, count=5)
    place = TopicPartition(order.source, 0)
    end = order.ends[0] + 6  # five records and a marker, which comes a moment later
    eventually(lambda: Topics(order.config).offsets([place], LATEST), lambda it: it == {place: end})
    assert clean_partition(replace(order, ends=(end,)), 0).copied == 60
    assert copied(order) == list(range(60))
