"""The mirror of an owner of a whole partition, who reads no log: what its own records told."""

from __future__ import annotations

from assignors import KEY_HASH_MAX, WHOLE, KeyRange
from tests.unit.core_member import TableMember

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
    assert member.committed == (53, "coop:1")
