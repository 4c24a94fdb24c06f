"""Keyed state with exactly once, beside transactions that came to nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from assignors import TopicPartition
from coop_consumer import Context, Record, Worker
from coop_consumer.kafka import slice_reader
from tests.integration.test_exactly_once import KEYS, ONCE, visible
from tests.support.counting import Counts, changelog_of, count_all, counting, counts
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.killed import to_be_killed
from tests.support.stock import abort, eventually
from tests.support.topics import set_topic

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
Logged = list[tuple[int, bytes, bytes | None]]


def latest(logged: Logged) -> dict[bytes, bytes | None]:
    """By key the last value."""
    return {key: value for _, key, value in logged}


def committed(orders: Job) -> Logged:
    """The committed records of the changelog, as `written`."""
    return [(0, it.key() or b"", it.value()) for it in visible(orders, changelog_of(orders))]


def test_a_store_on_disk_has_nothing_of_the_transaction_in_which_its_process_was_killed(
    job: MakeJob, tmp_path: Path
) -> None:
    """apache/kafka#22548 (KAFKA-20685), #5421 (KAFKA-7192): aborted writes outlived a kill -9."""
    orders = job(1, **ONCE, **{"state.dir": str(tmp_path)})
    orders.produce(KEYS)
    count_all(orders, Counts())
    orders.produce(KEYS)
    with to_be_killed("tests.support.half_sent", orders.settings, orders.topic, len(KEYS)):
        pass
    begins = threading.Event()

    def wait(_: Record) -> None:
        assert begins.wait(WAIT_S), "nobody let it begin"

    worker = Counts(before=wait)
    with counting(orders, worker) as pool:
        worker.wait_for_ranges()
        assert pool._work.changelog is not None
        shard = pool._work.changelog._shards[TopicPartition(orders.topic, 0)]
        logged = committed(orders)
        stored = {key: shard.stored(key) for key in latest(logged)}
        begins.set()
        assert stored == latest(logged)
        assert counts(logged) == Counter(KEYS)
        orders.wait_for_lag(0)
    assert worker.counters.read == 0, "what it reads of the log is what its store lacks"
    assert counts(committed(orders)) == Counter([*KEYS, *KEYS])


def test_state_that_a_changelog_refuses_after_all_parks_its_record_and_nobody_else(
    job: MakeJob,
) -> None:
    orders, goes_on = job(1, **ONCE), threading.Event()

    class PutsMore(Worker):
        keyed_state = True

        def setup(self, context: Context) -> None:
            self.state = context.state

        def process(self, record: Record) -> None:
            assert goes_on.wait(WAIT_S), "nobody let it go on"
            self.state.put(record, b"x" * (2_000 if record.offset == 5 else 10))

    orders.produce([f"k{number}" for number in range(30)])
    with counting(orders, PutsMore()) as pool:
        eventually(pool.assignment, bool)
        set_topic(orders.admin, changelog_of(orders), "max.message.bytes", "500")
        goes_on.set()
        eventually(orders.parked, lambda offsets: offsets == [5])
        eventually(lambda: pool.counters.committed, lambda count: count >= 29)
    assert latest(committed(orders)).keys() == {b"k%d" % n for n in range(30) if n != 5}


def test_a_restore_names_the_transaction_that_it_waits_for_and_goes_on_behind_it(
    job: MakeJob, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It took what is hidden for lost, and advised to move the group."""
    orders = job(1, **ONCE)
    orders.produce(KEYS)
    count_all(orders, Counts())
    stranger = Producer({**orders.client, "transactional.id": f"stranger-{orders.group}"})
    stranger.init_transactions(WAIT_S)
    stranger.begin_transaction()
    stranger.produce(changelog_of(orders), b"?", b"key", 0)
    assert stranger.flush(WAIT_S) == 0
    monkeypatch.setattr(slice_reader, "_PATIENCE_S", 1.0)  # not 60 s
    orders.produce(KEYS)
    with counting(orders, Counts()):
        eventually(
            lambda: f"transaction of transactional.id stranger-{orders.group}" in caplog.text
        )
        assert f"abort --topic {changelog_of(orders)} --partition 0" in caplog.text
        stranger.abort_transaction(WAIT_S)
        orders.wait_for_lag(0)
    assert counts(committed(orders)) == Counter([*KEYS, *KEYS])


def test_a_restore_ends_at_a_tail_of_aborted_records(job: MakeJob) -> None:
    """apache/pinot#18337, risingwave#24717: a reader waited for a record that never comes."""
    orders = job(1, **ONCE)
    orders.produce(KEYS)
    count_all(orders, Counts())
    there = len(committed(orders))
    abort(orders.client, changelog_of(orders), count=5)
    orders.produce(KEYS)
    worker = Counts()  # nothing of the changelog is on its disk
    count_all(orders, worker)
    assert (worker.counters.restores, worker.counters.read) == (1, there)
    assert counts(committed(orders)) == Counter([*KEYS, *KEYS])
