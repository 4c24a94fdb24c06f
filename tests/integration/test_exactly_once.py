"""A member with exactly once: outputs, state and progress are visible together, once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from itertools import groupby
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer import Context, CooperativeConsumer, Record, Worker, WorkerPool
from coop_consumer.config import Config, ExecutorName
from coop_consumer.core.placement import partition_of
from coop_consumer.core.transaction import Said
from coop_consumer.errors import (
    ConfigError,
    MisuseError,
    TopicMissingError,
    TransactionDroppedError,
)
from coop_consumer.kafka import transactor
from coop_consumer.kafka.membership import leave_for
from coop_consumer.kafka.transaction_client import TransactionClient
from tests.support.brokers import MakeTopic
from tests.support.counting import Counts, changelog_of, count_all, counts
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.killed import to_be_killed
from tests.support.sending import Sends, SendsAsync, SendsBatches, places_of
from tests.support.stock import described, eventually, keys_of, records_of
from tests.support.topics import create_topic, set_topic

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]

KEYS = keys_of(400, 23)
ONCE = {"processing.guarantee": "exactly_once"}


def run(worker: type[Worker], orders: Job, executor: ExecutorName = "thread") -> None:
    """Let a member do what is left."""
    workers = 1 if executor == "inline" else 4
    with WorkerPool(
        worker,
        orders.settings,
        [orders.topic],
        workers=workers,
        executor=executor,
        until_caught_up=True,
    ) as pool:
        assert pool.wait(WAIT_S)
    orders.wait_until_empty()


def visible(orders: Job, topic: str, partitions: int = 1) -> list[Message]:
    """What a reader of committed records finds."""
    strict = {**orders.client, "isolation.level": "read_committed"}
    return [it for number in range(partitions) for it in records_of(strict, topic, number)]


def assert_once(outputs: list[tuple[bytes, Any]], produced: list[tuple[int, int]]) -> None:
    """Each record has one output, those of a key in its order."""
    assert sorted(place for _, place in outputs) == sorted(produced)
    by_key = sorted(outputs, key=lambda it: it[0])  # stable: a key has one partition
    for _, mine in groupby(by_key, key=lambda it: it[0]):
        places = [place for _, place in mine]
        assert places == sorted(places)


@pytest.mark.parametrize(
    ("worker", "executor"),
    [
        (Sends, "thread"),
        (Sends, "inline"),
        (Sends, "process"),
        (SendsAsync, "thread"),
        (SendsBatches, "thread"),
        (SendsBatches, "inline"),
        (SendsBatches, "process"),
    ],
)
def test_each_record_has_its_output_once_those_of_a_key_in_its_order(
    job: MakeJob, topic: MakeTopic, worker: type[Worker], executor: ExecutorName
) -> None:
    totals = topic(3)
    orders = job(2, **ONCE, **{"output.topics": totals})
    produced = orders.produce(KEYS)
    run(worker, orders, executor)
    orders.wait_for_lag(0)
    outputs = visible(orders, totals, 3)
    assert_once(places_of(outputs), produced)
    assert all(it.partition() == partition_of(it.key() or b"", 3) for it in outputs)


def test_what_a_killed_member_has_sent_and_not_committed_is_never_seen(
    job: MakeJob, topic: MakeTopic
) -> None:
    """akka/alpakka-kafka#756, #758, #1038: what was in flight at a restart came twice.

    `tests.chaos` does so at any moment, with rebalances as well.
    """
    totals = topic(1)
    orders = job(1, **ONCE, **{"output.topics": totals})
    produced = orders.produce(KEYS)
    with to_be_killed("tests.support.sending", orders.settings, orders.topic, len(KEYS) // 2):
        eventually(lambda: len(visible(orders, totals)), lambda count: count > 20)
    run(Sends, orders)
    assert_once(places_of(visible(orders, totals)), produced)


def test_state_counts_each_record_once_whatever_is_killed(job: MakeJob) -> None:
    orders = job(2, **ONCE)
    orders.produce(KEYS)
    with to_be_killed("tests.support.counting", orders.settings, orders.topic, 100):
        pass
    count_all(orders, Counts())
    committed = [
        (0, it.key() or b"", it.value())
        for it in visible(orders, changelog_of(orders), orders.partitions)
    ]
    assert counts(committed) == Counter(KEYS)


def test_a_dead_letter_is_there_once(job: MakeJob, topic: MakeTopic) -> None:
    totals, letters = topic(1), topic(1)
    own = {"output.topics": totals, "on.failure": "dead_letter", "dead.letter.topic": letters}
    orders = job(1, **ONCE, **own, **{"max.attempts": 2, "attempt.backoff.ms": 10})
    produced = orders.produce(KEYS)

    class FailsOfTen(Sends):
        def process(self, record: Record) -> None:
            super().process(record)
            if record.offset % 10 == 3:
                raise ValueError("no price")

    run(FailsOfTen, orders)
    failed = {place for place in produced if place[1] % 10 == 3}
    found = visible(orders, letters)
    headers = [dict(it.headers() or ()) for it in found]
    assert sorted((0, int(it["coop.offset"])) for it in headers) == sorted(failed)
    assert {it["coop.attempts"] for it in headers} == {b"2"}
    left = [place for place in produced if place not in failed]
    assert_once(places_of(visible(orders, totals)), left)


def test_a_dead_letter_that_the_producer_itself_refuses_parks_its_record_and_nobody_else(
    job: MakeJob, topic: MakeTopic
) -> None:
    """The record is larger than the member's `message.max.bytes`: librdkafka says so at once."""
    totals, letters = topic(1), topic(1)
    own = {"output.topics": totals, "on.failure": "dead_letter", "dead.letter.topic": letters}
    few = {"max.attempts": 1, "circuit.share": 0, "message.max.bytes": 900_000}
    orders = job(1, **ONCE, **own, **few)
    producer = Producer(orders.client)
    for number in range(4):
        producer.produce(orders.topic, b"x" * 950_000 if number == 1 else b"", b"k%d" % number)
    assert producer.flush(WAIT_S) == 0

    class FailsOnce(Sends):
        def process(self, record: Record) -> None:
            if record.offset == 1:
                raise ValueError("no price")
            super().process(record)

    with WorkerPool(FailsOnce, orders.settings, [orders.topic], workers=2):
        eventually(lambda: len(visible(orders, totals)), lambda count: count == 3)
        eventually(orders.parked, lambda offsets: offsets == [1])
    assert visible(orders, letters) == []


