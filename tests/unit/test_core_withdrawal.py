"""Beside plain members: everything is let go before a join, and whole partitions come back."""

from __future__ import annotations

import pytest

from assignors import WHOLE, AssignmentData, KeyRange, decode_subscription
from coop_consumer.core import actions, events
from coop_consumer.errors import MemberLostError
from offsets import Committed
from tests.unit.core_member import GROUP, HIGH, LOW, T0, TableMember, keys_in, tag

TOKEN = 7
DONE = actions.Answer(TOKEN, None)
COOPERATIVE = {"upgrade_from": "cooperative-sticky"}


def withdraw(member: TableMember) -> list[actions.Action]:
    return member.tell(events.Withdraw(TOKEN))


def assign_plainly(member: TableMember, generation: int, *ranges: KeyRange) -> None:
    """A plain leader gives a partition or not: it knows of no wait list and no lead."""
    member.tell(events.Joining())
    data = AssignmentData(ranges={T0: ranges} if ranges else {})
    member.tell(events.Assigned(events.GroupMetadata(generation), data, plain=True))
    settle(member)


def settle(member: TableMember) -> None:
    """Let everything be asked and answered that may be asked every 100 ms only."""
    for _ in range(5):
        member.after(200)


def test_the_answer_waits_for_running_handlers_and_for_what_they_did_to_be_committed() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"a")
    member.start()
    assert DONE not in withdraw(member)
    member.finish(0)
    assert DONE not in member.after(200)
    member.finish(1)
    settle(member)
    assert DONE in member.seen
    assert member.committed == Committed(2, tag(1))
    [tenure] = member.store.tenures()
    assert tenure.record.released == (WHOLE,)


def test_the_answer_waits_for_the_mirror() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    member.kept_back = {actions.CommitOffsets}
    withdraw(member)
    member.finish(0)
    assert DONE not in member.after(200)
    assert DONE in member.let_go()


def test_a_join_in_the_midst_of_the_end_does_not_forget_what_is_to_be_mirrored() -> None:
    """A plain member goes on from the committed offset: it would repeat what was done."""
    low, high = keys_in(LOW, 1)[0], keys_in(HIGH, 1)[0]
    lead = TableMember(upgrade_from="range")
    lead.assign(LOW)
    lead.produce(low, high)
    lead.finish_all()
    lead.assign()
    settle(lead)
    member = TableMember("m2", log=lead.log, committed=lead.committed, upgrade_from="range")
    member.assign(HIGH, lead="m1")
    member.produce(low, high)
    member.finish_all()
    member.kept_back = {actions.ReadLog}
    member.tell(events.Close())
    settle(member)
    assert member.committed == Committed(0, tag(1)), "the last look at the log is under way"
    withdraw(member)
    member.kept_back.clear()
    member.let_go()
    settle(member)
    assert DONE in member.seen
    assert member.told(actions.Leave)
    assert member.committed == Committed(2, tag(1))


@pytest.mark.parametrize(("by_plain", "offset"), [(False, 2), (True, 0)])
def test_what_was_given_away_by_a_plan_of_ours_is_mirrored_at_the_end(
    by_plain: bool, offset: int
) -> None:
    """Nobody plain is in that generation, who could have rewound; by a plain plan it may be so."""
    member = TableMember(upgrade_from="range")
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    member.finish_all()
    member.kept_back = {actions.CommitOffsets}
    if by_plain:
        assign_plainly(member, 2)
    else:
        member.assign(lead="m2")
        settle(member)
    member.kept_back.clear()
    for it in member.unanswered:
        assert isinstance(it, actions.CommitOffsets)
        over = MemberLostError(GROUP, "m1", "the generation is over")
        member.tell(events.OffsetsCommitted(it.token, over))
    assert member.committed == Committed(0, tag(1)), "its new owner has not begun, and leaves"
    member.tell(events.Close())
    settle(member)
    assert member.told(actions.Leave)
    assert member.committed == Committed(offset, tag(1))


