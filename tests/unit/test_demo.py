"""The demo's pure parts: data, legs, judge, options, and what processes tell each other."""

from __future__ import annotations

import io
import json
import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from importlib.metadata import PackageNotFoundError

import pytest
from rich.console import Console

from coop_consumer.demo import DemoOptions, DemoResult, flights
from coop_consumer.demo.aircraft import Leg, legs_in_one_thread, next_leg
from coop_consumer.demo.check import Verdict, judge
from coop_consumer.demo.flights import FLIGHTS, Flight, FlightsMissingError, read_flights
from coop_consumer.demo.makespan import HandledRecords
from coop_consumer.demo.pace import Pace
from coop_consumer.demo.report import ChildReport, ChildRole, MemberTask
from coop_consumer.demo.skew import KEYS, SkewResult, _hot_keys_told, keyed
from coop_consumer.demo.skew_round import RoundResult, SkewSizes
from coop_consumer.demo.topics import FlightTopics
from coop_consumer.errors import ConfigError

Facts = dict[str, int | None]


@pytest.fixture(scope="module")
def all_flights() -> list[Flight]:
    return read_flights()


def flight(row: int, /, tail: bytes | None = b"N1", **facts: int | None) -> Flight:
    """A flight that left and landed on time, if `facts` don't say otherwise."""
    told = {"row": row, "scheduled": row * 600, "dep_delay": 0, "arr_delay": 0, "air_time": 60}
    return Flight(row, tail, json.dumps(told | facts).encode())


def written(legs: Sequence[Leg], tail: bytes = b"N1") -> list[tuple[bytes, Leg]]:
    """Legs as a topic would hold them: their flights lie in partition 0, one after the other."""
    return [(tail, replace(leg, partition=0, offset=leg.row)) for leg in legs]


# ---- the data ------------------------------------------------------------------------------------


def test_all_flights_are_read_in_time_order(all_flights: list[Flight]) -> None:
    assert len(all_flights) == FLIGHTS == 336_776
    assert [f.row for f in all_flights] == list(range(336_776))
    scheduled = [json.loads(f.value)["scheduled"] for f in all_flights]
    assert scheduled == sorted(scheduled)


def test_flights_without_a_tail_number_have_no_key(all_flights: list[Flight]) -> None:
    assert sum(f.tail is None for f in all_flights) == 2_512
    assert len({f.tail for f in all_flights if f.tail is not None}) == 4_043


def test_the_first_flight_of_the_year_is_as_the_file_has_it(all_flights: list[Flight]) -> None:
    first = all_flights[0]
    assert first.tail == b"N14228"
    assert json.loads(first.value) == {
        "row": 0,
        "flight": "UA1545",
        "from": "EWR",
        "to": "IAH",
        "scheduled": 22_617_255,  # 2013-01-01 10:15 UTC
        "dep_delay": 2,
        "arr_delay": 11,
        "air_time": 227,
    }


def test_a_missing_package_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(flights, "distribution", nothing)
    with pytest.raises(FlightsMissingError, match=r"coop-consumer\[demo\]"):
        read_flights()


# ---- the legs ------------------------------------------------------------------------------------


def test_a_turnaround_is_from_landing_to_the_next_take_off() -> None:
    first, second = legs_in_one_thread([flight(0, dep_delay=10), flight(1, dep_delay=5)])
    assert first.turnaround_min is None
    assert first.landed == 70
    assert second.previous == 0
    assert second.turnaround_min == 605 - 70


@pytest.mark.parametrize(
    ("before", "now", "inherited"),
    [
        ({"arr_delay": 15}, {"dep_delay": 15}, True),
        ({"arr_delay": 14}, {"dep_delay": 15}, False),
        ({"arr_delay": 15}, {"dep_delay": 14}, False),
        ({"arr_delay": 15}, {"dep_delay": 15, "scheduled": 1_486}, False),  # a day later
        ({"arr_delay": 15}, {"dep_delay": 15, "scheduled": 1_485}, True),
        ({"arr_delay": None, "air_time": None}, {"dep_delay": 15}, False),  # diverted
    ],
)
def test_a_delay_is_inherited_from_a_late_leg_within_the_day_before(
    before: Facts, now: Facts, *, inherited: bool
) -> None:
    legs = legs_in_one_thread([flight(0, b"N1", **before), flight(1, b"N1", **now)])
    assert legs[1].inherited is inherited


def test_a_cancelled_flight_is_a_leg_that_never_landed() -> None:
    cancelled = flight(1, dep_delay=None, arr_delay=None, air_time=None)
    legs = legs_in_one_thread([flight(0), cancelled, flight(2)])
    assert (legs[1].landed, legs[1].turnaround_min) == (None, None)
    assert (legs[2].previous, legs[2].turnaround_min) == (1, None)


def test_a_flight_of_no_known_aircraft_follows_nothing_and_nothing_follows_it() -> None:
    legs = legs_in_one_thread([flight(0, None), flight(1, None), flight(2), flight(3)])
    assert [leg.previous for leg in legs] == [None, None, None, 2]


