"""Each sample has the figure of its name: all figures of a member differ here."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from coop_consumer.core.counters import Counters
from coop_consumer.core.histogram import STEP_S, Durations, Histogram
from coop_consumer.core.metrics import (
    KeyedStateMetrics,
    MemberMetrics,
    MemberPhase,
    TopicMetrics,
    TransactionMetrics,
    metrics_at_rest,
)
from coop_consumer.core.tally import FailureReason, FetchBound, SkipReason, Tally
from coop_consumer.ops.samples import member_samples
from offsets import UnreadableReason

Place = tuple[str, ...]


def lasting(seconds: float) -> Durations:
    """One duration."""
    found = Histogram(STEP_S)
    found.observe(seconds)
    return found.now()


METRICS = MemberMetrics(
    group="billing",
    member="m1",
    phase=MemberPhase.WORKING,
    at_ms=0,
    topics={
        "orders": TopicMetrics(
            fetched=1,
            finished=2,
            failed={FailureReason.RAISED.value: 3, FailureReason.OUTAGE.value: 4},
            retried=5,
            skipped={SkipReason.DECISION.value: 6},
            dead_lettered=7,
            expired=8,
            lost_to_retention=9,
            handler=lasting(10),
            age=lasting(11),
            queue=lasting(12),
            range_share=0.13,
        )
    },
    workers=20,
    workers_busy=21,
    lane_records=22,
    lane_bytes=23,
    lane_keys=24,
    keys_backing_off=25,
    keys_parked=26,
    keys_overdue=27,
    bound=FetchBound.RECORDS,
    walled=2,
    fetch_held_s=28.5,
    commits=29,
    commit_bytes=30,
    commit=lasting(31),
    commit_age_s=32.5,
    flush=lasting(33),
    rebalances=34,
    handover=lasting(35),
    ranges_waiting=36,
    forced_releases=37,
    client_renewals=38,
    log_unreadable={UnreadableReason.CORRUPT_VALUE.value: 39},
    child_restarts=40,
    outputs_waiting=41,
    output_bytes_waiting=42,
    undecided_input_s=43.5,
    undecided_log_s=44.5,
    transactions=TransactionMetrics(
        committed=50,
        refused=51,
        aborted=52,
        in_doubt=53,
        outputs=54,
        steps_s={"effects": 55.5, "progress": 56.5, "check": 57.5, "commit": 58.5},
        fences=59,
    ),
    keyed_state=KeyedStateMetrics(restores=60, restore=lasting(61), records_read=62, bytes=63),
    clients={"fetch": {"requests_total": 70.0}, "commit": {"requests_total": 71.0}},
)
OF_ORDERS: dict[Place, float] = {
    ("records_fetched_total",): 1,
    ("records_finished_total",): 2,
    ("records_failed_total", "raised"): 3,
    ("records_failed_total", "outage"): 4,
    ("records_failed_total", "overdue"): 0,
    ("records_failed_total", "process_ended"): 0,
    ("records_failed_total", "output_refused"): 0,
    ("records_retried_total",): 5,
    ("records_skipped_total", "policy"): 0,
    ("records_skipped_total", "decision"): 6,
    ("records_dead_lettered_total",): 7,
    ("records_expired_total",): 8,
    ("lost_to_retention_total",): 9,
    ("handler_seconds",): 10,
    ("record_age_seconds",): 11,
    ("queue_seconds",): 12,
    ("range_share",): 0.13,
}
OF_MEMBER: dict[Place, float] = {
    ("workers",): 20,
    ("workers_busy",): 21,
    ("lane_records",): 22,
    ("lane_bytes",): 23,
    ("lane_keys",): 24,
    ("keys_backing_off",): 25,
    ("keys_parked",): 26,
    ("keys_overdue",): 27,
    ("bound_reached", "ready"): 0,
    ("bound_reached", "records"): 1,
    ("bound_reached", "bytes"): 0,
    ("bound_reached", "gap_ranges"): 1,
    ("fetch_held_seconds_total",): 28.5,
    ("commits_total",): 29,
    ("commit_bytes_total",): 30,
    ("commit_seconds",): 31,
    ("commit_age_seconds",): 32.5,
    ("flush_seconds",): 33,
    ("rebalances_total",): 34,
    ("handover_seconds",): 35,
    ("ranges_waiting",): 36,
    ("forced_releases_total",): 37,
    ("client_renewals_total",): 38,
    ("log_unreadable_total", "corrupt key"): 0,
    ("log_unreadable_total", "corrupt value"): 39,
    ("log_unreadable_total", "unknown version"): 0,
    ("child_restarts_total",): 40,
    ("outputs_waiting",): 41,
    ("output_bytes_waiting",): 42,
    ("undecided_seconds", "input"): 43.5,
    ("undecided_seconds", "log"): 44.5,
    ("transactions_total", "committed"): 50,
    ("transactions_total", "refused"): 51,
    ("transactions_total", "aborted"): 52,
    ("transactions_total", "in_doubt"): 53,
    ("transaction_outputs_total",): 54,
    ("transaction_seconds_total", "effects"): 55.5,
    ("transaction_seconds_total", "progress"): 56.5,
    ("transaction_seconds_total", "check"): 57.5,
    ("transaction_seconds_total", "commit"): 58.5,
    ("fences_total",): 59,
    ("state_restore_seconds",): 61,
    ("state_restored_records_total",): 62,
    ("state_bytes",): 63,
    ("client_requests_total", "fetch"): 70,
    ("client_requests_total", "commit"): 71,
}


def shown(metrics: MemberMetrics) -> dict[Place, float]:
    """The value of each sample, by name and labels but for the group; of a histogram its sum."""
    found = {}
    for it in member_samples(metrics):
        assert it.labels[0] == "billing"
        value = it.value.sum_s if isinstance(it.value, Durations) else float(it.value)
        found[it.name.removeprefix("coop_"), *it.labels[1:]] = value
    return found


def test_each_sample_has_the_figure_of_its_name() -> None:
    found = shown(METRICS)
    expected = {(name, "orders", *labels): value for (name, *labels), value in OF_ORDERS.items()}
    expected |= OF_MEMBER
    states = {place: value for place, value in found.items() if place[0] == "member_state"}
    [info] = [place for place in found if place[0] == "member_info"]
    assert {place: found[place] for place in expected} == expected
    assert set(found) == {*expected, *states, info}
    assert {state for (_, state), value in states.items() if value} == {"working"}
    assert (info[1], found[info]) == ("m1", 1)


def test_no_two_figures_here_are_the_same_by_chance() -> None:
    values = [value for value in (*OF_ORDERS.values(), *OF_MEMBER.values()) if value not in (0, 1)]
    assert len(values) == len(set(values))


COUNTED = {
    "commits": "commits",
    "commit_bytes": "commit_bytes",
    "forced": "forced_releases",
    "renewed": "client_renewals",
    "transactions": "transactions.committed",
    "transactions_refused": "transactions.refused",
    "transactions_aborted": "transactions.aborted",
    "transactions_in_doubt": "transactions.in_doubt",
    "outputs": "transactions.outputs",
    "fences": "transactions.fences",
}
"""A counter of the core → the figure of the member that it becomes."""


def test_each_counter_becomes_the_figure_of_its_name() -> None:
    counters = Counters(**{name: 100 + at for at, name in enumerate(COUNTED)})
    counters = replace(counters, effects_ms=1e3, progress_ms=2e3, check_ms=3e3, commit_ms=4e3)
    tally = Tally(rebalances=5, held_ms=6_500, child_restarts=7, memory_bytes=8)
    tally.unreadable.update({"corrupt key": 9})
    for at, durations in enumerate((tally.commit, tally.flush, tally.handover)):
        durations.observe(10.0 + at)
    topic = tally.of("orders")
    numbers = [it.name for it in fields(topic) if isinstance(getattr(topic, it.name), int)]
    for at, name in enumerate(numbers):
        setattr(topic, name, 20 + at)
    topic.failed.update({FailureReason.OVERDUE: 30})
    topic.skipped.update({SkipReason.POLICY: 31})
    for at, durations in enumerate((topic.handler, topic.age, topic.queue)):
        durations.observe(40.0 + at)
    found = metrics_at_rest(
        "g", "m1", MemberPhase.ENDED, counters, tally, now_ms=1, exactly_once=True
    )

    for at, figure in enumerate(COUNTED.values()):
        value: Any = found
        for name in figure.split("."):
            value = getattr(value, name)
        assert value == 100 + at, figure
    assert found.transactions is not None
    assert found.transactions.steps_s == {"effects": 1, "progress": 2, "check": 3, "commit": 4}
    assert (found.rebalances, found.fetch_held_s, found.child_restarts) == (5, 6.5, 7)
    assert (found.memory_bytes, found.log_unreadable) == (8, {"corrupt key": 9})
    assert [it.sum_s for it in (found.commit, found.flush, found.handover)] == [10, 11, 12]
    shown = found.topics["orders"]
    assert len(numbers) >= 6
    assert [getattr(shown, name) for name in numbers] == [*range(20, 20 + len(numbers))]
    assert (shown.failed, shown.skipped) == ({"overdue": 30}, {"policy": 31})
    assert [it.sum_s for it in (shown.handler, shown.age, shown.queue)] == [40, 41, 42]
