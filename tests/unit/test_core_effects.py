"""Effects of handlers are filed by record; a commit takes along those of finished records."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from assignors import WHOLE
from coop_consumer.config import OnOverdue
from coop_consumer.core import actions, effects, events
from coop_consumer.core.record import Record
from tests.unit.core_member import HIGH, LOW, T0, TableMember, keys_in

A, B = keys_in(LOW, 2)
(C,) = keys_in(HIGH, 1)


@pytest.fixture
def member() -> TableMember:
    member = TableMember()
    member.assign(WHOLE)
    return member


class Left(str):
    """An effect that knows whether it was undone."""

    __slots__ = ("is_undone",)
    is_undone: bool
    size = 0

    def undo(self) -> None:
        self.is_undone = True


def running(member: TableMember, offset: int) -> Record:
    """The record that a handler is at."""
    return next(record for _, record, _ in member.running.values() if record.offset == offset)


def taken_along(told: Sequence[actions.Action]) -> list[effects.Effect]:
    """The effects of the commits among these actions."""
    commits = [it for it in told if isinstance(it, actions.Commit)]
    return [left for it in commits for result in it.results for left in result.effects]


def test_a_commit_takes_the_effects_of_finished_records_and_leaves_those_of_running_ones(
    member: TableMember,
) -> None:
    member.produce(A, A)
    member.start()
    assert effects.file(running(member, 0), Left("of 0"))
    member.finish(0)
    assert effects.file(running(member, 1), Left("of 1"))
    assert taken_along(member.after(1_000)) == ["of 0"]
    member.finish(1)
    assert taken_along(member.after(1_000)) == ["of 1"]


def test_effects_go_in_the_order_in_which_their_records_finished(member: TableMember) -> None:
    member.produce(A, B, C)
    member.start()
    for offset in (0, 1, 2):
        effects.file(running(member, offset), Left(offset))
    for offset in (2, 0, 1):
        member.finish(offset)
    member.after(1_000)
    assert taken_along(member.seen) == ["2", "0", "1"]


def test_what_a_failed_attempt_has_left_behind_is_undone_and_goes_nowhere(
    member: TableMember,
) -> None:
    member.produce(A)
    member.start()
    first = running(member, 0)
    failed = Left("first")
    effects.file(first, failed)
    member.fail(0)
    assert failed.is_undone
    assert not effects.file(first, Left("of an attempt that has failed"))
    assert taken_along(member.after(1_000)) == []
    member.start()
    assert not effects.file(first, Left("of the attempt before this one"))
    for left in ("second", "third"):
        assert effects.file(running(member, 0), Left(left))
    member.finish(0)
    member.after(1_000)
    assert taken_along(member.seen) == ["second", "third"]


def test_a_handler_that_is_given_up_on_leaves_nothing_behind() -> None:
    member = TableMember(on_overdue=OnOverdue.FAIL, max_processing_ms=100)
    member.assign(WHOLE)
    member.produce(A)
    member.start()
    first, left = running(member, 0), Left("of the abandoned handler")
    effects.file(first, left)
    for _ in range(4):
        member.after(100)
    assert left.is_undone
    assert not effects.file(first, Left("later"))
    assert not first.tenure.effects


def test_a_finished_record_takes_no_effect_any_more(member: TableMember) -> None:
    member.produce(A, A)
    member.start()
    record = running(member, 0)
    effects.file(record, Left("in time"))
    member.finish(0)
    assert not effects.file(record, Left("too late"))
    member.after(1_000)
    assert taken_along(member.seen) == ["in time"]


def test_a_finished_record_takes_no_effect_while_the_next_of_its_key_ends_in_a_range_that_moves(
    member: TableMember,
) -> None:
    """It was taken, and no commit would ever have had it: lost without a word."""
    member.produce(A, A)
    member.start()
    first = running(member, 0)
    member.finish(0)
    assert not effects.file(first, Left("late"))
    second = running(member, 1)
    member.assign(HIGH)
    assert effects.file(second, Left("in time"))
    assert not effects.file(first, Left("late"))


def test_a_handler_of_a_range_that_has_moved_on_leaves_its_effect_with_the_release(
    member: TableMember,
) -> None:
    member.produce(A)
    member.start()
    member.assign(HIGH)
    assert effects.file(running(member, 0), Left("late"))
    told = member.finish(0)
    assert taken_along(told) == ["late"]


def test_a_handler_from_before_a_pause_leaves_its_effect_wherever_its_range_goes(
    member: TableMember,
) -> None:
    member.produce(A)
    member.start()
    record = running(member, 0)
    member.tell(events.Seek(7, T0, 0))
    assert effects.file(record, Left("after the seek"))
    member.assign(HIGH)
    assert effects.file(record, Left("after the range has moved"))
    assert taken_along(member.finish(0)) == ["after the seek", "after the range has moved"]


def test_a_range_that_was_ours_is_loaded_behind_the_effects_of_what_was_done_in_it(
    member: TableMember,
) -> None:
    member.produce(A)
    member.start()
    member.assign(HIGH)
    member.assign(WHOLE)
    effects.file(running(member, 0), Left("state"))
    told = member.finish(0)
    loaded = [it for it in told if isinstance(it, actions.RangesAssigned) and it.after is not None]
    after = [left for it in loaded for result in it.after or () for left in result.effects]
    assert ["state"] in [after, taken_along(told)]
    assert told.index(loaded[0]) >= 0