def test_an_output_that_a_topic_refuses_after_all_parks_its_record_and_nobody_else(
    job: MakeJob, topic: MakeTopic
) -> None:
    """The topic's limit was lowered since; a batch may be too large where no record is.

    astubbs/parallel-consumer#257: one failure failed records that had succeeded.
    """
    totals, goes_on = topic(1), threading.Event()
    orders = job(1, **ONCE, **{"output.topics": totals})

    class SendsMore(Sends):
        def process(self, record: Record) -> None:
            goes_on.wait(WAIT_S)
            size = 2_000 if record.offset == 5 else 100
            self.context.send(record, self.topic, record.key, str(record.offset).ljust(size))

    def offsets() -> list[int]:
        return sorted(int(it.value() or b"") for it in visible(orders, totals))

    with WorkerPool(SendsMore, orders.settings, [orders.topic], workers=4) as pool:
        eventually(pool.assignment, bool)
        set_topic(orders.admin, totals, "max.message.bytes", "500")
        orders.produce([f"k{number}" for number in range(30)])
        goes_on.set()
        eventually(lambda: len(offsets()), lambda count: count >= 29)
        assert offsets() == [number for number in range(30) if number != 5]
        eventually(orders.parked, lambda offsets: offsets == [5])


def test_a_topic_that_is_gone_for_a_moment_takes_what_was_sent_once_it_is_back(
    job: MakeJob, topic: MakeTopic
) -> None:
    totals = topic(1)
    orders = job(1, **ONCE, **{"output.topics": totals})
    orders.produce(["a"])
    with WorkerPool(Sends, orders.settings, [orders.topic], workers=1) as pool:
        eventually(lambda: len(visible(orders, totals)), lambda count: count == 1)
        orders.admin.delete_topics([totals])[totals].result(WAIT_S)
        orders.produce(["b", "c"])
        eventually(lambda: pool.counters.finished, lambda count: count == 3)
        create_topic(orders.admin, totals)
        eventually(lambda: len(visible(orders, totals)), lambda count: count == 2)


