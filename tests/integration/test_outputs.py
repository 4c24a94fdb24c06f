"""What handlers send is in Kafka before their records count as done, once and in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer import CooperativeConsumer, Record, Worker, WorkerPool
from coop_consumer.config import ExecutorName
from coop_consumer.core.placement import partition_of
from coop_consumer.errors import (
    ConfigError,
    MisuseError,
    RecordTooLargeError,
    TopicMissingError,
)
from tests.support.brokers import MakeTopic
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.killed import to_be_killed
from tests.support.sending import Sends, SendsAndDies, SendsAsync, SendsBatches, places_of
from tests.support.stock import eventually, keys_of, records_of
from tests.support.topics import create_topic, set_topic

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]

KEYS = keys_of(400, 23)
IN_2100_MS = 4_102_444_800_000


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


def sent(orders: Job, totals: str, partitions: int = 1) -> list[tuple[bytes, tuple[int, int]]]:
    """What is in the topic of outputs, each where Java's producers would put its key."""
    found = [it for n in range(partitions) for it in records_of(orders.client, totals, n)]
    assert all(it.partition() == partition_of(it.key() or b"", partitions) for it in found)
    return places_of(found)


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
    orders = job(2, **{"output.topics": totals})
    produced = orders.produce(KEYS)
    run(worker, orders, executor)
    orders.wait_for_lag(0)
    outputs = sent(orders, totals, 3)
    assert sorted(place for _, place in outputs) == sorted(produced)
    by_key = sorted(outputs, key=lambda it: it[0])  # stable: a key has one partition
    for _, mine in groupby(by_key, key=lambda it: it[0]):
        places = [place for _, place in mine]
        assert places == sorted(places)


def test_what_a_killed_member_has_sent_and_not_committed_comes_again_and_nothing_is_missing(
    job: MakeJob, topic: MakeTopic
) -> None:
    totals = topic(1)
    orders = job(1, **{"output.topics": totals, "commit.max.records": 10})
    produced = orders.produce(KEYS)
    with to_be_killed("tests.support.sending", orders.settings, orders.topic, len(KEYS)):
        eventually(lambda: len(sent(orders, totals)), lambda count: count >= len(KEYS) - 30)
    run(Sends, orders)
    places = [place for _, place in sent(orders, totals)]
    assert set(places) == set(produced)
    assert len(places) <= len(produced) + 30


def test_a_failed_attempts_outputs_are_never_seen(job: MakeJob, topic: MakeTopic) -> None:
    totals = topic(1)
    own = {"output.topics": totals, "attempt.backoff.ms": 10, "max.attempts": 5, "circuit.share": 0}
    orders = job(1, **own)
    orders.produce(KEYS[:20])

    class FailsTwice(Sends):
        def process(self, record: Record) -> None:
            super().process(record)
            if record.attempt < 3:
                raise ValueError("not yet")

    run(FailsTwice, orders)
    messages = records_of(orders.client, totals)
    attempts = [dict(message.headers() or ())["attempt"] for message in messages]
    assert attempts == [b"3"] * 20


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_what_a_child_has_sent_before_it_dies_is_there_once(
    job: MakeJob, topic: MakeTopic, guarantee: str
) -> None:
    """Its outputs go to the parent before their record counts; those of the last one are lost."""
    totals = topic(1)
    own = {"output.topics": totals, "processing.guarantee": guarantee, "circuit.share": 0}
    orders = job(1, **own, **{"attempt.backoff.ms": 10})
    produced = orders.produce(KEYS)
    run(SendsAndDies, orders, "process")
    strict = {**orders.client, "isolation.level": "read_committed"}
    found = records_of(strict, totals)
    assert sorted(place for _, place in places_of(found)) == sorted(produced)
    attempts = {
        place: dict(it.headers() or ())["attempt"]
        for it, (_, place) in zip(found, places_of(found), strict=True)
    }
    assert {offset for (_, offset), it in attempts.items() if it == b"2"} == {150, 350}


