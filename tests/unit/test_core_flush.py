"""Which entries of the log, and which assigned ranges, rest on records finished here: `Commit`s."""

from __future__ import annotations

from assignors import WHOLE, KeyRange, key_hash
from coop_consumer.core import actions
from offsets import Committed
from tests.unit.core_member import HIGH, LOW, TO_LOG, TableMember

A, B = [key for key in (b"k%d" % i for i in range(20)) if key_hash(key) in HIGH][:2]
AT_A = KeyRange(key_hash(A), key_hash(A))


def appends(member: TableMember) -> list[bool]:
    """Of all that went to the log so far, whether it rests on what was finished here."""
    return [isinstance(action, actions.Commit) for action in member.to_log()]


def assigned(member: TableMember) -> list[tuple[tuple[KeyRange, ...], bool]]:
    """All ranges told to the user so far, and whether that needs a flush."""
    return [(it.ranges, it.after is not None) for it in member.told(actions.RangesAssigned)]


def test_what_is_told_before_anything_is_processed_waits_for_no_flush() -> None:
    member = TableMember(committed=Committed(0, "plain"))
    member.assign(WHOLE)
    announcement, base, first = appends(member)
    assert not any((announcement, base, first))
    assert assigned(member) == [((WHOLE,), False)]


def test_a_commit_waits_for_a_flush() -> None:
    member = TableMember()
    member.assign(WHOLE)
    before = len(appends(member))
    member.produce(A)
    member.start()
    member.finish(0)
    member.after(1_000)
    assert set(appends(member)[before:]) == {True}


def test_a_release_waits_for_a_flush_though_nothing_is_finished() -> None:
    """A handler that raised may have buffered something before it did."""
    member = TableMember()
    member.assign(WHOLE)
    before = len(appends(member))
    member.assign(LOW)
    assert appends(member)[before:] == [True]


def test_a_range_that_comes_back_before_its_release_is_acknowledged_waits_for_a_flush() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A)
    member.start()
    member.finish(0)
    member.kept_back = set(TO_LOG)
    member.assign(LOW)
    before = len(appends(member))
    member.assign(LOW, HIGH)
    assert appends(member)[before:] == [True]
    member.let_go()
    assert assigned(member)[-1] == ((HIGH,), False), "the log has the release: it was flushed"


def test_a_hash_that_drained_here_is_told_to_the_user_after_a_flush() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A)
    member.start()
    member.assign(LOW)
    member.assign(LOW, HIGH)
    before = len(assigned(member))
    member.finish(0)
    assert assigned(member)[before:] == [((AT_A,), True)]
