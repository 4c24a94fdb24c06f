"""Records that a fallen owner may have begun are begun with care, until the culprit is found."""

from __future__ import annotations

from typing import Any

import pytest

from assignors import WHOLE, KeyRange, Wait, decode_subscription, key_hash
from coop_consumer.core import actions, events
from coop_consumer.core.actions import Level
from offsets import Attempt, RangeProgress
from tests.unit.core_member import HIGH, LOW, T0, TO_LOG, TableMember, keys_in

KEYS = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]


def first_owner(*keys: bytes, **settings: Any) -> TableMember:
    """Its handlers run, and it is heard of no more."""
    member = TableMember(**settings)
    member.assign(WHOLE)
    member.produce(*keys)
    member.start()
    return member


def heir(fallen: TableMember, *, workers: int = 2, **settings: Any) -> TableMember:
    """Who comes after a member that fell. With so few attempts each fall counts."""
    settings = {"max_attempts": 3, **settings}
    number = int(fallen.name[1:]) + 1
    member = TableMember(f"m{number}", log=fallen.log, committed=fallen.committed, **settings)
    member.messages = fallen.messages
    member.tell(events.CapacityChanged(workers))
    member.assign(WHOLE)
    member.fetch()
    return member


def told(member: TableMember, level: Level) -> list[str]:
    return [report.text for report in member.told(actions.LogLine) if report.level is level]


def test_who_comes_after_a_fall_begins_portions_that_the_log_knows() -> None:
    member = TableMember("m2", log=first_owner(*KEYS).log, max_attempts=3)
    member.tell(events.CapacityChanged(2))
    member.assign(WHOLE)
    member.kept_back = set(TO_LOG)
    member.produce(*KEYS)
    assert member.start() == [], "the log does not know"
    member.let_go()
    assert member.start() == [0, 1]
    assert member.store.tenures()[-1].record.begun_to == 2
    member.finish(0)
    assert member.start() == [2, 3]
    assert sorted({1} | {*member.finish_all()}) == [1, 2, 3, 4, 5, 6, 7]
    member.after(1_000)
    record = member.store.tenures()[-1].record
    assert (record.fallen, record.begun_to) == (0, -1), "and then it trusts them"
    member.produce(b"i")
    assert member.start() == [8]


def test_what_an_owner_fell_at_comes_before_other_tenures() -> None:
    """Else nobody could tell whether it was harmless: it would wait for all that came earlier."""
    first = TableMember(commit_max_records=4)
    first.assign(LOW)
    keys = [*keys_in(LOW, 8), *keys_in(HIGH, 3)]
    first.produce(*keys[:8])
    first.start()
    second = TableMember("m2", log=first.log, commit_max_records=4)
    second.messages = first.messages
    second.tell(events.CapacityChanged(1))
    second.assign(HIGH)
    second.produce(*keys[8:])
    second.assign(LOW, HIGH)
    second.fetch()
    begun = [second.core.state.lanes.begin().tenure.ranges for _ in range(7)]
    assert begun == [(LOW,)] * 4 + [(HIGH,)] * 3, "twice what ran and was not told"


def test_so_it_does_where_all_records_are_filed_at_once() -> None:
    [(other, _, _)] = first_owner(b"z").running.values()
    first = first_owner(*KEYS, commit_max_records=4)
    second = TableMember("m2", log=first.log, commit_max_records=4)
    second.messages = first.messages
    second.tell(events.CapacityChanged(1))
    second.assign(WHOLE)
    second.core.lanes.ready.append(other)
    second.fetch()
    begun = [second.core.lanes.begin() for _ in range(6)]
    assert begun.index(other) == 4
    assert [second._begin(entry) for entry in begun if entry is not other] == [0, 1, 2, 3, 4]


def test_a_first_fall_costs_nothing_if_there_are_attempts_enough() -> None:
    second = heir(first_owner(*KEYS), max_attempts=4)
    assert second.start() == list(range(len(KEYS)))
    assert second.store.tenures()[-1].record.begun_to == -1
    third = heir(second, max_attempts=4)
    assert "(2 in a row)" in told(third, Level.INFO)[-1]
    assert third.start() == [0, 1]
    assert third.store.tenures()[-1].record.begun_to == 2


