"""The calls of a transactional Producer: how long they may take, and how a broken one is left."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from coop_consumer.core.transaction import Said
from coop_consumer.kafka import transaction_calls as room
from coop_consumer.kafka.transaction_calls import TransactionCalls


class Client:
    """In the place of librdkafka's Producer, where no broker answers: it counts the waiting."""

    def __init__(self, settings: dict[str, Any], **_: object) -> None:
        self.settings = settings
        self.waited_s = 0.0
        self.polled = 0

    def list_topics(self, _: str, timeout_s: float) -> None:
        self.waited_s += timeout_s
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def init_transactions(self, timeout_s: float) -> None:
        self.waited_s += timeout_s
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no broker", False, True))

    def purge(self) -> None: ...

    def poll(self, _: float) -> int:
        self.polled += 1
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", True))

    def flush(self, _: float) -> int:
        raise SystemError("returned a result with an exception set")


def calls_of(timeout_ms: int) -> tuple[TransactionCalls, Client]:
    calls = TransactionCalls({"transactional.id": "t", "transaction.timeout.ms": timeout_ms})
    assert calls.renew() is Said.AGAIN
    client: Any = calls._at_work
    return calls, client


@pytest.mark.parametrize("timeout_ms", [1_000, 4_000, 10_000, 60_000])
def test_without_brokers_a_renewal_ends_before_anybody_leaves_it_behind(
    monkeypatch: pytest.MonkeyPatch, timeout_ms: int
) -> None:
    """That would be an ERROR line, a thread and a Producer each time."""
    monkeypatch.setattr(room, "Producer", Client)
    _, client = calls_of(timeout_ms)
    assert 0 < client.waited_s < 2 * timeout_ms / 1_000


def test_a_fenced_producer_is_left_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """confluent-kafka's `flush` raises a SystemError if it serves a report behind a fence."""
    monkeypatch.setattr(room, "Producer", Client)
    calls, client = calls_of(10_000)
    calls.leave()
    assert client.polled == 1
