"""The fetch thread on the real broker: what it hands on while the member takes some, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.core import actions
from coop_consumer.core.actions import StartStream
from coop_consumer.core.events import Fetched, OutOfRange
from coop_consumer.core.record import RECORD_BYTES
from coop_consumer.kafka import consuming, fetcher
from coop_consumer.kafka.batch_size import BATCH_MAX, BATCH_MIN
from coop_consumer.kafka.fetcher import FetchThread
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.stock import eventually, keys_of

pytestmark = pytest.mark.integration

SHARE = 2_000
"""Records a partition: many batches, and far below what a thread looks ahead."""


class Taker:
    """Takes events as a member does, one after the other."""

    def __init__(self) -> None:
        self._events: SimpleQueue[tuple[Fetched | OutOfRange, Callable[[], None]]] = SimpleQueue()

    def deliver(self, event: Fetched | OutOfRange, taken: Callable[[], None]) -> None:
        self._events.put((event, taken))

    def take(self) -> Fetched:
        event, taken = self._events.get(timeout=WAIT_S)
        assert isinstance(event, Fetched)
        taken()
        return event

    def take_until_end(self, *numbers: int) -> list[Fetched]:
        """Until the end of these streams; their batches join."""
        events: list[Fetched] = []
        while not set(numbers) <= {event.stream for event in events if event.at_end}:
            events.append(self.take())
        for number in numbers:
            batches = [event for event in events if event.stream == number]
            ends = [batch.end for batch in batches]
            assert [batch.start for batch in batches[1:]] == ends[:-1], "I10: a gap"
        return events


@contextmanager
def fetching(orders: Job, taker: Taker, **changed: object) -> Iterator[FetchThread]:
    def never(*arguments: object) -> None:
        pytest.fail(f"nothing of the kind happens here: {arguments}")

    settings = Config.from_dict({**orders.settings, **changed}).data_plane()
    thread = FetchThread(settings, taker.deliver, never, never, missing=never, name="fetch")
    try:
        yield thread
    finally:
        thread.close()


@pytest.fixture
def orders(job: Callable[..., Job]) -> Job:
    """Three partitions that hold the same."""
    made = job(3)
    for number in range(3):
        made.produce(keys_of(SHARE, SHARE), number)
    return made


def look_ahead(thread: FetchThread, orders: Job) -> list[TopicPartition]:
    """Let it look ahead until it has something of every partition; stream n is partition n."""
    places = [TopicPartition(orders.topic, number) for number in range(3)]
    thread.hold(True)
    for number, tp in enumerate(places):
        thread.start_stream(StartStream(tp, number, 0, actions.MAIN))
    eventually(lambda: [tp in thread._ahead for tp in places], all)
    return places


def test_partitions_come_in_turns_to_a_member_that_is_busy(orders: Job) -> None:
    """A broker sends all of a partition before the next one: a busy key there began late."""
    taker = Taker()
    with fetching(orders, taker) as thread:
        look_ahead(thread, orders)
        thread.hold(False)
        events = taker.take_until_end(0, 1, 2)
    assert {event.stream for event in events[:3]} == {0, 1, 2}
    assert sum(len(event.messages) for event in events) == 3 * SHARE


def test_the_first_batch_of_a_stream_tells_where_its_partition_ends(orders: Job) -> None:
    taker = Taker()
    with fetching(orders, taker) as thread:
        for number in range(3):
            tp = TopicPartition(orders.topic, number)
            thread.start_stream(StartStream(tp, number, 5 * number, actions.MAIN))
        events = taker.take_until_end(0, 1, 2)
    firsts = {event.stream: event.log_end for event in reversed(events)}
    assert firsts == dict.fromkeys(range(3), SHARE)
    assert {event.log_end for event in events} <= {-1, SHARE}


def test_however_often_it_is_held_it_looks_only_so_far_ahead(
    job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One partition has nothing, so that there is always a reason to look further."""
    monkeypatch.setattr(fetcher, "_AHEAD_BYTES_MAX", 300 * RECORD_BYTES)
    orders, taker, times = job(2), Taker(), 10
    # However late it is held, this many batches are out at most; and there is more.
    orders.produce(keys_of((times + fetcher._CREDIT + 1) * BATCH_MAX, SHARE), 0)
    with fetching(orders, taker) as thread:
        thread.start_stream(StartStream(TopicPartition(orders.topic, 1), 1, 0, actions.MAIN))
        taker.take_until_end(1)  # while its end waits to be handed on, there is something of it
        thread.start_stream(StartStream(TopicPartition(orders.topic, 0), 0, 0, actions.MAIN))
        for _ in range(times):
            thread.hold(True)
            eventually(lambda: thread._ahead.size >= fetcher._AHEAD_BYTES_MAX)
            waiting = [piece for queue in thread._ahead._queues.values() for piece, _ in queue]
            assert sum(map(len, waiting)) <= 300 + BATCH_MIN
            thread.hold(False)
            taker.take()


