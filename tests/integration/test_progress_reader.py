"""The reader of the progress log on the real broker: what it has read may be deleted behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from coop_consumer.core.blocked_read import RunId
from coop_consumer.core.events import LogRead
from coop_consumer.kafka import consuming, progress_log
from coop_consumer.kafka.progress_log import ProgressReader, Readings
from offsets import TenureId, TenureKey, encode_key
from tests.support.journal import WAIT_S
from tests.support.topics import ADMIN_TIMEOUT_S

pytestmark = pytest.mark.integration


class Reading:
    """A reader of a topic with three records, and what it tells."""

    def __init__(self, bootstrap: str, topic: str, **settings: object) -> None:
        client = {"bootstrap.servers": bootstrap}
        producer = Producer(client)
        for number in range(3):
            producer.produce(topic, key=b"%d" % number, value=b"")
        producer.flush(WAIT_S)
        self._told: SimpleQueue[LogRead | Exception] = SimpleQueue()
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        settings = {**client, "group.id": "readers", "enable.partition.eof": True, **dotted}
        self.settings: dict[str, object] = settings
        self.blocked: SimpleQueue[Collection[RunId]] = SimpleQueue()
        self.reader = ProgressReader(
            settings,
            topic,
            self._told.put,
            self._told.put,
            name="reader",
            blocked=self.blocked.put,
        )

    def next(self) -> LogRead:
        """What it tells next."""
        event = self._told.get(timeout=WAIT_S)
        assert isinstance(event, LogRead)
        return event

    def until_complete(self, number: int) -> list[LogRead]:
        """What it tells until this read is complete."""
        events = [self.next()]
        while events[-1].complete < number:
            events.append(self.next())
        return events


@contextmanager
def reading(bootstrap: str, topic: str, **settings: object) -> Iterator[Reading]:
    """For the length of a block."""
    it = Reading(bootstrap, topic, **settings)
    try:
        yield it
    finally:
        it.reader.close()


def offsets_of(events: list[LogRead]) -> list[int]:
    return [record.offset for event in events for record in event.records]


def test_what_is_deleted_before_anybody_asked_where_the_log_begins_is_missed_all_the_same(
    bootstrap: str, admin: AdminClient, topic: Callable[[], str]
) -> None:
    name = topic()
    with reading(bootstrap, name) as it:
        it.reader.follow(0, follow=True)
        followed: list[int] = []
        while len(followed) < 3:
            followed += offsets_of([it.next()])
        [deleted] = admin.delete_records([TopicPartition(name, 0, 2)]).values()
        deleted.result(ADMIN_TIMEOUT_S)
        it.reader.read(0, 1)
        events = it.until_complete(1)
    assert events[0].restart
    assert offsets_of(events) == [2]


def test_where_the_log_ends_is_told_while_a_fetch_waits_for_more(
    bootstrap: str, topic: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    """The answer used to come after that of the fetch, for each partition of the log in turn."""
    with reading(bootstrap, topic(), fetch_wait_max_ms=20_000) as it:
        it.reader.follow(0, follow=True)
        followed: list[int] = []
        while len(followed) < 3:
            followed += offsets_of([it.next()])
        for number in range(1, 4):
            it.reader.read(0, number)
            it.until_complete(number)
    assert not caplog.records, "it could not be asked in time"


def test_a_beginning_that_a_failing_broker_told_wrongly_is_not_believed_for_ever(
    bootstrap: str, topic: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose disk was full did before it halted: all before was taken for deleted."""
    lies: list[int] = []

    class Misled(Consumer):
        def get_watermark_offsets(self, *arguments: object) -> tuple[int, int]:
            low, high = super().get_watermark_offsets(*arguments)
            return lies.pop() if lies else low, high

    monkeypatch.setattr(consuming, "Consumer", Misled)
    with reading(bootstrap, topic()) as it:
        it.reader.read(0, 1)
        assert offsets_of(it.until_complete(1)) == [0, 1, 2]
        lies += [2, 2]  # asked again at once, it says the same
        it.reader.read(0, 2)
        misled = it.until_complete(2)
        it.reader.read(0, 3)
        events = it.until_complete(3)
    assert misled[0].restart
    assert offsets_of(misled) == [2]
    assert events[0].restart
    assert offsets_of(events) == [0, 1, 2]


