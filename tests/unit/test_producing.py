"""A Producer that is served and replaced: what its thread does where librdkafka fails it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from coop_consumer.kafka import producing as room
from coop_consumer.kafka.producing import Producing

WAIT_S = 10.0


class Client:
    """In the place of librdkafka's Producer: raises what it is told to, and notes its end."""

    def __init__(self, settings: dict[str, Any], **_: object) -> None:
        self.settings = settings
        self.raises: BaseException | None = None
        self.breaks: list[BaseException] = []
        self.ended: list[str] = []

    def poll(self, _: float) -> int:
        if self.raises is not None:
            error, self.raises = self.raises, None
            raise error
        return 1

    def flush(self, _: float) -> int:
        self.ended.append("flush")
        if self.breaks:
            raise self.breaks.pop()
        return 0

    def purge(self) -> None:
        self.ended.append("purge")

    def __len__(self) -> int:
        return 0


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Producing]]:
    monkeypatch.setattr(room, "Producer", Client)
    made: list[Producing] = []

    def start(**more: Any) -> Producing:
        made.append(Producing({"linger.ms": 0}, lambda: "", "test-producing", **more))
        return made[-1]

    yield start
    for one in made:
        if one._thread.is_alive():
            one.close(WAIT_S)


def client(producing: Producing) -> Client:
    with producing.producer() as found:
        at_work: Any = found
        return at_work


def test_a_thread_that_ends_though_it_should_go_on_says_so(make: Callable[..., Producing]) -> None:
    told: Future[Exception] = Future()
    producing = make(failed=told.set_result)
    error = RuntimeError("a report that cannot be taken")
    client(producing).raises = error
    producing.start()
    assert told.result(WAIT_S) is error


def test_a_broken_producer_is_served_on_and_says_why(make: Callable[..., Producing]) -> None:
    rounds: threading.Semaphore = threading.Semaphore(0)
    producing = make(served=rounds.release)
    client(producing).raises = KafkaException(KafkaError(KafkaError._FATAL))
    producing.start()
    for _ in range(3):
        assert rounds.acquire(timeout=WAIT_S)
    assert producing.broken is not None
    assert producing.broken.code() == KafkaError._FATAL


@pytest.mark.parametrize(
    "breaks", [[], [KafkaException(KafkaError(KafkaError._FATAL))], [SystemError("in a report")]]
)
def test_a_replaced_producer_gets_its_time_before_the_rest_is_taken_back(
    make: Callable[..., Producing], breaks: list[BaseException]
) -> None:
    replaced: Future[Client] = Future()

    def replace() -> None:
        if not replaced.done():
            before = client(producing)
            before.breaks = breaks
            producing.replace({"batch.size": 1})
            replaced.set_result(before)

    producing = make(served=replace)
    producing.start()
    assert replaced.result(WAIT_S).ended == ["flush", "purge", "flush"]
    assert client(producing).settings == {"batch.size": 1}
