"""What the user hears of ranges: whatever is loaded then must be the last word."""

from __future__ import annotations

from assignors import WHOLE, KeyRange, subtract
from coop_consumer.core import actions
from offsets import MemoryLog
from tests.support.claims import AT_A, A, B, claims, wait_for
from tests.unit.core_member import HIGH, LOW, TableMember, store_of


def moving(log: MemoryLog) -> tuple[TableMember, TableMember]:
    """HIGH has moved from the first to the second member, while the first still runs A."""
    old = TableMember("m1", log=log)
    old.assign(WHOLE)
    old.produce(A, A)
    old.start()
    (claim,) = claims(old)
    old.assign(LOW)
    new = TableMember("m2", log=log, committed=old.committed)
    new.assign(HIGH, waits=(wait_for(claim, HIGH),), lead="m1")
    return old, new


def told_ranges(member: TableMember) -> list[tuple[KeyRange, ...]]:
    return [told.ranges for told in member.told(actions.RangesAssigned)]


def test_a_key_that_another_member_still_runs_is_told_when_that_has_ended() -> None:
    old, new = moving(MemoryLog())
    assert told_ranges(new) == [subtract((HIGH,), (AT_A,))]
    old.finish(0)
    new.hear_log()
    assert told_ranges(new) == [subtract((HIGH,), (AT_A,)), (AT_A,)]


def test_a_freed_key_starts_only_after_the_user_has_loaded_what_it_needs() -> None:
    old, new = moving(MemoryLog())
    new.produce(A, A, B)
    assert new.start() == [2]
    new.kept_back = {actions.RangesAssigned}
    old.finish(0)
    new.hear_log()
    new.after(1_000)
    assert new.start() == []
    new.let_go()
    assert new.start() == [1]


def test_a_key_that_moves_on_before_it_was_told_is_not_revoked_either() -> None:
    _, new = moving(MemoryLog())
    new.assign()
    assert [told.ranges for told in new.told(actions.RangesRevoked)] == [subtract((HIGH,), (AT_A,))]


def test_a_key_given_up_while_the_user_loads_it_is_left_alone_by_the_answer() -> None:
    old, new = moving(MemoryLog())
    new.produce(A, A)
    new.kept_back = {actions.RangesAssigned}
    old.finish(0)
    new.hear_log()
    new.assign()
    new.let_go()
    assert new.start() == []


def test_a_range_that_comes_back_is_told_of_the_key_that_still_ran_here() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A, A)
    member.start()
    member.assign(LOW)
    member.assign(WHOLE)
    assert told_ranges(member) == [(WHOLE,), subtract((HIGH,), (AT_A,))]
    member.finish(0)
    assert told_ranges(member)[2:] == [(AT_A,)]


def test_a_tenure_with_a_key_that_still_runs_elsewhere_tells_of_no_other_ranges() -> None:
    log = MemoryLog()
    _, new = moving(log)
    (told,) = [t for t in store_of(log).tenures() if t.id.member == new.name]
    assert told.ranges == subtract((HIGH,), (AT_A,))
