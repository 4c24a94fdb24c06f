"""The writer of the changelogs: what it takes of handlers, and what it sends for a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from confluent_kafka import KafkaError

from assignors import WHOLE, TopicPartition
from coop_consumer.config import Config
from coop_consumer.core.effects import Result
from coop_consumer.core.record import Record
from coop_consumer.errors import (
    AuthorizationError,
    MemberLostError,
    MisuseError,
    RecordTooLargeError,
)
from coop_consumer.kafka import acked
from coop_consumer.state.shard import Shard, Write
from coop_consumer.state.store import Memory, Store
from coop_consumer.state.writer import ChangelogWriter
from tests.unit.core_member import TableMember, keys_in

CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})
SIZE_MAX = 1_000
WAIT_S = 10.0
KEY = keys_in(WHOLE, 1)[0]

pytest.importorskip("rocksdict")


class Message:
    """A delivered record."""

    def offset(self) -> int:
        return 0


class Kafka:
    """In the place of `Producing`: reports at once, as the test says."""

    broken: KafkaError | None = None

    def __init__(self, *_: object, served: Callable[[], None], failed: object) -> None:
        del failed
        self._served = served
        self.sent: list[tuple[bytes, bytes | None]] = []
        self._news: SimpleQueue[None] = SimpleQueue()
        self.errors: list[KafkaError | None] = []

    def start(self) -> None:
        """Nothing runs by itself."""

    @contextmanager
    def producer(self) -> Iterator[Any]:
        yield self

    def produce(
        self, _: str, value: bytes | None, key: bytes, __: int, *, on_delivery: Callable[..., None]
    ) -> None:
        self.sent.append((key, value))
        on_delivery(self.errors.pop(0) if self.errors else None, Message())
        self._news.put(None)

    def report(self, count: int) -> None:
        """Serve, once so many records have been sent since the last time."""
        for _ in range(count):
            self._news.get(timeout=WAIT_S)
        self._served()


class Run:
    """A run of the member."""

    name, alive = "m1", True

    def is_alive(self) -> bool:
        return self.alive


@pytest.fixture
def member() -> TableMember:
    member = TableMember()
    member.assign(WHOLE)
    return member


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    tp = TopicPartition("t", 0)
    shard = Shard(tp, 1, Store(tmp_path / "store", Memory(), b"c" * 16))
    shard.hold((WHOLE,), 0, 0)
    return shard


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> ChangelogWriter:
    monkeypatch.setattr(acked, "Producing", Kafka)
    writer = ChangelogWriter(CONFIG, lambda: None)
    writer.start(SIZE_MAX)
    return writer


def kafka(writer: ChangelogWriter) -> Kafka:
    found: Any = writer._acked._producing
    return found


def results(*writes: Write) -> list[Result]:
    """Each write, as that of a finished record."""
    record: Any = None
    return [Result(record, [write]) for write in writes]


def at_work(member: TableMember) -> Record:
    """A record that a handler is at."""
    member.produce(KEY)
    (offset,) = member.start()
    return next(record for _, record, _ in member.running.values() if record.offset == offset)


def test_a_finished_record_changes_no_state(
    writer: ChangelogWriter, member: TableMember, shard: Shard
) -> None:
    record = at_work(member)
    writer.put(record, Write(shard, b"k", b"1"))
    member.finish(0)
    with pytest.raises(MisuseError, match="offset 0 is finished"):
        writer.put(record, Write(shard, b"k", b"2"))
    assert shard._pending[b"k"].value == b"1"


def test_what_no_changelog_takes_is_refused_where_the_handler_can_still_choose(
    writer: ChangelogWriter, member: TableMember, shard: Shard
) -> None:
    record = at_work(member)
    with pytest.raises(RecordTooLargeError):
        writer.put(record, Write(shard, b"k", b"x" * SIZE_MAX))
    assert not record.tenure.effects


def test_what_a_failed_attempt_has_put_is_undone_and_the_one_before_is_found_again(
    writer: ChangelogWriter, member: TableMember, shard: Shard
) -> None:
    shard.put(Write(shard, b"k", b"earlier record's"))
    record = at_work(member)
    for value in (b"first", b"second"):
        writer.put(record, Write(shard, b"k", value))
    member.fail(0)
    assert shard._pending[b"k"].value == b"earlier record's"
    with pytest.raises(MisuseError, match="this attempt has failed"):
        writer.put(record, Write(shard, b"k", b"late"))
    assert shard._pending[b"k"].value == b"earlier record's"


def test_of_a_put_that_is_undone_once_the_one_before_is_stored_nothing_waits(
    writer: ChangelogWriter, member: TableMember, shard: Shard
) -> None:
    earlier = Write(shard, b"k", b"earlier record's")
    shard.put(earlier)
    record = at_work(member)
    writer.put(record, Write(shard, b"k", b"first"))
    shard.settle([(earlier, 7)])
    member.fail(0)
    assert shard._pending == {}
    assert shard.stored(b"k") == b"earlier record's"


def test_of_a_key_only_the_last_state_of_a_commit_is_sent(
    writer: ChangelogWriter, shard: Shard
) -> None:
    writes = [Write(shard, b"k", b"1"), Write(shard, b"j", b"2"), Write(shard, b"k", b"3")]
    for write in writes:
        shard.put(write)
    with ThreadPoolExecutor(1) as aside:
        done = aside.submit(writer.write, results(*writes))
        kafka(writer).report(2)
        done.result(WAIT_S)
    assert sorted(kafka(writer).sent) == [(b"j", b"2"), (b"k", b"3")]
    assert (shard.stored(b"k"), shard._pending) == (b"3", {})


def test_what_was_put_before_all_ranges_were_lost_is_never_sent(
    writer: ChangelogWriter, member: TableMember, shard: Shard
) -> None:
    record, write = at_work(member), Write(shard, b"k", b"1")
    writer.put(record, write)
    shard.release((WHOLE,), lost=True)
    writer.lose_all()
    shard.hold((WHOLE,), 0, 0)  # they come back before the write is to be sent
    with pytest.raises(MemberLostError):
        writer.write(results(write))
    assert kafka(writer).sent == []


def test_who_may_be_no_member_any_more_neither_puts_nor_sends(
    writer: ChangelogWriter, member: TableMember, shard: Shard
) -> None:
    run, record, write = Run(), at_work(member), Write(shard, b"k", b"1")
    writer.serve_run(run)
    writer.put(record, write)
    run.alive = False
    with pytest.raises(MemberLostError):
        writer.put(record, Write(shard, b"k", b"2"))
    with pytest.raises(MemberLostError):
        writer.write(results(write))


def test_after_a_refused_write_nothing_is_written_ever(
    writer: ChangelogWriter, shard: Shard
) -> None:
    kafka(writer).errors = [KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)]
    for _ in range(2):
        with pytest.raises(AuthorizationError):
            writer.write(results(Write(shard, b"k", b"1")))
    assert len(kafka(writer).sent) == 1


def test_what_a_replaced_producer_gave_back_is_sent_again(
    writer: ChangelogWriter, shard: Shard
) -> None:
    kafka(writer).errors = [KafkaError(KafkaError._PURGE_QUEUE)]
    with ThreadPoolExecutor(1) as aside:
        done = aside.submit(writer.write, results(Write(shard, b"k", b"1")))
        kafka(writer).report(1)
        kafka(writer).report(1)
        done.result(WAIT_S)
    assert kafka(writer).sent == [(b"k", b"1")] * 2
    assert shard.stored(b"k") == b"1"
