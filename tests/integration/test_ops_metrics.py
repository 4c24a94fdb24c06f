"""Metrics of members at work on a real broker: scraped at any moment, by anybody."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from prometheus_client import Counter

from coop_consumer import CooperativeConsumer, Record, Worker, WorkerPool
from coop_consumer.core.metrics import MemberPhase
from coop_consumer.errors import ConfigError
from tests.integration.scraping import scrape
from tests.support.job import Job
from tests.support.journal import WAIT_S, Journal
from tests.support.pools import Gate, NotingWorker, running
from tests.support.stock import eventually

pytestmark = pytest.mark.integration

INVOICES = Counter("test_invoices", "Counted by handlers of a test.")
EndPoint = str
MakeJob = Callable[..., Job]


def address_of(pool: WorkerPool) -> EndPoint:
    assert pool._ops is not None
    return pool._ops.address


def settings(its: Job) -> dict[str, object]:
    return {**its.settings, "ops.address": "127.0.0.1:0"}


def asked(address: str, probe: str) -> tuple[int, bytes]:
    """What a probe is answered."""
    try:
        with urlopen(f"http://{address}/{probe}", timeout=WAIT_S) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def finished(member: WorkerPool | CooperativeConsumer, its: Job) -> int:
    found = member.metrics().topics.get(its.topic)
    return 0 if found is None else found.finished


def test_a_member_counts_what_it_does(job: MakeJob) -> None:
    its = job()
    its.produce([f"customer-{number % 20}" for number in range(200)])
    with running(settings(its), its.topic) as pool:
        eventually(lambda: finished(pool.pool, its) == 200)
        # A chunk is counted once it is over, a moment after its last record.
        samples = eventually(
            lambda: scrape(address_of(pool.pool)),
            lambda it: it.total("coop_handler_seconds_count") == 200,
        )

        assert samples.total("coop_records_finished_total") == 200
        assert samples.total("coop_record_age_seconds_count") == 200
        assert samples.total("coop_range_share") == 1
        assert samples.total("coop_workers") == 4
        assert samples.total("coop_member_state") == 1
        assert not any(re.search(r"customer|key-|@\d", place) for place in samples.places)


def test_a_scrape_is_answered_before_the_first_range_and_after_the_last(job: MakeJob) -> None:
    its, gate = job(), Gate("a")
    its.produce(["a"])
    pool = WorkerPool(NotingWorker(Journal(), gate), settings(its), [its.topic], workers=2)
    assert pool.metrics().phase is MemberPhase.STARTING
    pool.start()
    address = address_of(pool)
    assert pool._identity.tally.ops_address == address, "its group's page links it"
    assert scrape(address).total("coop_member_state") == 1
    gate.wait_for_arrival()
    assert scrape(address).total("coop_workers_busy") == 1
    assert asked(address, "livez") == (200, b'{"ok":true,"reasons":[]}')
    eventually(lambda: asked(address, "readyz")[0] == 200)
    pool.close()
    eventually(lambda: pool.metrics().phase is MemberPhase.CLOSING)
    assert scrape(address).total("coop_lane_records") >= 0
    gate.open()
    eventually(lambda: pool.metrics().phase is MemberPhase.ENDED)
    assert scrape(address).total("coop_records_finished_total") == 1
    assert pool.wait(WAIT_S)
    assert finished(pool, its) == 1
    with pytest.raises(URLError, match="refused"):
        scrape(address)


def test_a_port_in_use_ends_the_start_before_anything_joins(job: MakeJob) -> None:
    its = job()
    with running(settings(its), its.topic) as first:
        taken = {**its.settings, "ops.address": address_of(first.pool)}
        second = WorkerPool(NotingWorker(first.journal, lambda _: None), taken, [its.topic])
        with pytest.raises(ConfigError, match=r"ops\.address=.* is in use"):
            second.start()
        consumer = CooperativeConsumer(taken)
        with pytest.raises(ConfigError, match=r"ops\.address=.* is in use"):
            consumer.subscribe([its.topic])


def test_a_consumer_has_the_same_figures_also_once_it_is_closed(job: MakeJob) -> None:
    its = job()
    its.produce(["a", "b"])
    with CooperativeConsumer(settings(its)) as consumer:
        consumer.subscribe([its.topic])
        for _ in range(2):
            record = consumer.poll(WAIT_S)
            assert record is not None
            consumer.done(record)
        eventually(lambda: finished(consumer, its) == 2)
        assert consumer._running is not None
        assert consumer._running._ops is not None
        address = consumer._running._ops.address
        assert consumer._running.snapshot().load.ops_address == address, "its group's page links it"
        samples = scrape(address)
        assert samples.total("coop_records_finished_total") == 2
    assert consumer.metrics().phase is MemberPhase.ENDED
    assert finished(consumer, its) == 2


class Counting(Worker):
    """Counts records with `prometheus_client`, in whatever process it runs; one falls once."""

    def process(self, record: Record) -> None:
        INVOICES.inc()
        if record.key == b"falls" and record.attempt == 1:
            os._exit(1)


def test_what_children_count_is_added_up_and_outlives_them(job: MakeJob) -> None:
    its = job()
    its.produce([*(f"key-{number}" for number in range(20)), "falls"])
    with WorkerPool(Counting, settings(its), [its.topic], workers=2, executor="process") as pool:
        eventually(lambda: finished(pool, its) == 21)
        samples = scrape(address_of(pool))
        assert samples.total("test_invoices_total") >= 22, "the fall and its repeat count, too"
        eventually(lambda: pool.metrics().child_restarts == 1)
        assert samples.total("coop_workers") == 2
        folder = Path(pool._work.style.figures)
        assert list(folder.glob("counter_*.db"))
    assert not folder.exists()