def test_what_waits_of_a_stream_that_stops_is_never_handed_on(orders: Job) -> None:
    taker = Taker()
    with fetching(orders, taker) as thread:
        places = look_ahead(thread, orders)
        thread.stop_stream(places[0], 0)
        thread.start_stream(StartStream(places[1], 3, 100, actions.MAIN))
        thread.hold(False)
        events = taker.take_until_end(2, 3)
    assert {event.stream for event in events} == {2, 3}
    [first, *_] = [event for event in events if event.stream == 3]
    assert (first.start, first.messages[0].offset()) == (100, 100)
    assert sum(len(event.messages) for event in events) == 2 * SHARE - 100


def test_streams_that_start_together_are_fetched_from_one_moment_on(
    orders: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch that is under way knows nothing of one that comes later, and may find nothing."""
    assigned: list[int] = []

    class Watched(Consumer):
        def incremental_assign(self, places: list[Place]) -> None:
            assigned.append(len(places))
            super().incremental_assign(places)

    monkeypatch.setattr(consuming, "Consumer", Watched)
    monkeypatch.setattr(fetcher, "_GATHER_S", WAIT_S * 10)
    taker = Taker()
    with fetching(orders, taker) as thread:
        for number in range(3):
            tp = TopicPartition(orders.topic, number)
            thread.start_stream(StartStream(tp, number, 0, False, others_follow=number < 2))
        taker.take_until_end(0, 1, 2)
    assert assigned == [3]


@pytest.mark.parametrize("part", ["key", "header"])
def test_large_keys_and_headers_are_prefetched_in_small_numbers(
    job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    made: list[int] = []

    class Watched(Consumer):
        def __init__(self, settings: dict[str, Any], **named: Any) -> None:
            made.append(settings.get("queued.min.messages", 100_000))
            super().__init__(settings, **named)

    monkeypatch.setattr(consuming, "Consumer", Watched)
    orders, taker, large = job(1), Taker(), b"x" * 20_000
    producer = Producer(orders.settings)
    for number in range(200):
        key, headers = (large, None) if part == "key" else (b"k", [("h", large)])
        producer.produce(orders.topic, b"v%d" % number, key, 0, headers=headers)
    producer.flush(WAIT_S)
    with fetching(orders, taker, **{"queued.max.messages.kbytes": 1_024}) as thread:
        thread.start_stream(StartStream(TopicPartition(orders.topic, 0), 0, 0, actions.MAIN))
        events = taker.take_until_end(0)
    assert [it.offset() for event in events for it in event.messages] == list(range(200))
    assert len(made) == 2
    assert 45 <= made[1] <= 53, "a MiB of them"


def test_a_stream_is_fetched_though_those_that_should_follow_never_come(orders: Job) -> None:
    taker = Taker()
    with fetching(orders, taker) as thread:
        tp = TopicPartition(orders.topic, 0)
        thread.start_stream(StartStream(tp, 0, 0, False, others_follow=True))
        taker.take_until_end(0)


def test_a_stream_that_stops_before_it_is_fetched_is_not(orders: Job) -> None:
    taker = Taker()
    with fetching(orders, taker) as thread:
        for number in range(2):
            tp = TopicPartition(orders.topic, number)
            thread.start_stream(StartStream(tp, number, 0, False, others_follow=number == 0))
            if number == 0:
                thread.stop_stream(tp, number)
        events = taker.take_until_end(1)
    assert {event.stream for event in events} == {1}
