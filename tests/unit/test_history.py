"""Thirty minutes of figures: bounded, with holes where nothing is known, no NaN."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from coop_consumer.ops.group_metrics import GroupLook
from coop_consumer.ops.history import (
    POINTS_MAX,
    SPAN_MS,
    STEP_MS,
    GroupHistory,
    MemberHistory,
    Series,
)
from coop_consumer.status.load import GroupLoad, MemberWork
from coop_consumer.status.model import GroupStatus, PartitionStatus
from coop_consumer.status.remaining import Remaining
from tests.unit.full_metrics import full_metrics
from tests.unit.test_group_metrics import ADVICE, NOW_MS, PARTITION, STATUS, standing

UNSEEN = GroupLook("billing", 0.1, 5.0)


def status(end: int, left: int, **changes: object) -> GroupStatus:
    partition: PartitionStatus = replace(PARTITION, end=end, remaining=Remaining(left, 0))
    return replace(STATUS, partitions=(partition,), **changes)  # type: ignore[arg-type]


def look(end: int, left: int, **changes: object) -> GroupLook:
    return GroupLook("billing", 0.1, 5.0, status(end, left, **changes), ADVICE)


def series(history: GroupHistory | MemberHistory, name: str) -> Series:
    return next(it for it in history.series() if it.name == name)


def values(history: GroupHistory | MemberHistory, name: str) -> list[float | None]:
    return [value for _, value in series(history, name).points]


def test_a_look_gives_a_point_of_each_figure() -> None:
    history = GroupHistory()
    works = (
        MemberWork("m1", NOW_MS, 10, 0.5, 4_000, 90),
        MemberWork("m2", NOW_MS, 30, 0.9, 4_000, 90),
    )
    history.note(look(100, 40, load=GroupLoad(works=works)), NOW_MS)
    found = {it.name: it.points[0][1] for it in history.series()}
    assert found == {
        "left": 40.0,
        "lag": 57.0,
        "arrivals": ADVICE.arrivals,
        "finished": None,
        "members": float(len(STATUS.members)),
        "wanted": float(ADVICE.wanted),
        "busy": 0.8,
        "parked": 1.0,
        "failing": 1.0,
        "blocked_s": 30.0,
    }


def test_what_is_done_is_what_arrived_less_what_is_left_more() -> None:
    history = GroupHistory()
    history.note(look(100, 40), 0)
    history.note(look(300, 140), STEP_MS)
    assert values(history, "finished") == [None, 10.0]


def test_of_several_looks_in_a_step_the_last_counts_and_rates_are_over_a_step() -> None:
    history = GroupHistory()
    for at_ms in range(0, 2 * STEP_MS, 2_000):
        history.note(look(100 + at_ms // 10, 40), at_ms)
    assert [at for at, _ in series(history, "left").points] == [8_000, 18_000]
    assert values(history, "finished") == [None, 100.0]


def test_an_estimate_that_rises_is_no_negative_rate() -> None:
    history = GroupHistory()
    history.note(look(100, 40), 0)
    history.note(look(100, 90), STEP_MS)
    assert values(history, "finished") == [None, 0.0]


def test_a_look_that_failed_is_a_hole_and_no_rate_spans_it() -> None:
    history = GroupHistory()
    history.note(look(100, 40), 0)
    history.note(UNSEEN, STEP_MS)
    history.note(look(900, 40), 2 * STEP_MS)
    assert values(history, "left") == [40.0, None, 40.0]
    assert values(history, "finished") == [None, None, None]


def test_a_record_of_which_nobody_says_since_when_it_stands_counts_from_its_first_look() -> None:
    history = GroupHistory()
    for at_ms in (NOW_MS, NOW_MS + STEP_MS):
        history.note(GroupLook("billing", 0.1, 5.0, standing(at_ms), ADVICE), at_ms)
    unread = standing(NOW_MS + 2 * STEP_MS, holder=None)
    partitions = unread.partitions[:1]
    it = GroupLook("billing", 0.1, 5.0, replace(unread, partitions=partitions), ADVICE)
    history.note(it, NOW_MS + 2 * STEP_MS)
    assert values(history, "blocked_s") == [0.0, 10.0, None]


def test_a_topic_that_was_made_again_has_no_rate() -> None:
    history = GroupHistory()
    history.note(look(100, 40), 0)
    history.note(look(3, 3), STEP_MS)
    assert values(history, "finished") == [None, None]


def test_a_group_without_members_or_partitions_has_its_zeros() -> None:
    history = GroupHistory()
    history.note(
        GroupLook("billing", 0.1, 5.0, replace(STATUS, members=(), partitions=()), None), 0
    )
    assert values(history, "members") == values(history, "left") == [0.0]
    assert values(history, "lag") == values(history, "busy") == values(history, "wanted") == [None]


def test_a_clock_that_is_set_back_begins_the_lines_anew() -> None:
    history = GroupHistory()
    history.note(look(100, 40), SPAN_MS)
    history.note(look(100, 40), STEP_MS)
    assert [at for at, _ in series(history, "left").points] == [STEP_MS]


@given(st.lists(st.integers(0, 40_000), max_size=400))
def test_however_often_somebody_looks_half_an_hour_and_so_many_points_are_kept(
    steps: list[int],
) -> None:
    history, at_ms = GroupHistory(), 0
    for step_ms in steps:
        at_ms += step_ms
        history.note(look(100, 40), at_ms)
    for it in history.series():
        times = [at for at, _ in it.points]
        assert len(times) <= POINTS_MAX
        assert times == sorted(times)
        assert all(at_ms - SPAN_MS < at <= at_ms for at in times)
        assert not any(value != value for _, value in it.points)  # noqa: PLR0124 - NaN alone is


def test_a_members_figures_are_rates_between_two_looks() -> None:
    history, metrics = MemberHistory(), full_metrics()
    topic = metrics.topics["orders"]
    history.note(replace(metrics, at_ms=0))
    later = replace(topic, finished=topic.finished + 50)
    history.note(replace(metrics, at_ms=STEP_MS, topics={"orders": later}))
    assert values(history, "finished") == [None, 5.0]
    assert values(history, "failed") == [None, 0.0]
    assert values(history, "lane_records") == [metrics.lane_records] * 2
