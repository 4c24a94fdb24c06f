"""The mirror of an owner of a whole partition, who reads no log: what its own records told."""

from __future__ import annotations

from assignors import KEY_HASH_MAX, WHOLE, KeyRange, Wait, decode_subscription
from coop_consumer.core import actions, events
from offsets import MemoryLog
from tests.unit.core_member import T0, TableMember, tag

LOW = KeyRange(0, KEY_HASH_MAX // 2)


def test_a_range_that_went_away_and_came_back_holds_the_mirror_of_the_whole_back_no_more() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.finish_all()
    member.assign(LOW)  # the tenure goes on with LOW; its record tells of the rest for good
    member.assign(WHOLE)  # a second tenure begins for what comes back
    member.produce(*(b"k%d" % number for number in range(50)))
    member.finish_all()
    member.after(10_000)
    member.after(10_000)
    assert member.committed == (53, tag(1))


def test_an_offset_that_a_closing_member_lowered_is_mirrored_again() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.finish_all()
    member.after(10_000)
    assert member.committed == (3, tag(1))
    member.committed = (1, tag(1))  # it had looked before we mirrored, and committed after
    member.after(10_000)
    member.after(10_000)
    assert member.committed == (3, tag(1))


def test_who_closes_looks_at_the_committed_offset_last() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.start()
    member.tell(events.Close())
    member.assign(lead="m2")
    member.kept_back = {actions.ReadLog}
    asked = len(member.told(actions.FetchCommitted))
    for offset in range(3):
        member.finish(offset)
    member.after(10_000)
    assert len(member.told(actions.FetchCommitted)) == asked
    member.committed = (7, tag(1))  # meanwhile the next owner commits
    member.let_go()
    assert member.told(actions.Leave)
    assert member.committed == (7, tag(1))


def test_a_hash_that_is_freed_while_a_commit_is_under_way_holds_the_mirror_back_until_done() -> (
    None
):
    """A record leaves out a hash at which another member still is, and is acknowledged later."""
    log = MemoryLog()
    old = TableMember("m1", log=log)
    old.assign(WHOLE)
    old.produce(b"a", b"b", b"c")
    old.start()
    [claim] = decode_subscription(old.core.subscription()).claims
    old.assign(lead="m2")
    old.finish(1)
    old.finish(2)
    new = TableMember("m2", log=log, committed=old.committed)
    new.assign(WHOLE, waits=(Wait("m1", 1, claim.number, T0, (WHOLE,)),))
    new.produce(b"a", b"b", b"c", b"b")
    new.start()
    new.kept_back = {actions.Append}
    new.finish(3)
    new.after(1_000)
    assert new.unanswered, "a commit is under way"
    old.fail(0)
    new.hear_log()
    new.let_go()
    new.after(10_000)
    assert new.committed == (0, tag(1))
    new.finish_all()
    new.after(10_000)
    new.after(10_000)
    assert new.committed == (4, tag(1))