@pytest.mark.parametrize(("busy", "is_careful"), [(LOW, False), (HIGH, True)])
def test_falls_are_in_a_row_if_no_owner_gets_on_between_them(
    busy: KeyRange, is_careful: bool
) -> None:
    """Its progress in other ranges is no sign that it is past the record at which others fell."""
    settings: dict[str, Any] = {"max_attempts": 4, "commit_max_records": 8}
    first = TableMember(**settings)
    first.assign(LOW)
    first.produce(*keys_in(LOW, 1))
    first.start()
    second = TableMember("m2", log=first.log, **settings)
    second.messages = first.messages
    second.tell(events.CapacityChanged(2))
    second.assign(LOW)
    second.assign(LOW, HIGH)
    second.produce(*keys_in(busy, 21)[1:])
    second.start()
    for _, offset in list(second.running):
        if offset:
            second.finish(offset)
    for _ in range(2):  # it is told with the next commit
        second.after(1_000)
    third = heir(second, **settings)
    assert [bool(it.falls.suspicion) for it in third.core.state.load.careful] == [is_careful]


def test_after_a_second_fall_one_record_is_begun_at_a_time() -> None:
    second = heir(first_owner(*KEYS))
    assert second.start() == [0, 1]
    third = heir(second)
    (told_of,) = told(third, Level.WARNING)
    assert "2 owners in a row have ended without a word" in told_of
    assert "below offset 2 is begun one record at a time" in told_of
    for suspect in (0, 1):
        assert third.start() == [suspect], "and nothing beside it"
        third.finish(suspect)
    assert third.start() == [2, 3]
    third.finish_all()
    third.after(1_000)
    assert third.store.progress().stable == len(KEYS)
    assert not third.store.attempts()


@pytest.mark.parametrize(("attempts", "falls"), [(1, 3), (3, 3), (5, 5)])
def test_the_record_that_ends_its_process_is_begun_as_often_as_it_may_be(
    attempts: int, falls: int
) -> None:
    settings: dict[str, Any] = {
        "max_attempts": attempts,
        "on_failure": "park",
        "attempt_backoff_ms": 10,
    }
    member = first_owner(*KEYS, **settings)
    for _ in range(falls - 1):
        member = heir(member, **settings)
        while 0 not in {offset for _, offset in member.running}:
            member.after(1_000)
            member.start()
        for _, offset in list(member.running):
            if offset:
                member.finish(offset)  # and is not committed
    last = heir(member, **settings)
    for _ in range(9):
        last.after(60_000)
        last.finish_all()
    assert last.core.state.pending() == 1, "all others are done"
    (parked,) = last.store.attempts().values()
    assert (parked.offset, parked.attempts, parked.parked) == (0, falls, True)
    assert parked.error.startswith("no outcome: it was begun by itself, on m")
    assert parked.error.endswith("and the process ended")
    assert "coop-consumer retry" in told(last, Level.ERROR)[-1]


def test_what_follows_a_suspect_of_its_key_waits_for_its_own_turn() -> None:
    second = heir(first_owner(b"a", b"a", b"b"), workers=3)
    second.start()
    third = heir(second, workers=3)
    assert third.start() == [0]
    third.finish(0)
    assert third.start() in ([1], [2])
    assert sorted({0} | {*third.finish_all()}) == [0, 1, 2]


def test_a_suspect_that_runs_for_long_makes_room_for_the_next_one() -> None:
    second = heir(first_owner(b"a", b"b"))
    second.start()
    third = heir(second)
    assert third.start() == [0]
    assert third.store.attempts()[0].fell
    third.after(100)
    assert third.start() == []
    third.after(20_000)
    third.after(100)
    assert third.start() == [1]
    assert 0 not in third.store.attempts(), "what others may have done is not its attempt"


def test_a_suspect_that_raises_is_tried_again_as_any_other() -> None:
    second = heir(first_owner(b"a", b"b"))
    second.start()
    third = heir(second, max_attempts=2, attempt_backoff_ms=10, on_failure="park")
    third.start()
    third.fail(0)
    third.after(1_000)
    attempt = third.store.attempts()[0]
    assert (attempt.attempts, attempt.fell, attempt.parked) == (1, False, False)
    assert sorted(third.finish_all()) == [0, 1]