def test_a_consumer_sends_for_records_in_hand(job: MakeJob, topic: MakeTopic) -> None:
    totals = topic(1)
    orders = job(1, **{"output.topics": [totals]})
    orders.produce(["a", "b"])
    with CooperativeConsumer(orders.settings) as consumer:
        consumer.subscribe([orders.topic])
        with pytest.raises(MisuseError, match=r"processing\.guarantee"):
            consumer.transaction()
        first = consumer.poll(WAIT_S)
        assert first is not None
        consumer.send(first, totals, first.key, "of the attempt that fails")
        consumer.failed(first, ValueError("once more"))
        with pytest.raises(MisuseError, match="not in hand"):
            consumer.send(first, totals, first.key, "late")
        done = 0
        while done < 2:
            record = consumer.poll(WAIT_S)
            assert record is not None
            with pytest.raises(MisuseError, match="topic 'elsewhere' is not declared"):
                consumer.send(record, "elsewhere", record.key, "x")
            consumer.send(record, totals, record.key, f"{record.partition}/{record.offset}")
            consumer.done(record)
            done += 1
        consumer.commit(WAIT_S)
        assert sorted(place for _, place in sent(orders, totals)) == [(0, 0), (0, 1)]


def test_a_topic_that_is_not_there_or_is_one_of_ours_is_told_at_the_start(job: MakeJob) -> None:
    orders = job(1, **{"output.topics": "not-there"})
    pool = WorkerPool(Sends, orders.settings, [orders.topic])
    with pytest.raises(TopicMissingError, match="not-there") as missing:
        pool.start()
    assert "Nothing is written" in str(missing.value)
    for name in ("__individual_commit_offsets", "__consumer_offsets"):
        settings: dict[str, Any] = {**orders.settings, "output.topics": name}
        with pytest.raises(ConfigError, match=r"output\.topics"):
            WorkerPool(Sends, settings, [orders.topic])


def test_what_the_topic_would_not_take_fails_its_record_where_it_is_sent(
    job: MakeJob, topic: MakeTopic
) -> None:
    totals = topic(1, config={"cleanup.policy": "compact", "max.message.bytes": "5000"})
    orders = job(1, **{"output.topics": totals, "max.attempts": 1, "on.failure": "skip"})
    orders.produce(["a", "b", "c"])
    bad: list[tuple[bytes | None, bytes]] = [(b"k", b"x" * 5_000), (None, b"x")]
    raised: list[BaseException] = []

    class SendsBadly(Sends):
        def process(self, record: Record) -> None:
            if record.offset < len(bad):
                try:
                    self.context.send(record, self.topic, *bad[record.offset])
                except (RecordTooLargeError, MisuseError) as error:
                    raised.append(error)
                    raise
            super().process(record)

    run(SendsBadly, orders)
    assert [place for _, place in sent(orders, totals)] == [(0, 2)]
    told = sorted(map(str, raised))
    assert len(told) == 2
    assert f"topic {totals} is compacted, so each record needs a key" in told[0]
    assert f"topic {totals}" in told[1]
    assert "it takes 5000" in told[1]


def test_a_topic_that_is_deleted_ends_the_member_which_says_so(
    job: MakeJob, admin: AdminClient, group_id: str
) -> None:
    totals = f"{group_id}-totals"
    create_topic(admin, totals)
    soon = {"topic.metadata.propagation.max.ms": 500}  # 30 s by default
    orders = job(1, **{"output.topics": totals}, **soon)

    class SendsTotals(Sends):
        topic = totals

    pool = WorkerPool(SendsTotals, orders.settings, [orders.topic], workers=1)
    pool.start()
    orders.produce(["a"])
    eventually(lambda: len(sent(orders, totals)) == 1)
    admin.delete_topics([totals])[totals].result(WAIT_S)
    orders.produce(["a"] * 10)
    with pytest.raises(TopicMissingError, match=f"topic {totals}.*Nothing is written"):
        pool.wait(WAIT_S)