def test_a_record_of_a_key_that_is_still_queued_is_left_to_the_next_owner() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"a", b"b")
    member.start()
    withdraw(member)
    member.finish(0)
    assert DONE in [*member.finish(2), *member.after(200)]
    assert member.start() == []
    assert member.committed == Committed(1, tag(1))


def test_who_has_let_go_claims_nothing_in_its_next_subscription() -> None:
    member = TableMember()
    member.assign(WHOLE)
    withdraw(member)
    member.tell(events.Joining())
    assert decode_subscription(member.core.subscription()).claims == ()


def test_an_evicted_member_lets_go_without_a_mirror() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    withdraw(member)
    member.tell(events.Lost("its session expired"))
    assert DONE in member.finish(0)
    assert member.committed == Committed(0, tag(1))
    assert len(member.told(actions.CommitOffsets)) == 1  # the tag of the epoch's beginning


def test_a_partition_that_comes_back_untouched_goes_on_above_its_gaps() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"a", b"b")
    member.start()
    withdraw(member)
    member.finish(0)
    member.finish(2)
    settle(member)
    assign_plainly(member, 2, WHOLE)
    member.fetch()
    assert member.finish_all() == [1]
    assert member.store.epoch == 1


def test_what_a_plain_member_committed_in_between_begins_an_epoch() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"a", b"b", b"c")
    member.start()
    withdraw(member)
    for offset in (0, 2, 3):
        member.finish(offset)
    settle(member)
    member.committed = Committed(3, "")  # by a plain member, which repeats what lies in our gap
    assign_plainly(member, 3, WHOLE)
    member.fetch()
    assert member.finish_all() == [3]
    assert member.store.epoch == 2


def test_what_a_plain_member_committed_for_its_own_partition_is_not_overwritten() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.finish_all()
    withdraw(member)
    settle(member)
    assert member.committed == Committed(3, tag(1))
    assign_plainly(member, 2)
    member.committed = Committed(1, "")  # its owner has gone back two records
    withdraw(member)
    settle(member)
    assert member.seen.count(DONE) == 2
    member.tell(events.Close())
    settle(member)
    assert member.committed == Committed(1, "")


# -- beside cooperative plain members --------------------------------------------------------------


def test_a_whole_partition_is_kept_through_the_join_and_never_pauses() -> None:
    member = TableMember(**COOPERATIVE)
    member.assign(WHOLE)
    member.produce(b"a", b"a")
    member.start()
    withdraw(member)
    settle(member)
    assert DONE in member.seen
    assert member.core.withdrawal.kept() == (T0,)
    member.tell(events.Joining())
    member.finish(0)
    member.produce(b"b")
    assert member.finish_all() == [1, 2]
    assign_plainly(member, 2, WHOLE)
    member.produce(b"c")
    assert member.finish_all() == [3]
    assert len(member.told(actions.StartStream)) == 1
    assert member.told(actions.Rejoin) == []


def test_a_part_of_a_partition_is_no_word_of_plain_members_and_is_let_go() -> None:
    member = TableMember(**COOPERATIVE)
    member.assign(LOW)
    withdraw(member)
    settle(member)
    assert DONE in member.seen
    assert member.core.withdrawal.kept() == ()
    [tenure] = member.store.tenures()
    assert tenure.record.released == (LOW,)


def test_what_a_plain_leader_took_away_is_let_go_and_told_by_joining_again() -> None:
    member = TableMember(**COOPERATIVE)
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    assign_plainly(member, 2)
    assert len(member.told(actions.Rejoin)) == 1
    withdraw(member)  # as the next join begins
    assert DONE not in member.after(200)
    member.finish(0)
    settle(member)
    assert DONE in member.seen
    assert member.committed == Committed(1, tag(1))
    assert member.core.withdrawal.kept() == ()


def test_ranges_that_a_leader_of_ours_moves_need_no_second_join() -> None:
    member = TableMember(**COOPERATIVE)
    member.assign(WHOLE)
    member.assign(LOW)
    assert member.told(actions.Rejoin) == []