KEY = encode_key(TenureKey("billing", b"topic-id-of-t---", 0, TenureId("m1", 7, 1)))


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_committed_read_ends_behind_transactions_that_were_undecided_when_it_was_asked_for(
    bootstrap: str, topic: Callable[[], str], is_committed: bool
) -> None:
    """To the last stable offset alone, what others had committed behind it would be missed."""
    name = topic()
    dead = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"dead-{name}"})
    dead.init_transactions(WAIT_S)
    with reading(bootstrap, name, isolation_level="read_committed") as it:
        dead.begin_transaction()
        dead.produce(name, key=KEY, value=b"undecided")
        dead.flush(WAIT_S)
        other = Producer({"bootstrap.servers": bootstrap})
        other.produce(name, key=b"behind", value=b"")
        other.flush(WAIT_S)
        it.reader.read(0, 1)
        assert it.blocked.get(timeout=WAIT_S).runs == {RunId("m1", 7)}, "it says who holds it up"
        if is_committed:
            dead.commit_transaction(WAIT_S)
        else:
            dead.abort_transaction(WAIT_S)
        found = offsets_of(it.until_complete(1))
    assert found == [0, 1, 2, *([3] if is_committed else []), 4]


def test_a_committed_read_that_ends_at_markers_is_complete(
    bootstrap: str, topic: Callable[[], str]
) -> None:
    name = topic()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"tail-{name}"})
    producer.init_transactions(WAIT_S)
    with reading(bootstrap, name, isolation_level="read_committed") as it:
        for _ in range(3):
            producer.begin_transaction()
            producer.produce(name, key=KEY, value=b"aborted")
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S)
        for number in range(1, 4):
            it.reader.read(0, number)
            found = offsets_of(it.until_complete(number))
            assert found == ([0, 1, 2] if number == 1 else [])


def test_an_end_that_is_gone_is_not_waited_for_for_ever(
    bootstrap: str, topic: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """evolution-gaming/kafka-flow#849: the log was cut off below the end that a read looks for."""
    ends = [100]

    class HadMore(Consumer):
        def get_watermark_offsets(self, *arguments: object) -> tuple[int, int]:
            low, high = super().get_watermark_offsets(*arguments)
            return low, high + (ends.pop() if ends else 0)

    monkeypatch.setattr(consuming, "Consumer", HadMore)
    monkeypatch.setattr(progress_log, "_CUT_MS", 200)
    with reading(bootstrap, topic()) as it:
        it.reader.read(0, 1)
        found = it.until_complete(1)
    assert [event.restart for event in found].count(True) == 1, "that is a lost log"
    assert offsets_of(found)[-3:] == [0, 1, 2]


def test_groups_take_turns_with_one_reader_and_each_goes_on_where_it_was(
    bootstrap: str, admin: AdminClient, topic: Callable[[], str], group_id: str
) -> None:
    """Also one whose turn has ended in the middle, before a transaction that was open then."""
    mine, another = topic(), topic()
    client = {"bootstrap.servers": bootstrap}
    strict = {"isolation_level": "read_committed"}
    with reading(bootstrap, mine, **strict) as first, reading(bootstrap, another) as second:
        told: dict[str, SimpleQueue[LogRead]] = {mine: SimpleQueue(), another: SimpleQueue()}
        readings = {mine: Readings(), another: Readings()}
        blocked = threading.Event()
        reader = first.reader

        def turn_to(name: str) -> None:
            reader.turn_to(
                first.settings,
                name,
                readings[name],
                told[name].put,
                lambda _: None,
                refused=lambda _: None,
                blocked=lambda _: blocked.set(),
            )

        def offsets_read(name: str, number: int) -> list[int]:
            events = [told[name].get(timeout=WAIT_S)]
            while events[-1].complete < number:
                events.append(told[name].get(timeout=WAIT_S))
            return offsets_of(events)

        writer = Producer({**client, "transactional.id": group_id})
        writer.init_transactions(WAIT_S)
        writer.begin_transaction()
        writer.produce(mine, key=b"open", value=b"")
        writer.flush(WAIT_S)
        turn_to(mine)
        reader.read(0, 1)
        assert blocked.wait(WAIT_S)
        assert reader.leave()

        turn_to(another)
        reader.read(0, 1)
        assert offsets_read(another, 1) == [0, 1, 2]
        assert reader.leave()

        writer.commit_transaction(WAIT_S)
        writer.begin_transaction()
        writer.produce(another, key=b"more", value=b"")
        writer.commit_transaction(WAIT_S)
        turn_to(mine)
        reader.read(0, 2)
        assert offsets_read(mine, 2) == [0, 1, 2, 3], "no record twice, and none left out"
        assert reader.leave()
        turn_to(another)
        reader.read(0, 2)
        assert offsets_read(another, 2) == [3]
        assert second.reader.leave(), "one that reads for nobody leaves at once"
