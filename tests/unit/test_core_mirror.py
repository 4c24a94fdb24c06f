"""The mirror of an owner of a whole partition, who reads no log: what its own records told."""

from __future__ import annotations

import pytest

from assignors import WHOLE, Wait, decode_subscription
from coop_consumer.core import actions, events
from offsets import (
    BaseKey,
    BaseRecord,
    Committed,
    MemoryLog,
    RangeProgress,
    TenureId,
    TenureKey,
    TenureRecord,
    encode_key,
    encode_value,
)
from tests.unit.core_member import GROUP, LOW, T0, TO_LOG, TOPIC_ID, TableMember, tag


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
    assert member.committed == Committed(53, tag(1))


def test_what_a_seek_has_skipped_and_another_has_told_since_holds_the_mirror_back_no_more() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"a", b"a")
    member.tell(events.Seek(7, T0, 2))
    member.fetch()
    member.finish_all()
    member.after(10_000)
    assert member.committed == Committed(0, tag(1)), "the skipped ones are not done"
    late = TenureKey(GROUP, TOPIC_ID, 0, TenureId("evicted", 9, 1))
    facts = TenureRecord(1, -1, (RangeProgress(WHOLE, 2),), released=(WHOLE,))
    member.log.append(encode_key(late), encode_value(facts))
    member.hear_log()
    for _ in range(3):
        member.after(10_000)
    assert member.committed == Committed(3, tag(1))


def test_an_offset_that_a_closing_member_lowered_is_mirrored_again() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.finish_all()
    member.after(10_000)
    assert member.committed == Committed(3, tag(1))
    member.committed = Committed(1, tag(1))  # it had looked before we mirrored, and committed after
    member.after(10_000)
    member.after(10_000)
    assert member.committed == Committed(3, tag(1))


@pytest.mark.parametrize(
    "late", [None, Committed.mirror(9, 1, b"old-topic-id-old"), Committed(9, tag(1))]
)
def test_a_commit_of_an_older_topic_or_epoch_that_comes_late_is_mirrored_over(
    late: Committed | None,
) -> None:
    """A newcomer waits until tag and log agree, whatever the late commit says."""
    before = TableMember("m1")
    before.assign(WHOLE)
    before.produce(b"a", b"b", b"c")
    before.finish_all()
    before.after(10_000)
    member = TableMember("m2", log=before.log, committed=Committed(1, "rewound"))
    member.assign(WHOLE)
    member.after(10_000)
    assert member.committed == Committed(1, tag(2))
    member.committed = late
    member.after(10_000)
    member.after(10_000)
    assert member.committed == Committed(1, tag(2))


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
    member.committed = Committed(7, tag(1))  # meanwhile the next owner commits
    member.let_go()
    assert member.told(actions.Leave)
    assert member.committed == Committed(7, tag(1))


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
    new.kept_back = set(TO_LOG)
    new.finish(3)
    new.after(1_000)
    assert new.unanswered, "a commit is under way"
    old.fail(0)
    new.hear_log()
    new.let_go()
    new.after(10_000)
    assert new.committed == Committed(0, tag(1))
    new.finish_all()
    new.after(10_000)
    new.after(10_000)
    assert new.committed == Committed(4, tag(1))


def test_who_closes_mirrors_nothing_of_an_epoch_that_another_has_ended() -> None:
    """An offset without an epoch would be taken for somebody's decision."""
    closing = TableMember()
    closing.assign(WHOLE)
    closing.produce(b"a", b"b", b"c")
    closing.finish_all()
    closing.produce(b"d")
    closing.start()
    closing.assign(lead="m2")
    closing.tell(events.Close())
    base = BaseKey(GROUP, TOPIC_ID, 0, 2, "m2/2/1")
    closing.log.append(encode_key(base), encode_value(BaseRecord(2, 1)))
    closing.finish(3)
    for _ in range(20):
        closing.hear_log()
        closing.after(1_000)
    assert closing.told(actions.Leave)
    mirrored = [value for c in closing.told(actions.CommitOffsets) for value in c.offsets.values()]
    assert {metadata for _, metadata in mirrored} <= {tag(1)}


def mirrors_at(member: TableMember, until_ms: int, *, record_every_ms: int) -> list[int]:
    """When it mirrors, in ms, while records come one by one and each is done at once."""
    began_ms, times, count = member.now_ms, [], len(member.told(actions.CommitOffsets))
    for now_ms in range(until_ms):
        if now_ms % record_every_ms == 0:
            member.produce(b"k%d" % now_ms)
            member.finish_all()
        member.after(1)
        if (told := len(member.told(actions.CommitOffsets))) > count:
            count = told
            times.append(member.now_ms - began_ms)
    return times


def test_the_end_of_a_backlog_is_mirrored_50_ms_after_the_mirror_before() -> None:
    member = TableMember(commit_interval_ms=10)
    member.assign(WHOLE)
    member.after(1_000)
    member.produce(*(b"a%d" % number for number in range(50)))
    member.finish_all()
    member.after(1)
    assert member.committed == Committed(50, tag(1)), "a mirror in the middle of the backlog"
    member.produce(*(b"b%d" % number for number in range(50)))
    member.start()
    member.after(20)
    member.finish_all()
    ended_ms = member.now_ms
    while member.committed == Committed(50, tag(1)):
        member.now_ms = member.core.next_wake_ms()
        member.tell(events.Tick())
    assert member.committed == Committed(100, tag(1))
    assert member.now_ms - ended_ms <= 50


@pytest.mark.parametrize("record_every_ms", [20, 60, 110, 190])
def test_under_few_records_there_are_no_more_than_five_mirrors_a_second(
    record_every_ms: int,
) -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.after(1_000)
    times = mirrors_at(member, 6_000, record_every_ms=record_every_ms)
    assert 20 <= len(times) <= 6_000 // 200 + 2
