"""Beside plain members: everything is let go before a join, and whole partitions come back."""

from __future__ import annotations

from assignors import WHOLE, AssignmentData, decode_subscription
from coop_consumer.core import actions, events
from tests.unit.core_member import T0, TableMember, tag

TOKEN = 7
DONE = actions.Answer(TOKEN, None)


def withdraw(member: TableMember) -> list[actions.Action]:
    return member.tell(events.Withdraw(TOKEN))


def assign_plainly(member: TableMember, generation: int) -> None:
    """A plain leader gives the partition to this member: it knows of no wait list and no lead."""
    member.tell(events.Joining())
    member.tell(events.Assigned(generation, AssignmentData(ranges={T0: (WHOLE,)})))
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
    assert member.committed == (2, tag(1))
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


def test_a_record_of_a_key_that_is_still_queued_is_left_to_the_next_owner() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"a", b"b")
    member.start()
    withdraw(member)
    member.finish(0)
    member.finish(2)
    assert DONE in member.after(200)
    assert member.start() == []
    assert member.committed == (1, tag(1))


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
    assert member.committed == (0, tag(1))
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
    assign_plainly(member, 2)
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
    member.committed = (3, "")  # by a plain member, which repeats what lies in our gap
    assign_plainly(member, 3)
    member.fetch()
    assert member.finish_all() == [3]
    assert member.store.epoch == 2