def test_a_leg_survives_its_encoding() -> None:
    leg = next_leg(None, flight(3).value, 2, 17)
    assert Leg.decode(leg.encode()) == leg


# ---- the judge -----------------------------------------------------------------------------------


@pytest.fixture
def expected() -> list[Leg]:
    return legs_in_one_thread([flight(row) for row in range(4)])


def test_a_complete_chain_is_right(expected: list[Leg]) -> None:
    assert judge(written(expected), expected) == Verdict(lost=0, out_of_order=0, repeated=0)


def test_a_repeat_is_counted_and_no_fault(expected: list[Leg]) -> None:
    legs = written(expected)
    verdict = judge([*legs[:3], legs[1], legs[2], legs[3]], expected)
    assert verdict == Verdict(lost=0, out_of_order=0, repeated=2)
    assert verdict.right


def test_a_repeat_that_differs_is_a_fault(expected: list[Leg]) -> None:
    legs = written(expected)
    again = (b"N1", replace(legs[2][1], previous=0))
    assert judge([*legs, again], expected) == Verdict(lost=0, out_of_order=1, repeated=1)


def test_a_missing_leg_is_lost(expected: list[Leg]) -> None:
    legs = written(expected)
    verdict = judge([legs[0], *legs[2:]], expected)
    assert verdict == Verdict(lost=1, out_of_order=0, repeated=0)
    assert not verdict.right


def test_legs_in_the_wrong_order_are_a_fault(expected: list[Leg]) -> None:
    legs = written(expected)
    assert judge([legs[0], legs[2], legs[1], legs[3]], expected).out_of_order == 1


def test_a_leg_after_an_older_state_is_a_fault(expected: list[Leg]) -> None:
    legs = written(expected)
    legs[3] = (b"N1", replace(legs[3][1], previous=1))
    verdict = judge(legs, expected)
    assert verdict.out_of_order == 1
    assert not verdict.right


def test_a_flight_at_two_places_is_a_fault(expected: list[Leg]) -> None:
    legs = written(expected)
    twice = (b"N1", replace(legs[3][1], offset=9))
    assert judge([*legs, twice], expected).out_of_order == 1


