"""A pool pauses partitions, and goes on with them where it was; by the page of a member, too."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest

from assignors import TopicPartition
from coop_consumer import Record, WorkerPool
from coop_consumer.errors import MisuseError
from tests.support.forms import form_at
from tests.support.job import Job
from tests.support.journal import WAIT_S, Journal
from tests.support.pools import Gate, NotingWorker, at_once, running
from tests.support.stock import eventually

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]


def offsets_of(journal: Journal, partition: int) -> list[int]:
    return sorted(row.offset for row in journal.rows if row.partition == partition)


def test_a_paused_partition_waits_and_others_go_on_and_nothing_is_lost(job: MakeJob) -> None:
    its, gate = job(partitions=2), Gate("slow")
    paused, other = (TopicPartition(its.topic, number) for number in range(2))

    def handler(record: Record) -> None:
        gate(record)

    with running(its.settings, its.topic, handler=handler) as pool:
        its.produce(["slow"] + [f"k{number % 9}" for number in range(50)], partition=0)
        gate.wait_for_arrival()
        pool.pool.pause([paused])
        assert pool.pool.paused == {paused}
        seen = len(offsets_of(pool.journal, 0))
        gate.open()  # what runs goes on
        its.produce([f"k{number % 9}" for number in range(50)], partition=1)
        eventually(lambda: len(offsets_of(pool.journal, 1)) == 50)
        done = offsets_of(pool.journal, 0)
        assert len(done) <= seen + 4, "no more than what ran"
        pool.pool.resume([paused, other])
        assert pool.pool.paused == frozenset()
        eventually(lambda: offsets_of(pool.journal, 0) == list(range(51)))
        its.wait_for_lag()


def test_a_pool_that_does_not_run_pauses_nothing(job: MakeJob) -> None:
    its = job()
    pool = WorkerPool(NotingWorker(Journal(), at_once), its.settings, [its.topic], workers=1)
    with pytest.raises(MisuseError, match=r"pause\(\): this pool does not run"):
        pool.pause([TopicPartition(its.topic, 0)])
    with pool:
        with pytest.raises(MisuseError, match="no list of partitions"):
            pool.pause(its.topic)  # type: ignore[arg-type]
        pool.close()
        assert pool.wait(WAIT_S)
    with pytest.raises(MisuseError, match=r"resume\(\): this pool does not run"):
        pool.resume([TopicPartition(its.topic, 0)])


def test_a_members_own_page_pauses_a_partition(job: MakeJob) -> None:
    its = job(**{"ops.address": "127.0.0.1:0", "ops.allow.actions": True})
    place = TopicPartition(its.topic, 0)
    with running(its.settings, its.topic) as pool:
        pool.wait_for_ranges()
        assert pool.pool._ops is not None
        address = pool.pool._ops.address

        def act(action: str) -> str:
            words = urlencode({"topic": its.topic, "partition": 0})
            return form_at(address, f"/confirm/{action}/{its.group}?{words}").send()

        assert "paused at this member" in act("pause")
        assert pool.pool.paused == {place}
        its.produce(["a"])
        assert "goes on at this member" in act("resume")
        eventually(lambda: offsets_of(pool.journal, 0) == [0])
