"""Topics that change under a living group: made again, deleted, widened, emptied by retention."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka import KafkaConsumer

from assignors import TopicPartition
from coop_consumer import Config, CooperativeConsumer
from coop_consumer.admin.planned import PlannedGroup
from coop_consumer.errors import (
    DataLossError,
    ExitCode,
    ProgressLogLostError,
    TopicRecreatedError,
)
from offsets import OffsetRange
from tests.support import stock
from tests.support.brokers import MakeBroker
from tests.support.job import Job
from tests.support.journal import WAIT_S, Journal, lost, repeated
from tests.support.pools import Gate, Handler, Pool, at_once
from tests.support.stock import abort, ends, eventually, keys_of, records_of
from tests.support.topics import create_topic, truncate

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
WATCHFUL = {"topics.watch.interval.ms": 1_000}
BLIND = {"metadata.max.age.ms": 300_000}
"""What is noticed in spite of it, the watch has noticed."""


def delete(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic])[topic].result(WAIT_S)


def recreate(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    """Make a topic again, and wait until the broker knows the new one."""
    before = stock.topic_id(admin, topic)
    delete(admin, topic)

    def is_new() -> bool:
        new = NewTopic(topic, partitions, config=config)
        with suppress(KafkaException):  # the old one is there yet, or a member was faster
            admin.create_topics([new])[topic].result(WAIT_S)
        return stock.topic_id(admin, topic) != before

    eventually(partial(settled, is_new))


def recreate_empty(admin: AdminClient, topic: str) -> None:
    """The same for a topic that nobody writes to: wait until the old records are gone as well."""
    recreate(admin, topic)
    eventually(partial(settled, lambda: set(ends(admin, topic, 1).values()) == {0}))


def log_ends(admin: AdminClient, topic: str) -> Iterable[tuple[tuple[str, int], int]]:
    count = len(admin.list_topics(topic, WAIT_S).topics[topic].partitions)
    return ends(admin, topic, count).items()


def settled(ask: Callable[[], bool]) -> bool:
    """What a broker says that is not in the middle of something."""
    try:
        return ask()
    except KafkaException:
        return False


@contextmanager
def members(
    job: Job, count: int, *, handler: Handler = at_once
) -> Iterator[tuple[Journal, list[Pool]]]:
    """So many pools of a group, which write to one journal."""
    journal = Journal()
    with ExitStack() as running:
        pools = [
            Pool(job.settings, job.topic, journal=journal, handler=handler) for _ in range(count)
        ]
        for pool in pools:
            running.enter_context(pool.pool)
        for pool in pools:
            pool.wait_for_ranges()
        yield journal, pools


# -- the progress topic ----------------------------------------------------------------------------


def test_a_progress_topic_deleted_under_living_members_costs_repeats_and_they_go_on(
    job: MakeJob, history: str, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job(partitions=2, **WATCHFUL, **{"progress.topic": history})
    mirrored = orders.produce(keys_of(200, 40))
    with members(orders, 3) as (journal, pools):
        journal.wait_for(mirrored)
        orders.wait_for_lag(0)
        names = [pool.pool.name for pool in pools]
        delete(admin, history)
        eventually(lambda: history in admin.list_topics(timeout=WAIT_S).topics)
        journal.wait_for(orders.produce(keys_of(200, 40)))
        orders.wait_for_lag(0)
        # A member that hears of the loss while it closes ends by it.
        eventually(lambda: all(f"member {it}: a new run begins" in caplog.text for it in names))
        assert [pool.pool.name for pool in pools] == names
    assert repeated(row for row in journal.rows if row.place in set(mirrored)) == 0


def test_a_progress_topic_emptied_under_living_members_keeps_nobody_from_beginning(
    job: MakeJob, history: str, admin: AdminClient
) -> None:
    """The lead has read the epoch's beginning long ago; who comes later never sees it."""
    orders = job(partitions=1, **WATCHFUL, **{"progress.topic": history})
    early = orders.produce(keys_of(100, 20))
    with members(orders, 2) as (journal, _):
        journal.wait_for(early)
        orders.wait_for_lag(0)
        truncate(admin, history, {number: end for (_, number), end in log_ends(admin, history)})
        with members(orders, 2) as (later, _):
            both = [*early, *orders.produce(keys_of(100, 20))]
            eventually(lambda: lost(journal.rows + later.rows, both) == set())
            orders.wait_for_lag(0)
    assert repeated(row for row in journal.rows + later.rows if row.place in set(early)) == 0