def test_a_suspect_that_others_turn_out_to_have_done_has_no_turn() -> None:
    second = heir(first_owner(b"a", b"b", b"c"), workers=3)
    second.start()
    third = heir(second, workers=3)
    assert third.start() == [0]
    partition = third.core.state.partitions[T0]
    (tenure,) = partition.tenures
    at = KeyRange(key_hash(b"b"), key_hash(b"b"))
    tenure.blocked.hashes.add(at.lo)
    tenure.learn([RangeProgress(at, 2)])
    tenure.blocked.hashes.clear()
    third.core.intake.free(partition, tenure, [at.lo])
    third.finish(0)
    assert third.finish_all() == [2]
    third.after(1_000)
    assert third.store.progress().stable == 3


def test_suspicion_goes_with_ranges_that_move_in_order() -> None:
    keys = [*keys_in(LOW, 2), *keys_in(HIGH, 2)]
    second = heir(first_owner(*keys))
    second.start()
    third = heir(second)
    third.start()
    for _, offset in [place for place in third.running if place[1] >= 2]:
        third.finish(offset)
    third.assign(LOW)
    fourth = TableMember("m4", log=third.log)
    fourth.messages = third.messages
    fourth.assign(HIGH)
    assert fourth.core.state.partitions[T0].tenures[0].falls.owners == 2


def test_what_is_released_stays_under_suspicion_when_the_rest_is_trusted() -> None:
    """A tenure's last record tells of the released ranges: to forget falls there lost them all."""
    quiet, busy = keys_in(LOW, 1), keys_in(HIGH, 2)
    first = first_owner(*busy)
    second = heir(first)
    second.start()
    third = heir(second, max_attempts=3)
    fallen = third.store.tenures()[-1].record.fallen
    assert fallen >= 2
    third.assign(LOW)
    third.produce(*quiet)
    third.finish_all()
    third.after(1_000)
    assert third.store.tenures()[-1].record.fallen == 0, "what is left is trusted"
    fourth = TableMember("m4", log=third.log, max_attempts=3)
    fourth.messages = third.messages
    fourth.assign(HIGH)
    told = fourth.store.tenures()[-1].record
    assert told.fallen == fallen
    assert told.suspects, "nobody has tried the records yet"


def next_in_order(old: TableMember, **settings: Any) -> TableMember:
    """Who gets all of a member that gives it up, while a handler of it runs."""
    old.assign()
    [claim] = decode_subscription(old.core.subscription()).claims
    settings = {"max_attempts": 3, **settings}
    new = TableMember("m9", log=old.log, committed=old.committed, **settings)
    new.messages = old.messages
    new.tell(events.CapacityChanged(2))
    new.assign(WHOLE, waits=(Wait(old.name, 1, claim.number, T0, claim.ranges),))
    new.fetch()
    return new


def test_a_suspect_whose_key_was_at_work_elsewhere_waits_for_its_turn_all_the_same() -> None:
    second = heir(first_owner(b"a", b"b", b"c"))
    second.start()
    third = heir(second)
    assert third.start() == [0]
    new = next_in_order(third)
    assert new.start() == [1]
    third.fail(0)
    new.hear_log()
    assert new.start() == [], "the other suspect runs"
    new.finish(1)
    new.after(10_000)
    assert new.start() == [0]
    attempt = new.store.attempts()[0]
    assert (attempt.attempts, attempt.fell) == (3, True), "noted before it began"
    new.finish(0)
    assert new.finish_all() == [2]


@pytest.mark.parametrize("policy", ["park", "skip", "dead_letter"])
def test_nothing_is_decided_about_a_suspect_while_a_handler_elsewhere_is_at_its_key(
    policy: str,
) -> None:
    second = heir(first_owner(b"a", b"a", b"b"))
    second.start()
    third = heir(second)
    assert third.start() == [0]
    new = next_in_order(third, on_failure=policy)
    assert new.store.attempts()[0].attempts == 3, "its last one, if its process ends"
    for _ in range(3):
        new.after(60_000)
        assert [new.messages[it].key() for it in new.start()] in ([], [b"b"])
    assert not new.told(actions.DeadLetter)
    assert not new.core.state.counters.skipped
    third.finish(0)
    new.hear_log()
    new.after(1_000)
    assert 1 in new.finish_all()
    new.after(1_000)
    assert not new.store.attempts()


