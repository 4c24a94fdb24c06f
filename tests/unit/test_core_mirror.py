"""The mirror of an owner of a whole partition, who reads no log: what its own records told."""

from __future__ import annotations

from assignors import KEY_HASH_MAX, WHOLE, KeyRange
from coop_consumer.core import actions, events
from tests.unit.core_member import TableMember, tag

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
