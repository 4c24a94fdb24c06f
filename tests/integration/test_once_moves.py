"""Ranges move between members with exactly once: who waits for whom, and what is seen meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import pytest

from assignors import WHOLE, key_hash
from coop_consumer import Record, WorkerPool
from tests.integration.test_exactly_once import ONCE, assert_once, visible
from tests.integration.test_flush import is_settled
from tests.support.brokers import MakeTopic
from tests.support.buffering import Door
from tests.support.job import TIMING, Job
from tests.support.journal import Place
from tests.support.plain import Feed
from tests.support.pools import Gate
from tests.support.sending import Sends, places_of
from tests.support.stock import eventually, keys_of

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]

CHANGES = 20
JOINED_S = 5.0
"""Less than a session's time-out, which is 6 s here, or a transaction's, which is more."""
SESSION_S = 6.0
WORK_S = 0.002
"""Stands for the work of a real handler."""


class SendsBehindGate(Sends):
    """Sends, and waits at a gate before its record is done."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def process(self, record: Record) -> None:
        super().process(record)
        self._gate(record)


class SendsWithWork(Sends):
    """Sends after some work."""

    def process(self, record: Record) -> None:
        time.sleep(WORK_S)
        super().process(record)


def test_of_two_owners_of_a_partition_the_one_with_the_later_offsets_commits_first_and_at_once(
    job: MakeJob, topic: MakeTopic
) -> None:
    """The KIP's [40-44] and [45-49]: no commit waits for a lower offset of another owner."""
    lower, upper = (
        next(key for key in keys_of(50, 50) if key_hash(key.encode()) in half)
        for half in WHOLE.parts(2)
    )
    totals, gate = topic(1), Gate(lower)
    orders = job(1, **ONCE, **{"output.topics": totals})

    def member() -> WorkerPool:
        return WorkerPool(SendsBehindGate(gate), orders.settings, [orders.topic], workers=2)

    def seen() -> list[Place]:
        return [place for _, place in places_of(visible(orders, totals))]

    with member() as one, member() as other:
        eventually(
            lambda: [held for pool in (one, other) for held in pool.assignment().values()],
            lambda held: len(held) == 2 and (WHOLE,) not in held,
        )
        places = orders.produce([upper] * 40)
        eventually(seen, lambda found: found == places)
        first, second = orders.produce([lower] * 5), orders.produce([upper] * 5)
        assert [offset for _, offset in [*first, *second]] == list(range(40, 50))
        gate.wait_for_arrival()
        eventually(seen, lambda found: found == [*places, *second])
        progress = eventually(
            lambda: orders.log.partition(orders.topic, 0).progress(),
            lambda it: all(it.is_done(key_hash(upper.encode()), offset) for _, offset in second),
        )
        assert progress.stable == 40
        gate.open()
        eventually(seen, lambda found: found == [*places, *second, *first])
        orders.wait_for_lag(0)


def test_members_join_and_leave_twenty_times_and_nobody_waits_for_a_transaction(
    job: MakeJob, topic: MakeTopic
) -> None:
    """parallel-consumer#803, #541: who joined waited for the commit lock of another, for good."""
    totals = topic(2)
    orders = job(2, **ONCE, **{"output.topics": totals})
    feed = Feed(orders, keys=40, batch=20)

    def member() -> WorkerPool:
        return WorkerPool(SendsWithWork, orders.settings, [orders.topic], workers=4)

    waited_s: list[float] = []
    with member() as stays:
        with feed():
            for _ in range(CHANGES):
                began_s = time.monotonic()
                with member() as comes:
                    eventually(lambda it=comes: it.counters.finished)  # type: ignore[misc]
                    waited_s.append(time.monotonic() - began_s)
        eventually(lambda: len(visible(orders, totals, 2)), lambda n: n >= len(feed.places))
        orders.wait_for_lag(0)
        counters = stays.counters
    assert_once(places_of(visible(orders, totals, 2)), feed.places)
    # No benchmark: it tells a wait for a time-out from none. A slow machine pauses, so the median.
    assert median(waited_s) < JOINED_S, waited_s
    assert counters.transactions > CHANGES
    assert counters.transactions_refused <= 2 * CHANGES + 1, "one a member and rebalance"
    assert counters.transactions_in_doubt == 0


class SendsAndFlushes(SendsWithWork):
    """Sends, and has a flush that may be slow."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def flush(self) -> None:
        self._door()


def test_a_range_that_moves_waits_for_a_slow_flush_and_nothing_is_doubled(
    job: MakeJob, topic: MakeTopic
) -> None:
    """quix-streams (checkpoint.py): a slow sink used up the revoke's time, and its records came
    twice. Here the flush takes longer than a session, and no time is up by that.
    """
    totals, door = topic(1), Door()
    orders = job(1, **ONCE, **{"output.topics": totals})
    assert TIMING["session.timeout.ms"] == SESSION_S * 1_000

    def seen() -> list[Place]:
        return [place for _, place in places_of(visible(orders, totals))]

    with WorkerPool(SendsAndFlushes(door), orders.settings, [orders.topic], workers=2) as old:
        places = orders.produce(keys_of(40, 20))
        eventually(lambda: len(seen()), lambda count: count == 40)
        door.shut()
        places += orders.produce(keys_of(40, 20))
        door.wait_for_arrival()
        eventually(lambda: old.counters.finished, lambda count: count == 80)
        shut_s = time.monotonic()
        with WorkerPool(SendsWithWork, orders.settings, [orders.topic], workers=2) as new:
            eventually(lambda: is_settled(orders, members=2))
            eventually(lambda: time.monotonic() - shut_s, lambda waited_s: waited_s > SESSION_S)
            assert is_settled(orders, members=2), "nobody was put out"
            assert not new.assignment(), "the release waits"
            assert len(seen()) == 40
            door.open()
            eventually(lambda: len(seen()), lambda count: count >= 80)
            places += orders.produce(keys_of(40, 40))
            eventually(lambda: len(seen()), lambda count: count >= 120)
            orders.wait_for_lag(0)
            assert new.counters.finished, "a part has moved"
            assert new.counters.finished + old.counters.finished == 120, "no record came again"
    assert_once(places_of(visible(orders, totals)), places)
