"""An autoscaler follows our advice: the backlog goes, and nothing flaps. By seed, in a model."""

from __future__ import annotations

from math import ceil

import pytest

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


chunks = pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))


@chunks
def test_a_step_is_followed_in_time_and_nothing_flaps(first: int) -> None:
    for seed in range(first, first + CHUNK):
        model = GroupModel(seed, step)
        course = model.run(END_S)
        gone_s = course.gone_at(UP_S, HIGH) - UP_S
        assert gone_s <= 1.5 * TARGET_S, f"seed {seed}: the backlog is gone after {gone_s} s"
        assert max(course.rest[UP_S + gone_s : DOWN_S]) < 2 * HIGH, f"seed {seed}: it comes back"
        assert course.turns(course.replicas) <= TURNS_MAX, f"seed {seed}: {course.replicas}"
        assert course.turns(course.wanted) <= TURNS_MAX, f"seed {seed}: {course.wanted}"
        assert min(course.wanted[LOOK_EVERY_S:]) >= 1, (
            f"seed {seed}: no member is wanted while records arrive"
        )
        assert course.replicas[-1] == 1, f"seed {seed}: members stay for nothing"


@chunks
def test_a_hot_key_gets_no_member_that_cannot_help(first: int) -> None:
    for seed in range(first, first + CHUNK):
        model = GroupModel(seed, step, hot_share=HOT_SHARE)
        course = model.run(END_S)
        # One worker for the key, the others for what else arrives; half as many again at most for
        # what was left before they came.
        busy = 1.0 + (1.0 - HOT_SHARE) * HIGH * HANDLER_S
        helpful = ceil(busy * 1.5 / (0.7 * model.workers))
        assert max(course.wanted) <= helpful, f"seed {seed}: {max(course.wanted)} > {helpful}"
        settled = course.wanted[DOWN_S - 120 : DOWN_S]
        due = ceil(busy / 0.9 / model.workers), ceil(busy / 0.7 / model.workers)
        assert due[0] <= min(settled) <= max(settled) <= due[1], f"seed {seed}: {settled}"
        assert max(course.rest[DOWN_S - 120 : DOWN_S]) < HIGH, f"seed {seed}: others wait"
        assert course.turns(course.wanted) <= TURNS_MAX, f"seed {seed}: {course.wanted}"
        told = course.advices[DOWN_S // 5 - 1].reason
        assert "key N725MQ is 61 % of the work of orders-0" in told, f"seed {seed}: {told}"
