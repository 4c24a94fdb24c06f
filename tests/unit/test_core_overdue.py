"""Handlers that run for too long: they are found, told, and dealt with as `on.overdue` says."""

from __future__ import annotations

import pytest

from assignors import WHOLE, key_hash
from coop_consumer.core import actions, events
from coop_consumer.core.lane import Entry, Lane
from tests.unit.core_member import LOW, TO_LOG, TableMember, keys_in


def at_work(policy: str, **settings: object) -> TableMember:
    """A member whose handler of offset 0 has run for two seconds, with a limit of one."""
    member = TableMember(max_processing_ms=1_000, on_overdue=policy, **settings)
    member.assign(WHOLE)
    member.produce(b"a", b"a", b"b")
    member.start()
    member.finish(2)
    for _ in range(20):
        member.after(100)
    return member


def abandoned(member: TableMember) -> Entry:
    """What nobody listens to any more; its worker is gone, too."""
    (action,) = member.told(actions.AbandonLane)
    place = next(place for place, (entry, *_) in member.running.items() if entry is action.lane)
    return member.running.pop(place)[0]


def test_it_is_told_once_and_shown_as_an_attempt_until_it_ends() -> None:
    member = at_work("leave")
    (told,) = member.told(actions.HandlerOverdue)
    assert "t-0 offset 0 (key b'a')" in str(told.error)
    assert "has run for" in member.store.attempts()[0].error
    member.finish(0)
    assert member.finish_all() == [1]
    member.after(1_000)
    assert member.store.attempts() == {}
    assert member.store.progress().stable == 3


def test_of_a_shared_partition_the_range_is_named_in_which_its_key_was_assigned() -> None:
    member = TableMember(max_processing_ms=1_000)
    member.assign(LOW)
    member.produce(keys_in(LOW, 1)[0])
    member.start()
    for _ in range(15):
        member.after(100)
    (told,) = member.told(actions.HandlerOverdue)
    assert f"t-0 keys [0, {LOW.hi}] offset 0" in str(told.error)


def test_a_lane_that_gets_on_is_not_overdue_however_long_it_lasts() -> None:
    member = TableMember(max_processing_ms=1_000)
    member.assign(WHOLE)
    member.produce(*[b"a"] * 30)
    member.start()
    for offset in range(30):
        member.after(500)
        member.finish(offset)
    assert not member.told(actions.HandlerOverdue)


def test_failed_it_is_tried_again_and_its_old_handler_counts_for_nothing() -> None:
    member = at_work("fail", attempt_backoff_ms=100)
    old = abandoned(member)
    member.after(1_000)
    assert member.start() == [0]
    member.core.lanes.ended.append(old)  # it comes back after all
    member.tell(events.Tick())
    member.finish(0)
    assert member.finish_all() == [1]
    assert member.core.state.counters.failures == 1


@pytest.mark.parametrize("policy", ["fail", "leave", "exit"])
def test_a_handler_that_ends_just_before_the_look_is_not_overdue(policy: str) -> None:
    member = TableMember(max_processing_ms=1_000, on_overdue=policy)
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    for _ in range(9):
        member.after(100)
    member.core.take(events.Tick(), member.now_ms + 1_000)
    member.core.lanes.finished.extend(record for _, record, _ in member.running.values())
    assert not {type(it) for it in member.core.decide()} & {
        actions.HandlerOverdue,
        actions.AbandonLane,
    }
    assert member.core.state.counters.overdue == member.core.state.counters.failures == 0
    assert member.core.state.counters.finished == 1
    member.core.check()


def test_so_it_is_in_the_middle_of_a_lane() -> None:
    member = TableMember(max_processing_ms=1_000, on_overdue="fail", attempt_backoff_ms=100)
    member.assign(WHOLE)
    member.produce(b"a", b"a", b"a")
    member.start()
    member.finish(0)
    for _ in range(20):
        member.after(100)
    old = abandoned(member)
    assert isinstance(old, Lane)
    assert not old.records
    member.after(1_000)
    assert member.start() == [1]
    member.core.lanes.ended.append(old)  # it comes back after all
    member.tell(events.Tick())
    assert member.finish_all() == [1, 2]
    assert member.core.state.counters.failures == 1


def test_failed_for_the_last_time_it_is_parked_and_another_key_goes_on() -> None:
    member = at_work("fail", max_attempts=1)
    abandoned(member)
    assert member.store.attempts()[0].parked
    member.produce(b"b")
    assert member.finish_all() == [3]


def test_failed_while_it_drains_its_hash_is_released() -> None:
    member = TableMember(max_processing_ms=1_000, on_overdue="fail")
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    member.assign()
    (tenure,) = member.store.tenures()
    assert member.store.unreleased(tenure.id, tenure.ranges)
    for _ in range(20):
        member.after(100)
    (tenure,) = member.store.tenures()
    assert not member.store.unreleased(tenure.id, tenure.ranges)


@pytest.mark.parametrize("policy", ["park", "skip"])
def test_failed_for_the_last_time_while_it_drains_on_failure_decides(policy: str) -> None:
    member = TableMember(
        max_processing_ms=1_000, on_overdue="fail", max_attempts=1, on_failure=policy
    )
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    member.assign()
    for _ in range(20):
        member.after(100)
    (tenure,) = member.store.tenures()
    assert not member.store.unreleased(tenure.id, tenure.ranges)
    assert [it.parked for it in member.store.attempts().values()] == [True] * (policy == "park")
    assert member.store.progress().is_done(key_hash(b"a"), 0) == (policy == "skip")


def test_the_process_ends_only_after_what_is_finished_is_committed() -> None:
    member = TableMember(max_processing_ms=1_000, on_overdue="exit", commit_interval_ms=60_000)
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    member.start()
    member.kept_back = set(TO_LOG)
    for _ in range(8):
        member.after(100)
    member.finish(1)
    while not member.unanswered:
        member.after(100)
    assert not member.told(actions.EndProcess)
    member.let_go()
    member.after(100)
    assert member.told(actions.EndProcess)
    assert member.store.progress().is_done(key_hash(b"b"), 1)


def test_without_an_answer_of_the_log_the_process_ends_all_the_same() -> None:
    member = TableMember(max_processing_ms=1_000, on_overdue="exit")
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    member.kept_back = set(TO_LOG)
    for _ in range(80):
        member.after(100)
    assert member.told(actions.EndProcess)


def test_who_has_nothing_at_work_is_not_woken_to_look_at_it() -> None:
    member = TableMember(max_processing_ms=100)
    member.assign(WHOLE)
    member.after(1_000)
    assert member.core.next_wake_ms() - member.now_ms > 100
    member.produce(b"a")
    member.start()
    assert member.core.next_wake_ms() - member.now_ms <= 10
