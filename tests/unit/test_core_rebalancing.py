"""When the lead asks for a plan by newer loads: only if it helps, and seldom."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from assignors import (
    KEY_HASH_MAX,
    Assignment,
    KeyRangeStickyAssignor,
    Member,
    TopicPartition,
    check_cover,
)
from coop_consumer.core.rebalancing import (
    PAUSE_MAX_MS,
    PAUSE_MS,
    ROUND_MS,
    MemberReport,
    Rebalancing,
    spread_of,
)
from tests.support.weighing import Weighing

WORKER_PS = 10**12


def reports(*loads: int, busy: int = 900) -> dict[str, MemberReport]:
    return {f"m{i}": MemberReport(1, busy, load) for i, load in enumerate(loads)}


UNEVEN, EVEN = reports(150, 90, 60), reports(105, 100, 95)


def asked_at(
    rebalancing: Rebalancing, told: Mapping[str, MemberReport], from_ms: int, to_ms: int
) -> list[int]:
    """When it asks, if members report the same all the time, and each plan changes nothing."""
    asked = []
    for now_ms in range(from_ms, to_ms, 5_000):
        if rebalancing.why(told, now_ms):
            asked.append(now_ms)
            rebalancing.assigned(now_ms)
    return asked


# ---- the spread ----------------------------------------------------------------------------------


def test_what_can_be_divided_can_be_even() -> None:
    spread = spread_of(reports(90, 30).values())
    assert (spread.most, spread.mean, spread.most_after, spread.relief) == (90, 60, 60, 30)


def test_a_hash_that_fills_a_worker_is_no_relief() -> None:
    hot = [MemberReport(1, 0, 90, heavy=(90,)), MemberReport(1, 0, 30)]
    assert spread_of(hot).relief == 0


def test_beside_a_hash_that_fills_a_worker_the_others_still_even_out() -> None:
    hot = [MemberReport(1, 0, 120, heavy=(80,)), MemberReport(1, 0, 30), MemberReport(1, 0, 30)]
    spread = spread_of(hot)
    assert (spread.most, spread.most_after) == (120, 80)


def test_of_many_workers_one_hash_fills_only_one() -> None:
    hot = [MemberReport(4, 0, 100, heavy=(40,)), MemberReport(4, 0, 20)]
    spread = spread_of(hot)
    assert spread.most == 25
    assert spread.most_after == (3 * (80 // 7) + 40) // 4


def test_capacities_count() -> None:
    assert spread_of([MemberReport(3, 0, 90), MemberReport(1, 0, 30)]).relief == 0


# ---- when ----------------------------------------------------------------------------------------


def test_two_rounds_of_uneven_reports_ask_for_a_plan() -> None:
    rebalancing = Rebalancing()
    assert not rebalancing.why(UNEVEN, 1_000)
    assert not rebalancing.why(UNEVEN, 1_000 + ROUND_MS - 1), "no round yet"
    why = rebalancing.why(UNEVEN, 1_000 + ROUND_MS)
    assert why == "m0 has 1.50 x the load that members have on average; 1.00 x is possible"


def test_one_even_round_between_them_begins_the_count_anew() -> None:
    rebalancing = Rebalancing()
    for number, told in enumerate((UNEVEN, EVEN, UNEVEN, EVEN, UNEVEN)):
        assert not rebalancing.why(told, number * ROUND_MS)


def test_a_relief_of_fifteen_percent_of_the_mean_is_not_worth_it() -> None:
    assert not asked_at(Rebalancing(), reports(115, 100, 85), 0, 3_600_000)
    assert asked_at(Rebalancing(), reports(116, 100, 84), 0, 3_600_000)


def test_a_group_that_is_not_busy_is_left_alone() -> None:
    assert not asked_at(Rebalancing(), reports(150, 90, 60, busy=600), 0, 3_600_000)
    assert asked_at(Rebalancing(), reports(150, 90, 60, busy=601), 0, 3_600_000)


@pytest.mark.parametrize("told", [{}, reports(0, 0, 0), reports(1, 0, 0), reports(10**30, 10**30)])
def test_reports_that_say_nothing_ask_for_nothing(told: dict[str, MemberReport]) -> None:
    assert not asked_at(Rebalancing(), told, 0, 600_000)


def test_reports_of_the_plan_before_do_not_count() -> None:
    rebalancing = Rebalancing()
    rebalancing.why(UNEVEN, 0)
    rebalancing.assigned(1_000)
    assert asked_at(rebalancing, UNEVEN, 2_000, 91_000) == []


def test_between_two_questions_lie_three_minutes_and_more_if_it_does_not_help() -> None:
    asked = asked_at(Rebalancing(), UNEVEN, 0, 10 * 3_600_000)
    pauses = [other - one for one, other in pairwise(asked)]
    for number, pause in enumerate(pauses):
        least = min(PAUSE_MS * 2 ** (number + 1), PAUSE_MAX_MS)
        assert least <= pause <= least + 2 * ROUND_MS


def test_after_one_that_has_helped_the_next_may_come_in_three_minutes() -> None:
    rebalancing = Rebalancing()
    [at_ms] = asked_at(rebalancing, UNEVEN, 0, 2 * ROUND_MS)
    assert not rebalancing.why(EVEN, at_ms + 60_000)
    asked = asked_at(rebalancing, UNEVEN, at_ms + 60_000 + ROUND_MS, at_ms + 2 * PAUSE_MS)
    assert asked == [at_ms + PAUSE_MS]


# ---- a group over hours --------------------------------------------------------------------------


@dataclass
class Drifting:
    """Twelve members that share keys whose loads change, and the lead that watches them.

    Each member measures with a half-life of one minute, and some noise.
    """

    seed: int
    count: int = 12
    partitions: int = 3
    keys: int = 400
    skew: float = 0.6
    noise: float = 0.0
    asked_ms: list[int] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    ranges_max: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        tps = [TopicPartition("t", number) for number in range(self.partitions)]
        self.places = [
            (self.rng.choice(tps), self.rng.randrange(KEY_HASH_MAX)) for _ in range(self.keys)
        ]
        shares = [1 / rank**self.skew for rank in range(1, self.keys + 1)]
        work = 0.8 * self.count * WORKER_PS / sum(shares)
        self.loads = [share * work for share in shares]
        self.seen = list(self.loads)
        self.members = [Member(f"M{number:02}", ("t",)) for number in range(self.count)]
        self.plan = self._planned({})

    def run(self, minutes: int, swap_minutes: int = 0) -> None:
        """Let time pass.

        Args:
            minutes: How much.
            swap_minutes: So often each of the two heaviest keys changes places with another one.
        """
        rebalancing = Rebalancing()
        rebalancing.assigned(0)
        for now_ms in range(ROUND_MS, minutes * 60_000, ROUND_MS):
            if swap_minutes and now_ms % (swap_minutes * 60_000) == 0:
                self._swap()
            self.seen = [
                math.sqrt(0.5) * before + (1 - math.sqrt(0.5)) * now * self._noise()
                for before, now in zip(self.seen, self.loads, strict=True)
            ]
            measured = self._weighing(self.seen)
            if rebalancing.why(self._reports(measured), now_ms):
                self.asked_ms.append(now_ms)
                self.plan = self._planned(self.plan, measured)
                rebalancing.assigned(now_ms)
            self._note()

    def _noise(self) -> float:
        return self.rng.lognormvariate(0, self.noise) if self.noise else 1.0

    def _swap(self) -> None:
        heaviest = sorted(range(self.keys), key=lambda it: -self.loads[it])[:2]
        for one in heaviest:
            other = self.rng.randrange(self.keys)
            self.loads[one], self.loads[other] = self.loads[other], self.loads[one]

    def _weighing(self, loads: list[float]) -> Weighing:
        keys: dict[TopicPartition, dict[int, int]] = {}
        for (tp, key_hash), load in zip(self.places, loads, strict=True):
            keys.setdefault(tp, {})[key_hash] = int(load)
        return Weighing(keys)

    def _reports(self, measured: Weighing) -> dict[str, MemberReport]:
        heavy = {
            name: [
                it.weight * one.load.pace
                for tp, ranges in own.items()
                for one in (measured.claim(tp, ranges),)
                for it in one.load.heavy
            ]
            for name, own in self.plan.items()
        }
        return {
            name: MemberReport(
                1,
                min(1_000, load * 1_000 // WORKER_PS),
                load,
                tuple(sorted(heavy[name], reverse=True)[:4]),
            )
            for name, load in measured.carried(self.plan).items()
        }

    def _planned(self, before: Assignment, measured: Weighing | None = None) -> Assignment:
        members = measured.owning(self.members, before) if measured else self.members
        counts = {"t": self.partitions}
        plan = KeyRangeStickyAssignor().assign(partitions=counts, members=members)
        check_cover(plan, counts, members)
        ranges = sum(len(it) for own in plan.values() for it in own.values())
        self.ranges_max = max(self.ranges_max, ranges)
        return plan

    def _note(self) -> None:
        true = self._weighing(self.loads)
        most = max(true.carried(self.plan).values())
        self.peaks.append(most / max(true.total / self.count, true.heaviest))


@pytest.mark.parametrize("seed", range(3))
def test_a_steady_load_is_evened_out_and_then_left_for_half_an_hour(seed: int) -> None:
    group = Drifting(seed, noise=0.08)
    group.run(20)
    before = len(group.asked_ms)
    group.run(30)
    assert before <= 2
    assert len(group.asked_ms) == before
    assert group.peaks[-1] <= 1.15


@pytest.mark.parametrize("seed", range(3))
def test_two_hours_of_drift_cost_few_rebalances_and_stay_even(seed: int) -> None:
    group = Drifting(seed)
    group.run(120, swap_minutes=10)
    assert len(group.asked_ms) <= 30
    assert sum(group.peaks) / len(group.peaks) <= 1.2
    assert group.ranges_max <= 5 * group.count
    assert min(other - one for one, other in pairwise(group.asked_ms)) >= PAUSE_MS
