"""A group changes its guarantee, both ways, while members run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from coop_consumer import WorkerPool
from coop_consumer.errors import ContractMismatchError
from tests.integration.test_exactly_once import KEYS, ONCE, visible
from tests.support.brokers import MakeTopic
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.sending import Sends, places_of
from tests.support.stock import eventually

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]

LEAST = {"processing.guarantee": "at_least_once"}


@pytest.mark.parametrize(("before", "after"), [(LEAST, ONCE), (ONCE, LEAST)])
def test_one_member_after_the_other_is_replaced(
    job: MakeJob, topic: MakeTopic, before: dict[str, str], after: dict[str, str]
) -> None:
    totals = topic(1)
    orders = job(2, **{"output.topics": totals, "mirror.interval.ms": 100})
    produced = orders.produce(KEYS[:50])

    def member(guarantee: dict[str, str]) -> WorkerPool:
        return WorkerPool(Sends, {**orders.settings, **guarantee}, [orders.topic], workers=2)

    def done() -> set[tuple[int, int]]:
        return {place for _, place in places_of(visible(orders, totals))}

    with ExitStack() as until_end:
        first, second = member(before), member(before)
        first.start()
        second.start()
        eventually(done, lambda places: places == set(produced))
        new = until_end.enter_context(member(after))
        produced += orders.produce(KEYS[:50])
        eventually(done, lambda places: places == set(produced))
        assert not new.wait(0), "it waits for its turn"
        assert new.counters.finished == 0, "two meanings of progress never work side by side"
        first.close()
        assert first.wait(WAIT_S)
        until_end.enter_context(member(after))
        with pytest.raises(ContractMismatchError):
            second.wait(WAIT_S)
        produced += orders.produce(KEYS[:50])
        eventually(done, lambda places: places == set(produced))
    orders.wait_until_empty()
    tags = {metadata.split(":")[0] for _, metadata in orders.committed().values() if metadata}
    assert tags == {"coop-eo" if after is ONCE else "coop"}
    repeated = len(places_of(visible(orders, totals))) - len(produced)
    assert repeated <= 100, "no more than what was done above the mirrored offset"