def test_a_topic_that_stays_away_ends_the_member_and_nothing_that_rests_on_it_counts(
    job: MakeJob,
    admin: AdminClient,
    group_id: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(transactor, "_PATIENCE_S", 1.0)  # not 30 s
    others, totals = f"{group_id}-others", f"{group_id}-totals"
    for name in (others, totals):
        create_topic(admin, name)
    orders = job(1, **ONCE, **{"output.topics": f"{others}, {totals}"})
    orders.produce(["a"])

    class SendsTwice(Sends):
        def setup(self, context: Context) -> None:
            self.context = context

        def process(self, record: Record) -> None:
            for self.topic in (others, totals):
                super().process(record)

    pool = WorkerPool(SendsTwice, orders.settings, [orders.topic], workers=1)
    pool.start()
    eventually(lambda: len(visible(orders, totals)), lambda count: count == 1)
    admin.delete_topics([totals])[totals].result(WAIT_S)
    orders.produce(["b", "c"])
    with pytest.raises(TopicMissingError, match=f"topic {totals}.*Nothing is written"):
        pool.wait(WAIT_S)
    # Brokers take no partition of a transaction while one is missing, so either may time out first.
    assert "was aborted (topic " in caplog.text
    assert "Purged" not in caplog.text, "not with what failed behind it"
    assert len(visible(orders, others)) == 1
    assert orders.log.partition(orders.topic, 0).progress().stable == 1


def taken(consumer: CooperativeConsumer, count: int) -> list[Record]:
    """So many records, of as many keys."""
    found: list[Record] = []
    while len(found) < count:
        record = consumer.poll(WAIT_S)
        assert record is not None
        found.append(record)
    return found


def test_a_block_of_a_consumer_is_one_transaction_or_none(job: MakeJob, topic: MakeTopic) -> None:
    totals = topic(1)
    orders = job(2, **ONCE, **{"output.topics": totals})
    orders.produce(["a", "b", "c", "d"])
    with CooperativeConsumer(orders.settings) as consumer:
        consumer.subscribe([orders.topic])
        first, second, third, fourth = taken(consumer, 4)
        with pytest.raises(ZeroDivisionError), consumer.transaction() as t:  # noqa: PT012
            t.send(first, totals, "k", "never")
            t.done(first)
            raise ZeroDivisionError
        with consumer.transaction(wait=True) as t:
            t.send(first, totals, "k", "one")
            t.done(first)
            t.send(second, totals, "k", "two")
            t.done(second)
        assert [it.value() for it in visible(orders, totals)] == [b"one", b"two"]
        with pytest.raises(MisuseError, match="is not done in it"), consumer.transaction() as t:
            t.send(third, totals, "k", "three")
        with pytest.raises(MisuseError, match="not in hand"), consumer.transaction() as t:
            t.done(first)
        with pytest.raises(MisuseError, match="over"):
            t.done(third)
        consumer.send(third, totals, "k", "three")
        consumer.done(third)
        consumer.failed(fourth, ValueError("no price"))
        consumer.commit()
        assert [it.value() for it in visible(orders, totals)] == [b"one", b"two", b"three"]


def test_a_block_that_waits_says_if_it_is_not_committed(job: MakeJob, topic: MakeTopic) -> None:
    totals = topic(1)
    orders = job(1, **ONCE, **{"output.topics": totals})
    orders.produce(["a", "b"])
    with CooperativeConsumer(orders.settings) as consumer:
        consumer.subscribe([orders.topic])
        first, second = taken(consumer, 2)
        set_topic(orders.admin, totals, "max.message.bytes", "500")
        with pytest.raises(TransactionDroppedError), consumer.transaction(wait=True) as t:  # noqa: PT012
            t.send(first, totals, "k", "one")
            t.done(first)
            t.send(second, totals, "k", "two".ljust(2_000))
            t.done(second)
        (again,) = taken(consumer, 1)
        assert again.offset == 0, "the other one has failed"
        with consumer.transaction(wait=True) as t:
            t.send(again, totals, "k", "one")
            t.done(again)
        assert [it.value() for it in visible(orders, totals)] == [b"one"]
        assert orders.parked() == [1]


def test_a_block_is_not_split_where_a_topic_refuses_another_record(
    job: MakeJob, topic: MakeTopic
) -> None:
    """The refused record and one of the block are of one partition, which goes back."""
    totals = topic(1)
    orders = job(2, **ONCE, **{"output.topics": totals, "commit.interval.ms": 60_000})
    orders.produce(keys_of(20, 20))
    with CooperativeConsumer(orders.settings) as consumer:
        consumer.subscribe([orders.topic])
        found = taken(consumer, 20)
        first = next(it for it in found if it.partition == 0)
        second, refused = [it for it in found if it.partition == 1][:2]
        set_topic(orders.admin, totals, "max.message.bytes", "500")
        consumer.send(refused, totals, "k", "large".ljust(2_000))
        consumer.done(refused)
        with pytest.raises(TransactionDroppedError), consumer.transaction(wait=True) as t:  # noqa: PT012
            for record, value in ((first, "one"), (second, "two")):
                t.send(record, totals, "k", value)
                t.done(record)
        assert visible(orders, totals) == []


def test_a_block_of_a_member_that_was_put_out_says_that_it_is_not_committed(
    job: MakeJob, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    totals = topic(1)
    orders = job(1, **ONCE, **{"output.topics": totals})
    orders.produce(["a"])
    real, ids = TransactionClient.fence_entry, []

    def fence_entry(client: TransactionClient, action: Any) -> Said:
        if action.results and not ids:
            ids.extend(it.member_id for it in described(orders.admin, orders.group).members)
            leave_for(Config.from_dict(orders.settings).membership(), ids[0])
        return real(client, action)

    monkeypatch.setattr(TransactionClient, "fence_entry", fence_entry)
    with CooperativeConsumer(orders.settings) as consumer:
        consumer.subscribe([orders.topic])
        for ends in (pytest.raises(TransactionDroppedError), nullcontext()):
            (record,) = taken(consumer, 1)
            with ends, consumer.transaction(wait=True) as t:
                t.send(record, totals, "k", "one")
                t.done(record)
        assert [it.value() for it in visible(orders, totals)] == [b"one"]


def test_assign_needs_no_group_and_so_has_no_transactions(job: MakeJob) -> None:
    orders = job(1, **ONCE)
    with (
        CooperativeConsumer(orders.settings) as consumer,
        pytest.raises(MisuseError, match="exactly_once needs a group"),
    ):
        consumer.assign({TopicPartition(orders.topic, 0): []})


def test_a_time_out_that_brokers_do_not_accept_is_refused_at_the_start(job: MakeJob) -> None:
    orders = job(1, **ONCE, **{"transaction.timeout.ms": 86_400_000})
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms=86400000 is above"):
        WorkerPool(Counts, orders.settings, [orders.topic]).start()
