"""Groups that change hands: plain consumers before us and after us, reset tools, lost history.

Each test tells a story of one group, whose members come one after the other. What a visit has
processed is a journal; what stock tools see between visits is Kafka's own committed offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from tests.support.brokers import MakeBroker
from tests.support.job import Job
from tests.support.journal import WAIT_S, out_of_order
from tests.support.pools import refuse
from tests.support.stock import eventually, keys_of, records_of
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
PARKS_AT_ONCE = {"on.failure": "park", "max.attempts": 1}


# -- plain groups ----------------------------------------------------------------------------------


def test_a_plain_group_is_taken_over_in_place_and_taken_back(job: MakeJob) -> None:
    orders = job(partitions=3)
    first = orders.produce(keys_of(300, 30))
    read = orders.plain_visit(100)
    ours = orders.run_to_end()
    assert ours.places == sorted(set(first) - set(read))
    assert out_of_order(ours.rows) == []
    second = orders.produce(keys_of(60, 30))
    assert orders.plain_visit(60) == sorted(second)


def test_a_plain_group_taken_back_repeats_what_lies_above_the_stable_offset_and_loses_nothing(
    job: MakeJob,
) -> None:
    orders = job(**PARKS_AT_ONCE)
    orders.produce(keys_of(50, 5))
    with orders.running(handler=refuse("key-3")) as pool:
        pool.journal.wait(lambda rows: len(rows) == 40)
    [stable, _] = orders.committed()[0]
    assert 0 < stable < 10
    orders.wait_until_empty()
    assert orders.plain_visit(50 - stable) == [(0, offset) for offset in range(stable, 50)]


def test_what_a_plain_group_did_in_between_is_not_done_again(job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(50, 5))
    assert orders.run_to_end().offsets == list(range(50))
    orders.produce(keys_of(50, 5))
    orders.plain_visit(30)
    assert orders.run_to_end().offsets == list(range(80, 100))


# -- resets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", [40, 80])
def test_a_rewind_and_a_jump_by_a_stock_tool_are_honoured(job: MakeJob, to: int) -> None:
    orders = job()
    orders.produce(keys_of(60, 5))
    assert orders.run_to_end().offsets == list(range(60))
    orders.produce(keys_of(40, 5))
    orders.alter({0: to})
    assert orders.run_to_end().offsets == list(range(to, 100))
    assert orders.committed() == {0: (100, "coop:2")}


def test_a_second_rewind_is_honoured_like_the_first(job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(60, 5))
    assert orders.run_to_end().offsets == list(range(60))
    for first in (30, 30, 0):
        orders.alter({0: first})
        assert orders.run_to_end().offsets == list(range(first, 60))


# -- history that is gone --------------------------------------------------------------------------


def test_losing_the_progress_topic_costs_repeats_and_never_a_record(
    job: MakeJob, history: str, admin: AdminClient
) -> None:
    orders = job(**PARKS_AT_ONCE, **{"progress.topic": history, "progress.topic.partitions": 1})
    orders.produce(keys_of(50, 5))
    with orders.running(handler=refuse("key-3")) as pool:
        pool.journal.wait(lambda rows: len(rows) == 40)
    [stable, _] = orders.committed()[0]
    orders.wait_until_empty()
    admin.delete_topics([history])[history].result(WAIT_S)
    assert orders.run_to_end().offsets == list(range(stable, 50))


def test_records_removed_by_retention_are_counted_and_the_rest_goes_on(
    job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job()
    orders.produce(keys_of(20, 5))
    assert orders.run_to_end().offsets == list(range(20))
    orders.produce(keys_of(80, 5))
    orders.delete_below(50)
    with orders.running() as pool:
        pool.journal.wait_for([(0, offset) for offset in range(50, 100)])
        orders.wait_for_lag(0)
    assert pool.journal.offsets == list(range(50, 100))
    assert pool.pool.counters.lost_to_retention == 30
    told = f"{orders.topic}-0 offsets [20-49]: removed from the log before they were processed"
    assert told in caplog.text


# -- where a new group begins ----------------------------------------------------------------------


def test_a_new_group_begins_at_the_earliest_record(job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(30, 5))
    orders.delete_below(10)
    assert orders.run_to_end().offsets == list(range(10, 30))


def test_latest_is_resolved_once_and_a_member_that_comes_later_does_not_move_it(
    job: MakeJob,
) -> None:
    orders = job(**{"auto.offset.reset": "latest"})
    orders.produce(keys_of(30, 5))
    with orders.running() as pool:
        pool.wait_for_ranges()
    assert pool.journal.offsets == []
    orders.produce(keys_of(20, 5))  # nobody is there: to resolve "latest" now would skip them
    with orders.running() as first, orders.running(journal=first.journal):
        first.journal.wait_for([(0, offset) for offset in range(30, 50)])
    assert first.journal.offsets == list(range(30, 50))


# -- holes -----------------------------------------------------------------------------------------


def test_aborted_transactions_never_stall_the_stable_offset(job: MakeJob) -> None:
    orders = job()
    outcomes = ["commit", "abort", "commit", "abort"]
    wanted = write_transactions(orders.client, orders.topic, outcomes)
    assert orders.run_to_end().offsets == wanted
    # Four times five records and the marker at the end of a transaction.
    assert orders.committed()[0][0] == 24


def write_transactions(client: Mapping[str, Any], topic: str, outcomes: list[str]) -> list[int]:
    """Write five records in a transaction for each outcome; returns the committed offsets."""
    producer = Producer({**client, "transactional.id": topic})
    producer.init_transactions(WAIT_S)
    offsets: list[int] = []

    def note(outcome: str, error: KafkaError | None, message: Message) -> None:
        assert error is None
        if outcome == "commit":
            offsets.append(message.offset() or 0)

    for outcome in outcomes:
        producer.begin_transaction()
        for number in range(5):
            key = b"key-%d" % number
            producer.produce(topic, b"value", key, on_delivery=partial(note, outcome))
        producer.flush(WAIT_S)
        if outcome == "commit":
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
    return offsets


def test_holes_left_by_compaction_never_stall_the_stable_offset(
    fresh_broker: MakeBroker, group_id: str
) -> None:
    broker = fresh_broker(config={"log.cleaner.backoff.ms": "100"})
    admin = AdminClient(broker.client_config())
    eager = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "1"}
    create_topic(admin, "orders", config=eager)
    orders = Job(broker.client_config(), admin, group_id, "orders")
    orders.produce(["a", "b", "c"] * 20)
    orders.produce(["d"])  # begins a segment; the one before may be compacted
    left = [57, 58, 59, 60]

    def offsets() -> list[int | None]:
        return [message.offset() for message in records_of(orders.client, "orders")]

    eventually(offsets, lambda found: found == left)
    assert orders.run_to_end().offsets == left
    assert orders.committed()[0][0] == 61
