"""The circuit: where most of what runs fails alike, nothing is begun but a probe."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from assignors import WHOLE
from coop_consumer.core import actions, events
from coop_consumer.core.actions import Level
from coop_consumer.core.circuit import Alike, Results
from coop_consumer.core.lane import Entry
from coop_consumer.core.record import Record
from offsets import Act
from tests.unit.core_member import HIGH, LOW, T0, TableMember, keys_in

OPEN_MS = 1_000


def outage(*, keys: int = 40, fail: int = 10, **settings: Any) -> TableMember:
    """A member of so many keys, of which so many have failed alike, one after the other."""
    member = TableMember(**{"circuit_open_ms": OPEN_MS, **settings})
    member.assign(WHOLE)
    member.produce(*[b"key-%d" % number for number in range(keys)])
    lanes = member.core.lanes
    for _ in range(fail):
        member._begin(lanes.begin())
    member.fail(*[offset for _, offset in member.running], why="no route to db-7")
    return member


def is_open(member: TableMember) -> bool:
    return member.core.circuit.is_open


def lines(member: TableMember) -> list[str]:
    return [report.text for report in member.told(actions.LogLine) if report.level > Level.INFO]


def begun_beside(member: TableMember) -> list[int]:
    """What may begin while a probe runs, over several looks."""
    beside = []
    for _ in range(5):
        member.after(OPEN_MS)
        beside += member.start()
    return beside


def probe_fails(member: TableMember, times: int = 1) -> None:
    for _ in range(times):
        member.after(OPEN_MS)
        (offset,) = member.start()
        member.fail(offset, why="no route to db-7")


def test_it_opens_once_most_results_are_failures_of_one_kind_of_enough_keys() -> None:
    assert not is_open(outage(fail=9))
    member = outage()
    assert is_open(member)
    assert member.start() == [], "nothing is begun"
    assert (
        sum("most of what runs fails alike: 10 of the last 10" in it for it in lines(member)) == 1
    )


def test_it_never_opens_if_that_is_not_wanted() -> None:
    member = outage(circuit_share=0)
    assert not is_open(member)
    assert len(member.start()) == 30


def test_one_poisonous_key_among_good_ones_opens_nothing_however_often_it_fails() -> None:
    member = TableMember(max_attempts=200, attempt_backoff_ms=1, attempt_backoff_max_ms=1)
    member.assign(WHOLE)
    for _ in range(100):
        if len(member.messages) < 1:
            member.produce(b"poison")
        member.start()
        member.fail(0)
        member.after(10)
    assert not is_open(member)


def test_poisonous_keys_among_many_good_ones_open_nothing() -> None:
    """Also where their failures are found at the end of a batch that was mostly good."""
    member = TableMember()
    member.assign(WHOLE)
    member.produce(*[b"key-%d" % number for number in range(1_000)])
    started = member.start()
    good, bad = started[:950], started[950:]
    for offset in good:
        _, record, _ = member._of(offset)
        member.core.lanes.finished.append(record)
        member.core.lanes.ended.append(record)
    member.fail(*bad)
    assert not is_open(member)


def test_failures_of_different_kinds_are_not_alike() -> None:
    results = Results(50, 3, 1_000)
    kinds = ("TimeoutError", "KeyError", "ValueError")
    told = [results.failed(kinds[number % 3], number, 0) for number in range(9)]
    assert told == [None] * 9


def test_results_are_judged_by_the_newest_and_forgotten_in_time() -> None:
    results = Results(50, 3, 1_000)
    results.done(1_000, 0)
    assert [results.failed("E", number, 1) for number in range(28)] == [None] * 28
    assert [results.failed("E", number, 2) for number in range(2)] == [None, Alike(30, 30)]

    results = Results(50, 3, 1_000)
    assert results.failed("E", 1, 0) is results.failed("E", 2, 0) is None
    results.done(1, 900)
    assert results.failed("E", 3, 2_000) is None, "the first two are too long ago"


def test_the_share_is_as_set() -> None:
    def told(share: int) -> bool:
        results = Results(share, 2, 1_000)
        results.done(7, 0)
        return any(results.failed("E", number, 0) for number in range(3))

    assert [told(30), told(31)] == [True, False]


def test_one_probe_at_a_time_is_begun_and_its_success_lets_all_go_on() -> None:
    member = outage()
    assert member.after(OPEN_MS - 1) is not None
    assert member.start() == []
    probe_fails(member, times=3)
    member.after(OPEN_MS)
    (probe,) = member.start()
    assert begun_beside(member) == []
    member.finish(probe)
    assert not is_open(member)
    assert len(member.start()) == 40 - 1, "what had failed need not wait for its back-off either"
    assert sum("all records go on" in it for it in lines(member)) == 1


def test_a_probe_that_has_no_order_to_keep_is_alone_as_well() -> None:
    """Its lane is filed under its offset, not under a key."""
    member = TableMember(circuit_open_ms=OPEN_MS)
    member.assign(WHOLE)
    member.produce(*[None] * 40)
    lanes = member.core.lanes
    for _ in range(10):
        member._begin(lanes.begin())
    member.fail(*[offset for _, offset in member.running])
    assert is_open(member)
    member.after(OPEN_MS)
    (probe,) = member.start()
    assert begun_beside(member) == []
    member.finish(probe)
    assert not is_open(member)


def test_probes_are_records_that_never_failed_while_there_are_some() -> None:
    """Else a few poisonous records would keep all others waiting."""
    member = outage(keys=12)
    member.after(60_000)
    (first,) = member.start()
    assert first in {10, 11}


def test_no_failure_while_it_is_open_counts_as_an_attempt() -> None:
    member = TableMember(max_attempts=2, circuit_open_ms=OPEN_MS, attempt_backoff_ms=10)
    member.assign(WHOLE)
    member.produce(*[b"key-%d" % number for number in range(20)])
    started = member.start()
    member.fail(*started[:10])
    assert is_open(member)
    member.fail(*started[10:])  # these ran when it opened
    probe_fails(member, times=50)
    assert not [attempt for attempt in member.store.attempts().values() if attempt.parked]
    assert {attempt.attempts for attempt in member.store.attempts().values()} == {1}
    member.after(OPEN_MS)
    member.finish(*member.start())
    attempts = {record.offset: record.attempt for _, record, _ in _all_begun(member)}
    assert {attempts[offset] for offset in started[10:] if offset in attempts} == {1}


def _all_begun(member: TableMember) -> list[tuple[Entry, Record, int]]:
    member.start()
    return list(member.running.values())


def test_a_dependency_that_is_away_for_a_minute_parks_nothing_and_writes_few_lines() -> None:
    member = TableMember(lock=nullcontext())
    member.assign(WHOLE)
    member.produce(*[b"key-%d" % number for number in range(1_000)])
    lanes, calls = member.core.lanes, 0
    until_ms = member.now_ms + 60_000
    while member.now_ms < until_ms:
        while lanes.ready and len(member.running) < 64:
            member._begin(lanes.begin())
            calls += 1
        for _, offset in list(member.running)[:16]:
            member.fail(offset, why=f"connection refused, tried at {member.now_ms}")
        member.after(50)
    assert calls < 64 + 100 + 64
    back_ms = member.now_ms
    while len(member.finished) < 1_000:
        member.finish_all()
        member.after(5)
        assert member.now_ms - back_ms <= 5_000
    shown = 0
    for report in member.told(actions.LogLine):
        shown += 1 + (20 if report.failure else 0)
    assert shown <= 100
    assert not any(attempt.parked for attempt in member.store.attempts().values())


def test_a_few_keys_whose_dependency_is_away_for_a_minute_write_few_lines_too() -> None:
    member = TableMember(lock=nullcontext())
    member.assign(WHOLE)
    member.produce(*[b"key-%d" % number for number in range(9)])
    until_ms = member.now_ms + 60_000
    while member.now_ms < until_ms:
        if offsets := member.start():
            member.fail(*offsets)
        member.after(50)
    assert not is_open(member)
    back_ms = member.now_ms
    while len(member.finished) < 9:
        member.finish_all()
        member.after(5)
        assert member.now_ms - back_ms <= 5_000
    assert sum(1 + (20 if it.failure else 0) for it in member.told(actions.LogLine)) <= 100


def test_a_handover_takes_what_is_held_back_and_the_probe_that_nobody_has_begun() -> None:
    member = outage(keys=60)
    member.after(OPEN_MS)
    (entry,) = member.core.lanes.ready
    gone = LOW if entry.key_hash in LOW else HIGH
    member.assign(*[half for half in (LOW, HIGH) if half != gone])
    (tenure,) = member.core.state.partitions[T0].tenures
    assert gone not in tenure.ranges
    assert not tenure.draining
    member.after(OPEN_MS)
    (probe,) = member.start()
    member.finish(probe)
    assert not is_open(member)


def test_what_runs_in_a_range_that_goes_drains_while_it_is_open() -> None:
    member = TableMember(circuit_open_ms=OPEN_MS)
    member.assign(WHOLE)
    keys = [*keys_in(LOW, 12), *keys_in(HIGH, 1)]
    member.produce(*keys)
    started = member.start()
    member.fail(*started[:12])
    assert is_open(member)
    member.assign(LOW)
    (tenure,) = member.core.state.partitions[T0].all_tenures()
    assert tenure.draining
    member.fail(12)
    assert not tenure.draining
    assert 12 not in member.store.attempts(), "what failed while it is open is no attempt"


def test_a_probe_whose_handler_hangs_makes_way_for_another() -> None:
    member = outage(max_processing_ms=60_000)
    member.after(OPEN_MS)
    assert len(member.start()) == 1
    member.after(59_000)
    assert member.start() == []
    member.after(1_000)
    assert len(member.start()) == 1


def test_a_probe_that_waits_for_a_worker_does_not_hang() -> None:
    member = outage(max_processing_ms=60_000)
    member.after(OPEN_MS)
    for _ in range(200):
        member.after(1_000)
    assert len(member.core.lanes.ready) == 1
    assert len(member.start()) == 1
    member.after(59_000)
    assert member.start() == []


def test_what_a_look_finds_failed_beside_the_probe_that_closes_it_was_no_attempt() -> None:
    """A simulation's seed: a probe that hung had failed before another one succeeded."""
    member = outage(max_processing_ms=2_500)
    member.after(OPEN_MS)
    (hangs,) = member.start()
    member.after(2_500)
    (other,) = member.start()
    entry, record, _ = member._of(other)
    member.core.lanes.finished.append(record)
    member.core.lanes.ended.append(entry)
    member.fail(hangs, why="no route to db-7")  # one look finds both
    assert not is_open(member)
    assert not any("attempt 1 of 3" in it and f"t-0@{hangs} " in it for it in lines(member))
    member.after(1_000)
    assert hangs not in member.store.attempts()


