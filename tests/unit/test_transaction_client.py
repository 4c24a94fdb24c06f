"""Whose fault it is that brokers do not take what a transaction holds, however they tell it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from coop_consumer.core.actions import Commit
from coop_consumer.core.effects import Output, Result
from coop_consumer.core.events import GroupMetadata
from coop_consumer.core.transaction import Said
from coop_consumer.kafka import transaction_client as room
from coop_consumer.kafka.transaction_client import TransactionClient
from tests.support.journal import WAIT_S

TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
AHEAD = KafkaError(KafkaError.INVALID_TIMESTAMP)
PURGED = KafkaError(KafkaError._PURGE_QUEUE)
STATE = KafkaError(KafkaError._STATE)
FENCED = KafkaError(KafkaError._FENCED)

Reports = dict[int, KafkaError | None]


class Message:
    def offset(self) -> int:
        return 0

    def topic(self) -> str:
        return "totals"


class Producer:
    """Reports what a test says, one answer a poll, once it has been handed so many records.

    Args:
        answers: Each the reports of some records, by their numbers among the outputs.
        taken: So many are taken; then the transaction is broken.
        cause: What has broken it, for whoever asks.
    """

    def __init__(self, *answers: Reports, taken: int = 100, cause: KafkaError = STATE) -> None:
        self._answers, self._taken, self._cause = list(answers), taken, cause
        self.sent: list[Callable[..., None]] = []

    def produce(self, *_: object, on_delivery: Callable[..., None], **__: object) -> None:
        if len(self.sent) == self._taken:
            raise KafkaException(STATE)
        self.sent.append(on_delivery)

    def poll(self, _: float) -> None:
        if self._answers:
            for number, error in self._answers.pop(0).items():
                self.sent[number](error, Message())

    def begin_transaction(self) -> None:
        raise KafkaException(self._cause)


RESULTS = [
    Result(n, [Output("totals", b"k", b"%d" % n)])  # type: ignore[arg-type] # a record by its number
    for n in range(6)
]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> TransactionClient:
    monkeypatch.setattr(room, "_CAUSE_S", WAIT_S)
    settings = {"transaction.timeout.ms": 10_000, "transactional.id": "billing-1"}
    return TransactionClient(
        settings, "billing", "log", None, is_letter=lambda *_: False, is_unfit=lambda _: False
    )


def blamed(client: TransactionClient, producer: Any) -> object:
    """The record that the client blames after a transaction that fails."""
    client.forget()
    client._producer = producer
    said = client.effects(Commit({}, 1, RESULTS, GroupMetadata(1)))
    assert said is Said.REFUSED
    return None if client.refused is None else client.refused[0]


def test_a_record_that_was_withdrawn_because_of_another_is_not_blamed(
    client: TransactionClient,
) -> None:
    """librdkafka withdraws what waits before it tells which record was refused."""
    producer = Producer({0: None, 4: PURGED, 5: PURGED}, {3: PURGED}, {2: TOO_LARGE}, {1: None})
    assert blamed(client, producer) == 2


def test_the_record_that_a_broken_transaction_does_not_take_is_not_blamed(
    client: TransactionClient,
) -> None:
    """Else the same would be tried for ever."""
    assert blamed(client, Producer({}, {2: TOO_LARGE}, taken=4)) == 2


def test_of_a_refused_batch_one_is_blamed_once_it_was_refused_alone(
    client: TransactionClient,
) -> None:
    batch: Reports = dict.fromkeys(range(1, 5), AHEAD)
    assert blamed(client, Producer({0: None}, batch, taken=5)) is None
    alone: list[Reports] = [{0: None, 1: None}, {2: None}, {3: AHEAD}]
    producer = Producer(*alone)
    assert blamed(client, producer) == 3
    assert len(producer.sent) == 4, "nothing is behind it"


def test_where_no_report_says_which_it_was_it_is_looked_for_among_all(
    client: TransactionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_CAUSE_S", 0.0)
    assert blamed(client, Producer({5: PURGED}, cause=TOO_LARGE)) is None
    assert blamed(client, Producer({0: None}, {1: TOO_LARGE})) == 1


def test_what_is_no_record_s_fault_blames_none(
    client: TransactionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_CAUSE_S", 0.0)
    assert blamed(client, Producer({5: PURGED}, cause=FENCED)) is None
    assert FENCED.str() in client.why
    producer = Producer(dict.fromkeys(range(6)))
    client.forget()
    client._producer = producer  # type: ignore[assignment] # as above
    assert client.effects(Commit({}, 1, RESULTS, GroupMetadata(1))) is Said.DONE
    assert len(producer.sent) == 6, "they are sent together"
