"""An autoscaler follows our advice: the backlog goes, and nothing flaps. By seed, in a model.

`problem(seed)` names what goes wrong under a seed, or is empty. Bugs are planted to see that it
would name them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from math import ceil, inf

import pytest

from coop_consumer.status import demand, scale
from coop_consumer.status.demand import PartitionNeed
from tests.simulation.autoscaling import HANDLER_S, LOOK_EVERY_S, TARGET_S, GroupModel

SEEDS = 1_000
CHUNK = 100
UP_S, DOWN_S, END_S = 90, 540, 1_020
LOW, HIGH = 200.0, 3_000.0
HOT_SHARE = 0.61
TURNS_MAX = 3


def step(now_s: int) -> float:
    """A step from 200 records a second to 3,000, and back."""
    return HIGH if UP_S <= now_s < DOWN_S else LOW


def problem(seed: int) -> str:
    """What goes wrong with a step."""
    course = GroupModel(seed, step).run(END_S)
    gone_s = course.gone_at(UP_S, HIGH) - UP_S
    if gone_s > 1.5 * TARGET_S:
        return f"the backlog is gone after {gone_s} s only"
    if course.turns(course.replicas) > TURNS_MAX or course.turns(course.wanted) > TURNS_MAX:
        return f"it flaps: {course.wanted}"
    if min(course.wanted[LOOK_EVERY_S:]) < 1:
        return "nobody is wanted while records arrive"
    return "" if course.replicas[-1] == 1 else f"{course.replicas[-1]} members stay for nothing"


def problem_of_a_hot_key(seed: int) -> str:
    """What goes wrong with a step of which one key has 61 %."""
    model = GroupModel(seed, step, hot_share=HOT_SHARE)
    course = model.run(END_S)
    # One worker for the key, the others for what else arrives; half as many again at most for what
    # was left before they came.
    busy = 1.0 + (1.0 - HOT_SHARE) * HIGH * HANDLER_S
    helpful = ceil(busy * 1.5 / (0.7 * model.workers))
    if max(course.wanted) > helpful:
        return f"{max(course.wanted)} are wanted, and {helpful} would help"
    settled = course.wanted[DOWN_S - 120 : DOWN_S]
    least, most = ceil(busy / 0.9 / model.workers), ceil(busy / 0.7 / model.workers)
    if not least <= min(settled) <= max(settled) <= most:
        return f"{set(settled)} are wanted, and {least} to {most} would help"
    if max(course.rest[DOWN_S - 120 : DOWN_S]) > HIGH:
        return "the other keys wait"
    if course.turns(course.wanted) > TURNS_MAX:
        return f"it flaps: {course.wanted}"
    told = course.advices[DOWN_S // LOOK_EVERY_S - 1].reason
    is_told = "more members won't help: key N725MQ is 61 % of the work of orders-0" in told
    return "" if is_told else f"the reason does not name the key: {told}"


chunks = pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))


@chunks
def test_a_step_is_followed_in_time_and_nothing_flaps(first: int) -> None:
    found = {seed: problem(seed) for seed in range(first, first + CHUNK)}
    assert {seed: text for seed, text in found.items() if text} == {}


@chunks
def test_a_hot_key_gets_no_member_that_cannot_help(first: int) -> None:
    found = {seed: problem_of_a_hot_key(seed) for seed in range(first, first + CHUNK)}
    assert {seed: text for seed, text in found.items() if text} == {}


@pytest.mark.parametrize(("rate", "handler_s"), [(HIGH, HANDLER_S), (3.0, 5.0)])
def test_a_steady_load_never_wants_more_and_then_fewer(rate: float, handler_s: float) -> None:
    for seed in range(20):
        course = GroupModel(seed, lambda _: rate, handler_s=handler_s).run(1_200)
        settled = course.wanted[300:]
        assert course.turns(settled) == 0, f"seed {seed}: {settled}"


# -- planted bugs ----------------------------------------------------------------------------------


def first_problem(of: Callable[[int], str]) -> str:
    """The first problem of the first seeds; "": there is none."""
    return next(islice(filter(None, map(of, range(40))), 1), "")


def test_keys_that_count_as_any_other_work_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand, "_with_keys", lambda _, offered, __: (offered, inf, ""))
    assert "would help" in first_problem(problem_of_a_hot_key)


def test_an_advice_by_what_arrives_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def arriving(need: PartitionNeed, _: float) -> float:
        return need.arrivals

    monkeypatch.setattr(demand, "_records", arriving)
    assert "the backlog is gone after" in first_problem(problem)


def test_an_advice_by_what_is_left_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def left(need: PartitionNeed, within_s: float) -> float:
        return need.left / within_s

    monkeypatch.setattr(demand, "_records", left)
    assert first_problem(problem)


def test_an_advice_without_a_band_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # 15 workers are 4 members of 4 that are full to 0.9375: chance decides on which side.
    monkeypatch.setattr(scale, "_FULL", 0.935)
    assert first_problem(problem) == ""
    monkeypatch.setattr(scale, "_ENOUGH", 0.935)
    assert "it flaps" in first_problem(problem)