def test_what_waits_is_forgotten_with_its_range() -> None:
    keys = [*keys_in(LOW, 4), *keys_in(HIGH, 4)]
    second = heir(first_owner(*keys), workers=1)
    second.assign(LOW)
    second.finish_all()
    second.assign()
    assert second.core.state.load.bytes_waiting == 0
    assert second.core.state.pending() == 0


def test_an_owner_that_released_what_it_had_is_no_suspect() -> None:
    first = first_owner(*KEYS)
    first.finish_all()
    first.assign()
    second = heir(first)
    assert second.core.state.load.careful == []


def test_a_handler_that_takes_too_long_has_an_attempt_less_after_its_process_was_ended() -> None:
    settings: dict[str, Any] = {
        "max_processing_ms": 1_000,
        "on_overdue": "exit",
        "max_attempts": 3,
        "on_failure": "park",
        "attempt_backoff_ms": 10,
    }
    member = first_owner(b"a", **settings)
    begun = 1
    for _ in range(6):
        for _ in range(40):
            member.after(100)
        if not member.told(actions.EndProcess):
            break
        member = heir(member, **settings)
        member.after(1_000)
        begun += len(member.start())
    assert begun == 3
    (attempt,) = member.store.attempts().values()
    assert (attempt.attempts, attempt.parked) == (3, True)
    assert "HandlerOverdueError" in attempt.error


def test_what_waits_behind_a_parked_record_does_not_stop_other_keys() -> None:
    fallen = first_owner(b"a", b"a", b"a", b"a", b"b", b"c", b"d")
    member = heir(fallen, max_attempts=1, on_failure="park", circuit_share=0)
    assert member.start() == [0, 4, 5]
    member.fail(0)
    assert sorted(member.finish_all()) == [4, 5, 6]


def test_a_suspect_waits_for_what_comes_before_it_in_its_key() -> None:
    """The log may know an attempt at a record, and have lost that its forerunner is done."""
    fallen = first_owner(b"a", b"a", b"a", b"b")
    (tenure,) = fallen.core.state.partitions[T0].tenures
    tenure.attempts[1] = Attempt(1, key_hash(b"a"), 1, False, "killed", 0, fell=True)
    tenure.dirty = True
    fallen.after(1_000)
    member = heir(fallen, attempt_backoff_ms=10)
    assert member.start() == [0, 3]
    member.finish(0)
    member.finish(3)
    member.after(1_000)
    assert member.start() == [1]
    assert member.store.attempts()[1].attempts == 2
    assert member.finish_all() == [1, 2]


def test_the_care_that_grows_with_each_fall_is_not_bounded_by_the_lanes() -> None:
    member = heir(first_owner(*KEYS), max_records_in_lanes=4, workers=1)
    left = []
    for _ in range(3):
        (tenure,) = member.core.state.load.careful
        assert tenure.falls.suspicion is not None
        left.append(tenure.falls.suspicion.left)
        member.start()
        member = heir(member, max_records_in_lanes=4, workers=1)
    assert left[2] > left[1] > left[0]


@pytest.mark.parametrize("goes_to", ["itself", "another member"])
def test_a_note_is_taken_back_if_its_handler_ends_well_and_does_not_count(goes_to: str) -> None:
    """Its partition has gone back, as a topic has refused another output: no process has fallen."""
    once: dict[str, Any] = {"exactly_once": True}
    second = heir(first_owner(b"a", b"b", b"c", **once), **once)
    second.start()
    third = heir(second, **once)
    assert third.start() == [0]
    (tenure,) = third.core.state.partition(T0).tenures
    third.core.handover.go_back(tenure)
    third.after(1_000)
    third.hear_log()
    member = third if goes_to == "itself" else next_in_order(third, **once)
    (begun,) = member.core.state.partition(T0).tenures
    assert (begun.attempts[0].attempts, begun.attempts[0].fell) == (3, True), "it may fall yet"
    third.finish(0)
    third.after(1_000)
    member.hear_log()
    member.after(1_000)
    assert 0 not in begun.attempts
    assert 0 not in member.store.attempts()
