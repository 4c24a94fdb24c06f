"""The embedded broker as a user meets it: it starts, answers, survives, fails and ends as told."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from tests.brokers import MakeTopic

pytestmark = pytest.mark.integration

WAIT_S = 30.0


def produce(config: dict[str, str], topic: str, values: list[bytes]) -> None:
    producer = Producer(config)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(WAIT_S) == 0


def consume(config: dict[str, str], topic: str, group_id: str, count: int) -> list[bytes | None]:
    consumer = Consumer({**config, "group.id": group_id, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(count, WAIT_S)
        return [message.value() for message in messages]
    finally:
        consumer.close()


def test_what_was_produced_is_consumed(bootstrap: str, topic: MakeTopic, group_id: str) -> None:
    orders = topic(1)
    config = {"bootstrap.servers": bootstrap}
    produce(config, orders, [b"one", b"two"])
    assert consume(config, orders, group_id, 2) == [b"one", b"two"]
