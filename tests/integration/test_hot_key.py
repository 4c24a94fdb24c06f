"""A key of which more comes than one worker does, on a real broker: it stops nobody."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable

import pytest

from coop_consumer import Record, Worker, WorkerPool
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.stock import eventually

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
HOT = "hot"
OTHERS, HOT_TIMES, FIRST = 3_000, 600, 900
APART = "so it is fetched by itself from now on"
"""What the log says once a key has a stream of its own."""
KEYS = [HOT if n % 6 == 5 else f"key-{n % 50}" for n in range(OTHERS + HOT_TIMES)]
OWN = {
    "max.num.ranges.held": 100,
    "max.num.ranges.to.commit": 50,
    "max.attempts": 1_000_000,
    "attempt.backoff.ms": 1,
    "attempt.backoff.max.ms": 5,
    "circuit.share": 0,
}


class OneOfThirty(Worker):
    """A hot key of which a record fails until thirty more of other keys are done.

    So if the others waited for it, nobody would ever end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.offsets: dict[str, list[int]] = defaultdict(list)
        self.others = 0
        self.others_done = threading.Event()

    def process(self, record: Record) -> None:
        key = (record.key or b"").decode()
        with self._lock:
            if key == HOT and self.others < min(30 * len(self.offsets[HOT]), OTHERS):
                raise ValueError("not yet")
            self.offsets[key].append(record.offset)
            self.others += key != HOT
            if self.others >= OTHERS:
                self.others_done.set()


def places(keys: list[str]) -> dict[str, list[int]]:
    """The offsets of each key."""
    found: dict[str, list[int]] = defaultdict(list)
    for offset, key in enumerate(keys):
        found[key].append(offset)
    return found


def test_a_hot_key_stops_nobody_and_loses_nothing(job: MakeJob) -> None:
    orders = job(**OWN)
    orders.produce(KEYS)
    worker = OneOfThirty()
    with WorkerPool(
        worker, orders.settings, [orders.topic], workers=4, until_caught_up=True
    ) as pool:
        assert pool.wait(WAIT_S), "the others waited for it"
    orders.wait_for_lag(0)
    assert worker.offsets == places(KEYS)


def test_a_hot_key_moves_with_its_range_and_goes_on(
    job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job(**OWN)
    orders.produce(KEYS[:FIRST])  # after these the key waits for others that come later
    worker = OneOfThirty()  # of both members, so it has one order of each key
    with WorkerPool(worker, orders.settings, [orders.topic], workers=4) as first:
        eventually(lambda: APART in caplog.text)
        with WorkerPool(worker, orders.settings, [orders.topic], workers=4) as heir:
            first.close()  # all that it holds moves to the other one, the hot key as well
            eventually(
                lambda: heir.owner_of(orders.topic, HOT.encode(), 0),
                lambda it: it is not None and it.member == heir.name,
            )
            assert len(worker.offsets[HOT]) <= FIRST / 30, "most of it waits"
            orders.produce(KEYS[FIRST:])
            assert worker.others_done.wait(WAIT_S), "the others do not wait for it there either"
            orders.wait_for_lag(0)
    assert worker.offsets == places(KEYS)
