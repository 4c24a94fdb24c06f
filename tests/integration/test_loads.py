"""A load on a real broker: in the progress log while a member works, gone once it has left."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from assignors import key_hash
from coop_consumer import Record, Worker, WorkerPool
from coop_consumer.core import loads
from offsets import LoadRecord
from tests.support.job import Job
from tests.support.stock import eventually

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
HOT = "hot"
KEYS = [HOT if n % 2 else f"key-{n % 97}" for n in range(8_000)]


class TwoMilliseconds(Worker):
    """Takes a while for each record."""

    def process(self, record: Record) -> None:
        del record
        time.sleep(0.002)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports come each second."""
    monkeypatch.setattr(loads, "REPORT_MS", 1_000)
    monkeypatch.setattr(loads, "LOOK_MS", 500)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_load_is_in_the_log_while_a_member_works_and_gone_once_it_has_left(
    job: MakeJob, guarantee: str
) -> None:
    orders = job(**{"processing.guarantee": guarantee})
    orders.produce(KEYS)

    def told() -> LoadRecord | None:
        found = orders.log.store(orders.log.number_of(orders.topic, 0)).loads
        return next(iter(found.values()))[1] if found else None

    with WorkerPool(TwoMilliseconds(), orders.settings, [orders.topic], workers=4):
        load = eventually(told, lambda it: it is not None and bool(it.heavy) and it.busy > 0)
        assert load is not None
        assert load.workers == 4
        assert load.handler_us >= 2_000
        assert 0 < load.busy <= 1_000
        assert load.finished > 0
        ((weight, pace),) = [(it.weight, it.pace) for it in load.partitions]
        assert weight == pytest.approx(load.handler_us * 10**6, rel=0.05)
        assert pace >= 1, "what is left is to be done in a minute"
        hot = load.heavy[0]
        assert (hot.key_hash, hot.key) == (key_hash(HOT.encode()), HOT.encode())
        assert hot.share == pytest.approx(500, abs=60)
    eventually(told, lambda it: it is None)