def test_what_comes_while_it_is_open_waits_and_an_idle_member_tries_it_at_once() -> None:
    member = TableMember(circuit_keys=2, circuit_open_ms=OPEN_MS, on_failure="skip", max_attempts=1)
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    member.fail(*member.start())
    assert is_open(member)
    member.after(60_000)
    assert not member.core.lanes.queue.held_back
    member.core.lanes.tables.goes_straight = True
    member.produce(b"c", b"d")
    assert not member.core.lanes.tables.fresh, "nothing goes past it"
    (probe,) = member.start()
    member.finish(probe)
    assert len(member.start()) == 1


def test_a_close_waits_for_nothing_that_is_held_back() -> None:
    member = outage()
    member.tell(events.Close())
    member.after(100)
    assert member.told(actions.Leave)


def test_the_fetch_stops_where_what_is_held_back_is_enough() -> None:
    member = outage(keys=40, max_records_in_lanes=50, capacity=1)
    member.produce(*[b"more-%d" % number for number in range(60)])
    assert member.core.pressure.holding


def test_what_is_skipped_or_a_dead_letter_is_no_success() -> None:
    member = TableMember(on_failure="skip", max_attempts=1)
    member.assign(WHOLE)
    for number in range(10):
        member.produce(b"key-%d" % number)
        member.fail(*member.start())
    assert member.core.state.counters.skipped == 10
    assert any("10 of the last 10" in it for it in lines(member))


@pytest.mark.parametrize("minutes", [1, 3])
def test_it_is_said_once_a_minute_how_long_it_lasts(minutes: int) -> None:
    member = outage()
    probe_fails(member, times=60 * minutes)
    said = [it for it in lines(member) if "most of what runs has failed alike" in it]
    assert len(said) == minutes
    assert "ValueError: no route to db-7" in said[-1]


def test_status_learns_since_when_and_of_which_records() -> None:
    member = outage()
    since_ms = member.now_ms
    probe_fails(member, times=5)
    member.after(5_000)
    doings = [doing for tenure in member.store.tenures() for doing in tenure.record.doings]
    held = {doing.since_ms for doing in doings if doing.act is Act.HELD_BACK}
    assert held == {since_ms}
    member.finish(*member.start())
    member.after(5_000)
    member.after(5_000)
    doings = [doing for tenure in member.store.tenures() for doing in tenure.record.doings]
    assert not any(doing.act is Act.HELD_BACK for doing in doings)