def test_static_members_go_on_in_new_runs(
    job: MakeJob, history: str, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job(**WATCHFUL, **{"progress.topic": history})
    first, second = (
        replace(orders, own={**orders.own, "group.instance.id": name}) for name in ("a", "b")
    )
    with members(first, 1) as (one, _), members(second, 1) as (other, _):
        before = orders.produce(keys_of(60, 30))
        eventually(lambda: lost(one.rows + other.rows, before) == set())
        orders.wait_for_lag(0)
        delete(admin, history)
        eventually(lambda: history in admin.list_topics(timeout=WAIT_S).topics)
        after = orders.produce(keys_of(60, 30))
        eventually(lambda: lost(one.rows + other.rows, after) == set())
        orders.wait_for_lag(0)
        eventually(lambda: all(f"member {it}: a new run begins" in caplog.text for it in "ab"))


def test_idle_members_notice_a_progress_topic_that_was_made_again(
    job: MakeJob, history: str, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Else they would refuse those who come later and know the new one."""
    orders = job(partitions=1, **WATCHFUL, **{"progress.topic": history})
    with members(orders, 2) as (journal, _):
        recreate(admin, history, 5, **{"cleanup.policy": "compact"})
        eventually(lambda: caplog.text.count("a new run begins"), lambda found: found >= 2)
        with members(orders, 1) as (later, _):
            written = orders.produce(keys_of(50, 25))
            eventually(lambda: lost(journal.rows + later.rows, written) == set())
    assert "was deleted and made again while members run" in caplog.text


def test_what_runs_when_the_progress_topic_is_lost_is_waited_for_by_the_new_run(
    job: MakeJob, history: str, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job(**WATCHFUL, **{"progress.topic": history})
    gate = Gate("slow")
    with members(orders, 1, handler=gate) as (journal, [first]):
        orders.produce(["slow"])
        gate.wait_for_arrival()
        delete(admin, history)
        with members(orders, 1, handler=gate) as (others, _):
            written = orders.produce(["slow", "a", "b"])
            others.wait_for([place for place in written if place[1] > 1])
            assert others.offsets == [2, 3], "its key is still at work elsewhere"
            gate.open()
            others.wait_for(written)
        assert journal.rows[0].ended_ns < others.wait_for([(0, 0)])[-1].ended_ns
        # A pool that is closed before its next run begins hears of the lost log.
        eventually(lambda: f"member {first.pool.name}: a new run begins" in caplog.text)


def test_a_broker_that_makes_topics_by_itself_makes_no_trap_of_the_progress_topic(
    fresh_broker: MakeBroker, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = fresh_broker(config={"auto.create.topics.enable": "true"})
    admin = AdminClient(broker.client_config())
    create_topic(admin, "orders")
    orders = Job(broker.client_config(), admin, group_id, "orders", 1, WATCHFUL)
    with members(orders, 1) as (journal, _):
        written = orders.produce(keys_of(20, 5))
        journal.wait_for(written)
        delete(admin, stock.PROGRESS_TOPIC)
        written += orders.produce(keys_of(20, 5))
        journal.wait_for(written)
        eventually(lambda: "a new run begins" in caplog.text)
        written += orders.produce(keys_of(20, 5))
        journal.wait_for(written)
        orders.wait_for_lag(0)


def polled(consumer: CooperativeConsumer, count: int) -> list[int]:
    """Offsets of the next records, each done at once."""
    offsets = []
    for _ in range(count):
        record = consumer.poll(WAIT_S)
        assert record is not None
        offsets.append(record.offset)
        consumer.done(record)
    return sorted(offsets)


def test_a_consumer_goes_on_in_a_new_run(job: MakeJob, history: str, admin: AdminClient) -> None:
    orders = job(**WATCHFUL, **{"progress.topic": history})
    with CooperativeConsumer(orders.settings) as consumer:
        consumer.subscribe([orders.topic])
        orders.produce(["a", "b"])
        first, second = consumer.poll(WAIT_S), consumer.poll(WAIT_S)
        assert first is not None
        assert second is not None
        consumer.done(first)
        consumer.commit(WAIT_S)
        orders.wait_for_lag(1)
        delete(admin, history)
        with pytest.raises(ProgressLogLostError, match="A new run begins by itself"):
            consumer.poll()  # which would wait for the record in hand
        consumer.done(second)
        orders.produce(["c", "d"])
        assert set(polled(consumer, 3)) >= {2, 3}, "the one that could not be committed came again"
        consumer.commit(WAIT_S)


def _id_of(admin: AdminClient, topic: str) -> bytes | None:
    """None: there is no such topic now."""
    if topic not in admin.list_topics(timeout=WAIT_S).topics:
        return None
    with suppress(KafkaException):
        return stock.topic_id(admin, topic)
    return None


def test_ranges_that_a_user_has_assigned_stay_assigned_in_a_new_run(
    job: MakeJob, history: str, admin: AdminClient
) -> None:
    orders = job(partitions=2, **WATCHFUL, **{"progress.topic": history})
    with CooperativeConsumer(orders.settings) as consumer:
        consumer.assign({TopicPartition(orders.topic, 1): []})
        orders.produce(["a", "b"], 1)
        assert polled(consumer, 2) == [0, 1]
        consumer.commit(WAIT_S)
        eventually(orders.committed, lambda found: found.get(1, (0, ""))[0] == 2)
        before = stock.topic_id(admin, history)
        delete(admin, history)

        def made_again() -> bool:
            assert consumer.poll(0.1) is None, "a run begins anew while somebody polls"
            return _id_of(admin, history) not in (None, before)

        eventually(made_again)
        orders.produce(["c", "d"], 1)
        assert polled(consumer, 2) == [2, 3]


# -- data topics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [30, 90], ids=["fewer records", "more records"])
def test_nothing_is_skipped_of_a_topic_made_again_under_a_living_group(
    job: MakeJob, admin: AdminClient, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    orders = job(**WATCHFUL)
    old = orders.produce(keys_of(60, 6))
    with members(orders, 2) as (journal, _):
        journal.wait_for(old)
        before = len(journal.rows)
        recreate_empty(admin, orders.topic)
        new = orders.produce([f"new-{number}" for number in range(count)])
        journal.wait(lambda rows: lost(rows[before:], new) == set())
        orders.wait_for_lag(0)
    assert {row.key for row in journal.rows[before:]} == {f"new-{n}" for n in range(count)}
    assert f"topic {orders.topic} was deleted and made again" in caplog.text


def test_a_topic_made_again_stops_members_whose_policy_says_so(
    job: MakeJob, admin: AdminClient
) -> None:
    orders = job(**WATCHFUL, **{"on.data.loss": "stop"})
    orders.produce(keys_of(60, 6))
    pool = Pool(orders.settings, orders.topic)
    pool.pool.start()
    pool.wait_for_ranges()
    pool.journal.wait(lambda rows: len(rows) == 60)
    recreate_empty(admin, orders.topic)
    orders.produce(keys_of(30, 6))
    with pytest.raises(TopicRecreatedError) as caught:
        pool.pool.wait(WAIT_S)
    assert caught.value.exit_code is ExitCode.STOPPED


def test_a_topic_that_is_away_for_a_while_is_named_once_and_consumed_when_it_is_back(
    job: MakeJob, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job(**WATCHFUL, **BLIND)
    with members(orders, 1) as (journal, _):
        journal.wait_for(orders.produce(keys_of(20, 5)))
        delete(admin, orders.topic)
        gone = f"topic {orders.topic}: does not exist any more"
        eventually(lambda: gone in caplog.text)
        create_topic(admin, orders.topic)
        before = len(journal.rows)
        new = orders.produce([f"new-{number}" for number in range(10)])
        journal.wait(lambda rows: lost(rows[before:], new) == set())
    assert caplog.text.count(gone) == 1


def test_a_member_that_is_closed_leaves_though_its_topic_is_deleted(
    job: MakeJob, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No commit is taken any more, however often it is tried."""
    monkeypatch.setitem(KafkaConsumer.DEFAULT_CONFIG, "request_timeout_ms", 2_000)
    orders = job(**BLIND)
    gate = Gate("slow")
    with members(orders, 1, handler=gate) as (_, [only]):
        orders.produce([*keys_of(20, 5), "slow"])
        gate.wait_for_arrival()
        only.pool.close()
        delete(admin, orders.topic)
        gate.open()
        assert only.pool.wait(WAIT_S)
    create_topic(admin, orders.topic)  # for who tidies up


def test_new_partitions_are_noticed_by_the_watch(job: MakeJob, admin: AdminClient) -> None:
    orders = job(**WATCHFUL, **BLIND)
    with members(orders, 2) as (journal, _):
        admin.create_partitions([NewPartitions(orders.topic, 3)])[orders.topic].result(WAIT_S)
        eventually(
            lambda: len(admin.list_topics(orders.topic).topics[orders.topic].partitions) == 3
        )
        written = [place for n in range(3) for place in orders.produce(keys_of(10, 5), n)]
        journal.wait_for(written)


def test_latest_is_for_a_new_topic_and_what_is_born_under_the_group_is_read_from_its_beginning(
    job: MakeJob, admin: AdminClient
) -> None:
    orders = job(**{"auto.offset.reset": "latest"})
    orders.produce(keys_of(10, 5))
    with members(orders, 1) as (journal, _):
        journal.wait_for(orders.produce(keys_of(3, 3)))
    assert journal.offsets == [10, 11, 12], "what was there before the group is not read"
    orders.wait_until_empty()
    admin.create_partitions([NewPartitions(orders.topic, 2)])[orders.topic].result(WAIT_S)
    eventually(lambda: len(admin.list_topics(orders.topic).topics[orders.topic].partitions) == 2)
    added = orders.produce(keys_of(20, 5), 1)
    with PlannedGroup(Config.from_dict(orders.settings)) as group:
        assert [it.offsets for it in group.look([orders.topic], {})] == [None, OffsetRange(0, 19)]
    with members(orders, 2) as (journal, _):
        journal.wait_for(added)
        orders.wait_for_lag(0)
    assert {row.place for row in journal.rows} == set(added)
    orders.wait_until_empty()
    recreate(admin, orders.topic)
    again = orders.produce(keys_of(20, 5), 0)
    with members(orders, 1) as (journal, _):
        journal.wait_for(again)


def test_a_plan_tells_how_the_group_began_with_a_topic(job: MakeJob, admin: AdminClient) -> None:
    orders = job(**{"auto.offset.reset": "latest"})
    orders.produce(keys_of(10, 5))
    with PlannedGroup(Config.from_dict(orders.settings)) as group:
        planned = group.look([orders.topic], {})
        assert [it.offsets for it in planned] == [None]
        group.commit("plan-1", planned, {})
    recreate(admin, orders.topic)
    again = orders.produce(keys_of(20, 5))
    with members(orders, 1) as (journal, _):
        journal.wait_for(again)


# -- retention -------------------------------------------------------------------------------------


def test_an_aborted_transaction_at_the_end_of_a_partition_does_not_stall_a_living_group(
    job: MakeJob,
) -> None:
    """apache/pinot#18337, risingwave#24717: readers waited for a record that never comes."""
    orders = job()
    with orders.running() as pool:
        pool.journal.wait_for(orders.produce(keys_of(10, 5)))
        abort(orders.client, orders.topic, count=5)
        # Ten records, five aborted, and the marker of that, which comes a moment later.
        eventually(orders.committed, lambda found: found[0][0] == 16)
    assert pool.journal.offsets == list(range(10))


def test_a_tail_that_compaction_took_away_does_not_keep_a_job_from_its_end(
    fresh_broker: MakeBroker, group_id: str
) -> None:
    broker = fresh_broker(config={"log.cleaner.backoff.ms": "100"})
    admin = AdminClient(broker.client_config())
    eager = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "1"}
    create_topic(admin, "orders", config=eager)
    orders = Job(broker.client_config(), admin, group_id, "orders")
    orders.produce(["a", "b", "c"] * 20)
    abort(orders.client, orders.topic, count=5)  # begins segments; those before may be compacted

    def offsets() -> list[int | None]:
        raw = {**orders.client, "isolation.level": "read_uncommitted"}
        return [message.offset() for message in records_of(raw, "orders")]

    eventually(offsets, lambda found: found == [57, 58, 59])
    assert orders.run_to_end().offsets == [57, 58, 59]
    assert orders.committed()[0][0] == ends(admin, "orders", 1)["orders", 0] == 66


def emptied(orders: Job, consumer: CooperativeConsumer) -> TopicPartition:
    """The consumer has processed 10 records and fetches none; 50 of the next 90 are removed."""
    place = TopicPartition(orders.topic, 0)
    orders.produce(keys_of(10, 5))
    consumer.subscribe([orders.topic])
    assert polled(consumer, 10) == list(range(10))
    consumer.pause([place])
    consumer.commit(WAIT_S)
    orders.produce(keys_of(90, 5))
    orders.delete_below(60)
    return place


def test_records_removed_under_a_living_group_are_passed_over_and_told(
    job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job()
    with CooperativeConsumer(orders.settings) as consumer:
        consumer.resume([emptied(orders, consumer)])
        assert polled(consumer, 40) == list(range(60, 100))
        orders.wait_for_lag(0)
    told = rf"group {orders.group}, member \S+: {orders.topic}-0 offsets \[10-59\]: removed from"
    assert re.search(told, caplog.text)


def test_records_removed_under_a_living_group_stop_it_if_its_policy_says_so(job: MakeJob) -> None:
    orders = job(**{"on.data.loss": "stop"})
    consumer = CooperativeConsumer(orders.settings)
    consumer.resume([emptied(orders, consumer)])
    with pytest.raises(DataLossError, match=r"offsets \[10-59\]"):
        consumer.poll(WAIT_S)
    with pytest.raises(DataLossError) as ended:
        consumer.close()
    (note,) = ended.value.__notes__
    assert re.fullmatch(rf"This ended member \S+ of group {orders.group}\.", note)
