"""Hot keys drift: the load asks for plans seldom, and the work stays even. By seed, in a model."""

from __future__ import annotations

from statistics import mean

import pytest

from assignors import KeyRangeStickyAssignor
from coop_consumer.core import rebalancing
from tests.simulation import drifting
from tests.simulation.drifting import DriftModel

HOUR_S = 3_600
FIRST_PLAN_S = 300
SWAP_S = 300
REBALANCES_MAX, UNEVEN_MAX = 30, 1.2


@pytest.mark.parametrize("seed", range(3))
def test_a_steady_load_asks_for_nothing_once_a_plan_has_gone_by_it(seed: int) -> None:
    course = DriftModel(seed).run(FIRST_PLAN_S + HOUR_S // 2)
    assert [at for at in course.asked_s if at > FIRST_PLAN_S] == []
    assert course.uneven[-1] <= 1.1


@pytest.mark.parametrize("seed", range(2))
def test_while_hot_keys_swap_the_work_stays_even_with_few_plans(seed: int) -> None:
    course = DriftModel(seed, swap_s=SWAP_S).run(2 * HOUR_S)
    assert 2 <= len(course.asked_s) <= REBALANCES_MAX
    assert mean(course.uneven) <= UNEVEN_MAX


# -- planted bugs ----------------------------------------------------------------------------------


def test_a_lead_that_asks_for_every_bit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "_RELIEF_PER_MILLE", 10)
    course = DriftModel(0).run(FIRST_PLAN_S + HOUR_S // 2)
    assert [at for at in course.asked_s if at > FIRST_PLAN_S]


def test_plans_that_do_not_go_by_load_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drifting, "KeyRangeStickyAssignor", even_plans)
    course = DriftModel(0, swap_s=SWAP_S).run(HOUR_S // 2)
    assert mean(course.uneven) > UNEVEN_MAX


def even_plans() -> KeyRangeStickyAssignor:
    return KeyRangeStickyAssignor(by_load=False)
