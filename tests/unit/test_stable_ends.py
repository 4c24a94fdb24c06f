"""A fetch that an undecided transaction holds up is seen without a question to brokers."""

from __future__ import annotations

import pytest

from coop_consumer.kafka.stable_ends import LOOK_S, StableEnds

Waits = list[dict[str, int]]


@pytest.fixture
def told() -> Waits:
    return []


@pytest.fixture
def ends(told: Waits) -> StableEnds:
    return StableEnds[str](lambda waits: told.append(dict(waits)))


def test_what_lies_above_the_position_in_two_looks_holds_the_fetch_up(
    ends: StableEnds, told: Waits
) -> None:
    ends.looked({"orders-0": (20, 25), "orders-1": (7, 7)}, 1.0)
    assert told == []
    ends.looked({"orders-0": (20, 26), "orders-1": (7, 7)}, 2.5)
    ends.looked({"orders-0": (20, 26)}, 4.0)
    assert told == [{"orders-0": 1_500}, {"orders-0": 3_000}]


def test_that_it_goes_on_is_told_once(ends: StableEnds, told: Waits) -> None:
    for now_s in (1.0, 2.0):
        ends.looked({"orders-0": (20, 25)}, now_s)
    told.clear()
    ends.looked({"orders-0": (25, 25)}, 3.0)
    ends.looked({}, 4.0)
    assert told == [{}]


def test_short_transactions_one_after_the_other_hold_nothing_up(
    ends: StableEnds, told: Waits
) -> None:
    for number in range(5):
        ends.looked({"orders-0": (20 + number, 25 + number)}, float(number))
    assert told == []


def test_a_look_is_due_once_a_second(ends: StableEnds) -> None:
    assert ends.is_due(0.0)
    ends.looked({}, 5.0)
    assert not ends.is_due(5.0 + LOOK_S - 0.01)
    assert ends.is_due(5.0 + LOOK_S)