@pytest.mark.parametrize("policy", ["park", "skip"])
def test_an_output_that_a_topic_refuses_after_all_fails_its_record_and_nobody_else(
    job: MakeJob, topic: MakeTopic, policy: str
) -> None:
    """The topic's limit was lowered since; a batch may be too large where no record is."""
    totals, goes_on = topic(1), threading.Event()
    orders = job(1, **{"output.topics": totals, "on.failure": policy})

    class SendsMore(Sends):
        def process(self, record: Record) -> None:
            goes_on.wait(WAIT_S)
            size = 2_000 if record.offset == 5 else 100
            self.context.send(record, self.topic, record.key, str(record.offset).ljust(size))

    def written() -> list[int]:
        return [int(it.value() or b"") for it in records_of(orders.client, totals)]

    with WorkerPool(SendsMore, orders.settings, [orders.topic], workers=4) as pool:
        eventually(pool.assignment, bool)
        set_topic(orders.admin, totals, "max.message.bytes", "500")
        orders.produce(["a"] * 3 + [f"k{number}" for number in range(30)])
        goes_on.set()
        goal = 33 if policy == "skip" else 32
        eventually(lambda: pool.counters.committed, lambda count: count >= goal)
        assert set(written()) == set(range(33)) - {5}
        assert (pool.counters.skipped, pool.counters.failures) == (policy == "skip", 1)
    # What was done and not committed comes again, so what is written may be there once more.
    assert list(dict.fromkeys(it for it in written() if it < 3)) == [0, 1, 2]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("kind", ["ahead", "large"])
def test_of_many_outputs_a_broker_refuses_some_and_only_their_records_fail(
    job: MakeJob, topic: MakeTopic, guarantee: str, kind: str
) -> None:
    """It takes no time more than an hour ahead. librdkafka tells it of all records of the batch.

    It hears of that, and of a size, before all outputs of the commit are handed to it.
    """
    totals, count, refused, goes_on = topic(1), 10_000, [5, 6_000], threading.Event()
    own = {"output.topics": totals, "processing.guarantee": guarantee, "commit.interval.ms": 2_000}
    orders = job(1, **own)
    orders.produce([f"k{number}" for number in range(count)])

    class SendsWrongOnes(Sends):
        def process(self, record: Record) -> None:
            goes_on.wait(WAIT_S)
            is_wrong = record.offset in refused
            at_ms = IN_2100_MS if is_wrong and kind == "ahead" else None
            value = str(record.offset).ljust(5_000 if is_wrong and kind == "large" else 100)
            self.context.send(record, self.topic, record.key, value, timestamp_ms=at_ms)

    with WorkerPool(SendsWrongOnes, orders.settings, [orders.topic], workers=4) as pool:
        eventually(pool.assignment, bool)
        if kind == "large":
            set_topic(orders.admin, totals, "max.message.bytes", "3000")
        goes_on.set()
        eventually(lambda: pool.counters.committed, lambda done: done >= count - len(refused))
        eventually(orders.parked, lambda offsets: offsets == refused)
        assert pool.counters.failures == len(refused)
    written = {int(it.value() or b"") for it in records_of(orders.client, totals)}
    assert written == set(range(count)) - set(refused)


def test_no_output_follows_a_refused_one_of_its_key(job: MakeJob, topic: MakeTopic) -> None:
    totals, goes_on = topic(1), threading.Event()
    orders = job(1, **{"output.topics": totals})

    class SendsMore(Sends):
        def process(self, record: Record) -> None:
            goes_on.wait(WAIT_S)
            size = 2_000 if record.offset == 5 else 100
            self.context.send(record, self.topic, record.key, str(record.offset).ljust(size))

    with WorkerPool(SendsMore, orders.settings, [orders.topic], workers=1) as pool:
        eventually(pool.assignment, bool)
        set_topic(orders.admin, totals, "max.message.bytes", "500")
        orders.produce(["a"] * 10)
        goes_on.set()
        eventually(lambda: pool.counters.failures, bool)
        eventually(lambda: pool.counters.committed, lambda count: count >= 5)
    written = {int(it.value() or b"") for it in records_of(orders.client, totals)}
    assert written == {0, 1, 2, 3, 4}
