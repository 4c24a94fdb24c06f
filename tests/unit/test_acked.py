"""Records that are produced until Kafka has them, in their order, by one Producer or another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from coop_consumer.errors import CoopConsumerError, UnexpectedAnswerError
from coop_consumer.kafka import acked as room
from coop_consumer.kafka.acked import Acked, Delivered
from coop_consumer.kafka.producing import PURGED

WAIT_S = 10.0
PURGE = KafkaError(PURGED[0])
FATAL, TOO_LARGE = KafkaError(KafkaError._FATAL), KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


class Message:
    """A delivered record."""

    def offset(self) -> int:
        return 0


class Queue:
    """A Producer with room for some records."""

    def __init__(self, room_for: int) -> None:
        self._room_for = room_for
        self.taken: list[tuple[int, Delivered]] = []
        self.is_broken = False

    def produce(self, item: int, delivered: Delivered) -> None:
        if self.is_broken:
            raise KafkaException(FATAL)
        if len(self.taken) == self._room_for:
            raise BufferError
        self.taken.append((item, delivered))

    @property
    def items(self) -> list[int]:
        return [item for item, _ in self.taken]

    def report(self, error: KafkaError | None, *, backwards: bool = False) -> None:
        message: Any = Message()
        taken, self.taken = self.taken, []
        for _, delivered in reversed(taken) if backwards else taken:
            delivered(error, message)


class Kafka:
    """In the place of `Producing`: one Producer after another, as the test says."""

    broken: KafkaError | None = None

    def __init__(self, *_: object, served: Callable[[], None], failed: object) -> None:
        del failed
        self.served = served
        self.now = Queue(2)
        self.looked_at = threading.Event()

    @contextmanager
    def producer(self) -> Iterator[Queue]:
        yield self.now
        self.looked_at.set()


@pytest.fixture
def acked(monkeypatch: pytest.MonkeyPatch) -> Acked[int]:
    def produce(producer: Any, item: int, delivered: Delivered) -> None:
        producer.produce(item, delivered)

    monkeypatch.setattr(room, "Producing", Kafka)
    return Acked(
        {},
        "test",
        lambda: "totals",
        produce,
        acknowledged=lambda _: None,
        reason=lambda item, error: UnexpectedAnswerError(f"item {item}", str(error.code())),
        failed=lambda error: UnexpectedAnswerError("the thread", repr(error)),
    )


@pytest.fixture
def kafka(acked: Acked[int]) -> Kafka:
    found: Any = acked._producing
    return found


def looked_again(kafka: Kafka) -> None:
    """Wait until the sender has tried once more."""
    for _ in range(2):  # the first may have begun before
        kafka.looked_at.clear()
        assert kafka.looked_at.wait(WAIT_S)


def test_what_was_withdrawn_comes_before_what_had_no_room(acked: Acked[int], kafka: Kafka) -> None:
    """Else a key's outputs would change their order where a Producer loses its brokers."""
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(acked.send, [1, 2, 3, 4, 5])
        looked_again(kafka)
        before, kafka.now = kafka.now, Queue(10)
        assert before.items == [1, 2]
        looked_again(kafka)
        assert kafka.now.items == []
        before.report(PURGE, backwards=True)
        kafka.served()
        sending.result(WAIT_S)
        assert kafka.now.items == [1, 2, 3, 4, 5]
        waiting = pool.submit(acked.wait)
        kafka.now.report(None)
        kafka.served()
        waiting.result(WAIT_S)


def test_a_new_producer_takes_over_where_nothing_is_under_way(
    acked: Acked[int], kafka: Kafka
) -> None:
    acked.send([1, 2])
    kafka.now.report(None)
    kafka.served()
    kafka.now = Queue(2)
    acked.send([3])
    assert kafka.now.items == [3]


def assert_refused(acked: Acked[int], item: int, error: KafkaError) -> None:
    for call in (acked.wait, lambda: acked.send([9])):
        with pytest.raises(CoopConsumerError, match=f"item {item}: .*{error.code()}"):
            call()


def test_whoever_waits_hears_of_a_refusal_and_nothing_follows_it(
    acked: Acked[int], kafka: Kafka
) -> None:
    acked.send([1, 2])
    kafka.now.report(TOO_LARGE)
    assert_refused(acked, 1, TOO_LARGE)
    assert kafka.now.items == []


def test_whoever_sends_to_a_broken_producer_hears_what_broke_it(
    acked: Acked[int], kafka: Kafka
) -> None:
    """It refuses the next record at once; the report of the one before comes later."""
    acked.send([1, 2])
    kafka.now.is_broken = True
    kafka.looked_at.clear()
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(acked.send, [3])
        assert kafka.looked_at.wait(WAIT_S)
        kafka.now.report(TOO_LARGE)
        kafka.served()
        with pytest.raises(CoopConsumerError, match="item 1"):
            sending.result(WAIT_S)
    assert_refused(acked, 1, TOO_LARGE)


@pytest.mark.parametrize("last", [TOO_LARGE, PURGE])
def test_what_a_broken_producer_withdraws_waits_for_the_report_of_what_broke_it(
    acked: Acked[int], kafka: Kafka, last: KafkaError
) -> None:
    """No other Producer follows it by itself. If all is withdrawn, what it says itself counts."""
    acked.send([1, 2])
    one, two = kafka.now.taken
    kafka.now.taken, kafka.now.is_broken, kafka.broken = [two], True, FATAL
    kafka.now.report(PURGE)
    kafka.served()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(acked.wait)
        kafka.now.taken = [one]
        kafka.now.report(last)
        kafka.served()
        with pytest.raises(CoopConsumerError, match="item 1"):
            waiting.result(WAIT_S)
    assert_refused(acked, 1, FATAL if last is PURGE else last)