# ---- options, results, messages ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"latency_ms": -1.0}, "latency=-1.0 ms"),
        ({"latency_ms": float("nan")}, "latency=nan"),
        ({"latency_ms": float("inf")}, "latency=inf"),
        ({"records": 0}, "records=0"),
        ({"members": 1}, "members=1"),
        ({"workers": 0}, "workers=0"),
        ({"slice_s": 0.0}, "slice=0.0 s"),
        ({"slice_s": float("nan")}, "slice=nan s"),
    ],
)
def test_what_cannot_be_run_is_refused_at_the_door(bad: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        DemoOptions(**bad)  # type: ignore[arg-type]


def test_the_line_of_json_has_the_documented_names_in_order() -> None:
    result = DemoResult(
        workers=64,
        partitions=3,
        records=336_776,
        seconds=40.0,
        plain_group_seconds_estimate=160.0,
        lanes_seconds_estimate=50.0,
        verdict=Verdict(lost=0, out_of_order=0, repeated=7),
    )
    assert json.dumps(result.as_json()) == (
        '{"workers": 64, "partitions": 3, "records": 336776, "seconds": 40.0, '
        '"plain_group_seconds_estimate": 160.0, "speedup": 4.0, "lost": 0, "out_of_order": 0, '
        '"repeated": 7}'
    )
    assert result.ok
    assert not replace(result, verdict=Verdict(lost=1, out_of_order=0, repeated=0)).ok


def test_tasks_and_reports_survive_their_encoding() -> None:
    task = MemberTask(
        role=ChildRole.LANES,
        bootstrap="b:9092",
        group="g",
        topics=FlightTopics("flights", "legs"),
        latency_ms=0.5,
        workers=16,
    )
    assert MemberTask.decode(task.encode()) == task
    report = ChildReport(handled=3, skipped=1, first_s=2.0, now_s=4.0)
    assert ChildReport.decode(report.encode()) == report


def test_joining_does_not_count_against_a_pace() -> None:
    late, early = ChildReport(0, 0, 0.0, 12.0), ChildReport(100, 0, 10.0, 12.0)
    assert Pace.of([late, early]) == Pace(handled=100, first_s=10.0, now_s=12.0)
    assert str(Pace.of([late]).since(Pace())) == "joining"


# ---- skew ----------------------------------------------------------------------------------------


def test_flights_are_keyed_anew_by_destination_and_carrier(all_flights: list[Flight]) -> None:
    some = all_flights[:50]
    by_destination, by_carrier = (keyed(some, KEYS[it]) for it in ("destination", "carrier"))
    assert (by_destination[0].tail, by_carrier[0].tail) == (b"IAH", b"UA")
    assert {len(it.tail or b"") for it in by_destination} == {3}
    assert {it.tail for it in by_carrier} > {b"UA", b"AA", b"B6"}
    assert [it.value for it in by_carrier] == [it.value for it in some]


def worked_off(costs: Sequence[tuple[bytes, float]], workers: int) -> tuple[HandledRecords, float]:
    """A heap of records in order, each by the next idle worker once its key is idle."""
    handled, idle_s = HandledRecords(heap_row=0), [0.0] * workers
    of_keys: dict[bytes, float] = {}
    for row, (key, cost_s) in enumerate(costs):
        began_s = max(heappop(idle_s), of_keys.get(key, 0.0))
        of_keys[key] = began_s + cost_s
        heappush(idle_s, of_keys[key])
        handled.note(key, 0, row, row, began_s=began_s, ended_s=of_keys[key])
    return handled, handled.last_s


def test_nobody_is_quicker_than_the_heaviest_key_nor_than_all_workers() -> None:
    costs = [(b"UA", 0.01)] * 60 + [(bytes([number]), 0.01) for number in range(40)]
    handled, _ = worked_off(costs, workers=12)
    assert handled.least_s(workers=12) == pytest.approx(0.6)
    assert handled.least_s(workers=1) == pytest.approx(1.0)
    assert HandledRecords(heap_row=0).least_s(workers=1) == 0.0


def test_a_heap_is_never_worked_off_in_less_than_the_least_time() -> None:
    """With the mean time of a handler, a heavy key of quick records came to 0.92 of its bound."""
    quick = [(b"UA", 0.005)] * 60 + [(bytes([number]), 0.01) for number in range(40)]
    handled, took_s = worked_off(quick, workers=100)
    assert took_s == pytest.approx(handled.least_s(100)) == pytest.approx(0.3)
    rng = random.Random(1)
    for _ in range(200):
        workers = rng.randint(1, 12)
        costs = [(bytes([rng.randrange(9)]), rng.expovariate(100)) for _ in range(80)]
        handled, took_s = worked_off(costs, workers)
        assert took_s >= handled.least_s(workers) - 1e-9


def test_neither_the_warm_up_nor_a_repeat_is_part_of_the_least_time() -> None:
    handled = HandledRecords(heap_row=1)
    handled.note(b"a", 0, 0, 0, began_s=0.0, ended_s=9.0)
    handled.note(b"a", 0, 1, 1, began_s=9.0, ended_s=10.0)
    handled.note(b"a", 0, 1, 1, began_s=9.0, ended_s=15.0)
    assert handled.least_s(workers=1) == 1.0


def test_what_is_lost_repeated_and_out_of_order_is_counted() -> None:
    handled = HandledRecords(heap_row=2)
    for row, (key, offset) in enumerate([(b"a", 0), (b"b", 2), (b"a", 3), (b"a", 1), (b"b", 2)]):
        handled.note(key, 0, offset, row, began_s=row, ended_s=row + 0.5)
    assert handled.verdict(records=6) == Verdict(lost=2, out_of_order=1, repeated=1)
    assert (handled.count, handled.last_s) == (4, 3.5)


def test_a_key_in_another_partition_has_another_order() -> None:
    handled = HandledRecords(heap_row=0)
    handled.note(b"a", 1, 9, 0, began_s=0.0, ended_s=1.0)
    handled.note(b"a", 0, 3, 1, began_s=0.0, ended_s=1.0)
    assert handled.verdict(2).right


def test_the_demo_of_skew_ends_with_the_ratios_of_both_groups() -> None:
    fine = RoundResult(30.0, 24.0, Verdict(0, 0, 1))
    result = SkewResult({"carrier": {"even": fine, "by_load": replace(fine, seconds=25.2)}})
    assert json.dumps(result.as_json()) == (
        '{"makespan_over_bound": {"carrier": {"even": 1.25, "by_load": 1.05}}, "lost": 0, '
        '"out_of_order": 0, "repeated": 2}'
    )
    assert result.ok
    lost = replace(fine, verdict=Verdict(1, 0, 0))
    assert not SkewResult({"carrier": {"even": lost}}).ok


def test_the_demo_of_skew_shows_the_first_line_about_a_hot_key_of_each_group() -> None:
    page, log = io.StringIO(), logging.getLogger("coop_consumer.member.member")
    busy = "t-0: one key (UA) is 17 % of the work and runs on one worker"
    with _hot_keys_told(Console(file=page, width=200)):
        for group in ("even", "by_load"):
            for member in ("a", "b"):
                log.warning("group %s, member %s: %s", group, member, "joins again")
                log.warning("group %s, member %s: %s", group, member, busy)
    log.warning("group %s, member %s: %s", "later", "a", busy)
    assert page.getvalue().splitlines() == [
        f"  log: group even, member a: {busy}",
        f"  log: group by_load, member a: {busy}",
    ]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"records": 0}, "records=0"),
        ({"members": 0}, "members=0"),
        ({"members": 1}, "members=1: one joins later"),
        ({"latency_ms": float("nan")}, "latency=nan"),
        ({"warm_s": 0.0}, "warm=0.0"),
        ({"records": 330_000}, "more flights than there are: 336,776"),
    ],
)
def test_sizes_of_the_demo_of_skew_are_checked(bad: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SkewSizes(**bad)  # type: ignore[arg-type]
