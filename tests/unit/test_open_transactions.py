"""Whose transaction holds up readers: brokers' answers, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition as Place
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.kafka import open_transactions as looking
from coop_consumer.kafka.open_transactions import open_transactions
from coop_consumer.status.open_transaction import OpenTransaction

ORDERS = TopicPartition("orders", 0)
PLACE = Place("orders", 0)
CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})


def producer(producer_id: int, start: int) -> SimpleNamespace:
    return SimpleNamespace(
        producer_id=producer_id, current_transaction_start_offset=start, last_timestamp=5_000
    )


class Brokers:
    """Brokers that tell of one partition; a test sets what they say."""

    DEFAULT_CONFIG = KafkaAdminClient.DEFAULT_CONFIG

    def __init__(self, **_: object) -> None:
        self.opened = [producer(3, 20), producer(7, 12), producer(9, -1)]
        self.ids = {7: "tx-7"}
        self.state, self.places = "Ongoing", {PLACE}

    def describe_producers(self, places: Iterable[Place]) -> dict[Place, SimpleNamespace]:
        return {it: SimpleNamespace(active_producers=self.opened) for it in places}

    def list_transactions(self, producer_id_filters: list[int]) -> dict[int, list[SimpleNamespace]]:
        found = [(i, it) for i, it in self.ids.items() if i in producer_id_filters]
        return {1: [SimpleNamespace(producer_id=i, transactional_id=it) for i, it in found], 2: []}

    def describe_transactions(self, ids: list[str]) -> dict[str, SimpleNamespace]:
        told = SimpleNamespace(
            state=SimpleNamespace(value=self.state),
            topic_partitions=self.places,
            transaction_timeout_ms=10_000,
            transaction_start_time_ms=4_000,
        )
        return dict.fromkeys(ids, told)

    def close(self) -> None:
        pass


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Callable[..., OpenTransaction]:
    """A look at brokers that say this: `look(state="Empty")`."""

    def looked(**told: Any) -> OpenTransaction:
        brokers = Brokers()
        for name, value in told.items():
            setattr(brokers, name, value)

        def made(**_: object) -> Brokers:
            return brokers

        made.DEFAULT_CONFIG = Brokers.DEFAULT_CONFIG  # type: ignore[attr-defined] # as the class
        monkeypatch.setattr(looking, "KafkaAdminClient", made)
        [found] = open_transactions(CONFIG, {ORDERS: (12, 30)}).values()
        return found

    return looked


def test_it_is_that_of_the_producer_whose_transaction_began_first(
    look: Callable[..., OpenTransaction],
) -> None:
    assert look() == OpenTransaction(
        ORDERS, 12, 30, "b:9092", since_ms=4_000, transactional_id="tx-7", timeout_ms=10_000
    )


def test_what_rights_hide_is_not_taken_for_gone(look: Callable[..., OpenTransaction]) -> None:
    assert look(ids={}) == OpenTransaction(ORDERS, 12, 30, "b:9092", since_ms=5_000)


@pytest.mark.parametrize(
    ("told", "is_hanging"),
    [
        ({"state": "Empty"}, True),
        ({"state": "CompleteAbort"}, True),
        ({"places": {Place("totals", 1)}}, True),  # the id has begun another one since
        ({"state": "PrepareAbort", "places": set()}, False),  # its markers are on their way
    ],
)
def test_one_that_its_coordinator_does_not_know_hangs(
    look: Callable[..., OpenTransaction], told: dict[str, Any], is_hanging: bool
) -> None:
    """twmb/kcl#10 (KAFKA-12671), twmb/franz-go#928 (KAFKA-18957): readers stop for ever."""
    assert look(**told).is_hanging is is_hanging


def test_one_that_was_decided_between_two_questions_does_not_hang(
    look: Callable[..., OpenTransaction],
) -> None:
    answers = iter([[producer(7, 12)], [producer(7, 40)]])

    def describe(places: Iterable[Place]) -> dict[Place, SimpleNamespace]:
        return {it: SimpleNamespace(active_producers=next(answers)) for it in places}

    assert not look(state="CompleteCommit", describe_producers=describe).is_hanging


def test_brokers_that_tell_nothing_end_no_command(look: Callable[..., OpenTransaction]) -> None:
    def refuse(_: object) -> None:
        raise kafka_errors.UnsupportedVersionError

    assert look(describe_producers=refuse) == OpenTransaction(ORDERS, 12, 30, "b:9092")
