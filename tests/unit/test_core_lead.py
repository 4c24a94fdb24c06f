"""Tag and log: when an epoch begins, and what is mirrored into the committed offset."""

from __future__ import annotations

from itertools import pairwise

from assignors import WHOLE, Wait, decode_subscription
from coop_consumer.core import actions, events
from coop_consumer.errors import BrokerUnreachableError
from offsets import (
    AnnounceKey,
    BaseKey,
    BaseRecord,
    Committed,
    Key,
    MemoryLog,
    TenureKey,
    decode_key,
    encode_key,
    encode_value,
)
from tests.unit.core_member import GROUP, HIGH, LOW, T0, TO_LOG, TOPIC_ID, TableMember, tag

LOST = BrokerUnreachableError("table:9092", "no answer")


def test_a_fresh_group_begins_where_auto_offset_reset_points_to() -> None:
    member = TableMember(auto_offset_reset="earliest")
    member.assign(WHOLE)
    assert member.told(actions.ResolveOffset) == [actions.ResolveOffset(T0, "earliest")]
    assert (member.store.epoch, member.store.base_offset) == (1, 0)
    assert member.committed == Committed(0, tag(1))


def test_a_plain_groups_offset_is_taken_over_in_one_epoch() -> None:
    member = TableMember(committed=Committed(7, "theirs"))
    member.assign(WHOLE)
    assert (member.store.epoch, member.store.base_offset) == (1, 7)
    assert member.committed == Committed(7, tag(1))
    assert [start.offset for start in member.told(actions.StartStream)] == [7]


def test_a_rewind_of_the_committed_offset_begins_the_next_epoch() -> None:
    first = TableMember()
    first.assign(WHOLE)
    first.produce(b"a", b"b", b"c")
    first.finish_all()
    first.tell(events.Close())
    assert first.committed == Committed(3, tag(1))

    second = TableMember("m2", log=first.log, committed=Committed(1, ""))
    second.assign(WHOLE)
    assert (second.store.epoch, second.store.base_offset) == (2, 1)
    second.produce(b"a", b"b", b"c")
    assert second.finish_all() == [1, 2]
    assert second.committed is not None
    assert second.committed[1] == tag(2)


def test_a_rewind_to_the_very_base_of_an_epoch_that_was_used_is_a_new_epoch() -> None:
    first = TableMember()
    first.assign(WHOLE)
    first.produce(b"a")
    first.finish_all()
    first.tell(events.Close())
    second = TableMember("m2", log=first.log, committed=Committed(0, ""))
    second.assign(WHOLE)
    assert second.store.epoch == 2


def test_a_lead_that_died_before_it_tagged_the_epoch_leaves_no_second_epoch() -> None:
    first = TableMember(committed=Committed(7, "theirs"))
    first.kept_back = {actions.CommitOffsets}
    first.assign(WHOLE)
    assert first.store.epoch == 1
    second = TableMember("m2", log=first.log, committed=Committed(7, "theirs"))
    second.assign(WHOLE)
    assert second.store.epoch == 1
    assert second.committed == Committed(7, tag(1))


def test_a_lost_progress_topic_costs_repeats_from_the_stable_offset_never_loss() -> None:
    member = TableMember(committed=Committed(5, tag(3)))
    member.assign(WHOLE)
    assert (member.store.epoch, member.store.base_offset) == (4, 5)
    assert member.committed == Committed(5, tag(4))


def test_a_lead_whose_view_is_older_than_the_tag_reads_once_more_and_begins_no_epoch() -> None:
    zombie = TableMember("m1")
    zombie.kept_back = {actions.FetchCommitted}
    zombie.assign(WHOLE)
    successor = TableMember("m2", log=zombie.log, committed=Committed(4, "theirs"))
    successor.assign(WHOLE)
    successor.after(1_000)
    zombie.committed = successor.committed
    assert zombie.committed == Committed(4, tag(1))
    zombie.let_go()
    assert zombie.store.epoch == 1


def test_nobody_starts_before_tag_and_log_agree() -> None:
    member = TableMember()
    member.kept_back = {actions.CommitOffsets}
    member.assign(WHOLE)
    assert not member.told(actions.StartStream)
    member.let_go()
    assert member.told(actions.StartStream)


def test_a_base_record_whose_reply_is_lost_is_found_in_the_log() -> None:
    member = TableMember(committed=Committed(7, "theirs"))
    member.kept_back = set(TO_LOG)
    member.assign(WHOLE)
    for append in (action for action in list(member.unanswered) if isinstance(action, TO_LOG)):
        for key, value in append.entries:
            member.log.append(key, value)
        member.unanswered.remove(append)
        member.kept_back = set()
        member.tell(events.AppendFailed(append.token, LOST))
    member.after(200)
    assert member.store.epoch == 1
    assert member.committed == Committed(7, tag(1))


def test_the_mirror_is_never_lower_than_what_is_committed() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    member.finish_all()
    member.committed = Committed(2, tag(1))
    member.after(10_000)
    assert member.committed == Committed(2, tag(1))


def test_an_offset_read_before_a_sleep_is_no_foreign_decision_beside_a_log_read_after_it() -> None:
    zombie = TableMember("m1", committed=Committed(4, "theirs"))
    zombie.kept_back = {actions.ReadLog}
    zombie.assign(WHOLE)
    zombie.tell(events.CommittedRead({T0: Committed(4, "theirs")}))
    successor = TableMember("m2", log=zombie.log, committed=Committed(4, "theirs"))
    successor.assign(WHOLE)
    successor.after(1_000)
    zombie.committed = successor.committed
    zombie.let_go()
    zombie.after(1_000)
    assert zombie.store.epoch == 1


def tombstones(member: TableMember) -> list[Key]:
    """The keys that it deleted."""
    entries = [entry for append in member.to_log() for entry in append.entries]
    return [decode_key(key) for key, value in entries if value is None]


def test_the_lead_clears_what_is_superseded_and_whom_nobody_misses() -> None:
    old = TableMember("m1")
    old.assign(WHOLE, live=("m1", "m2"))
    old.tell(events.Close())
    old.after(1_000)
    assert old.told(actions.Leave)
    lead = TableMember("m2", log=old.log, committed=old.committed)
    lead.assign(LOW, live=("m2", "m3"))
    other = TableMember("m3", log=old.log, committed=old.committed)
    other.assign(HIGH, lead="m2")
    for _ in range(5):
        lead.hear_log()
        lead.after(10_000)
    keys = tombstones(lead)
    assert [key.tenure.member for key in keys if isinstance(key, TenureKey)] == ["m1"]
    assert [key.member for key in keys if isinstance(key, AnnounceKey)] == ["m1"]
    assert len(keys) == 2


def test_the_owner_of_a_whole_partition_clears_it_once_after_each_assignment() -> None:
    old = TableMember("m1")
    old.assign(WHOLE)
    old.tell(events.Close())
    new = TableMember("m2", log=old.log, committed=old.committed)
    new.assign(WHOLE, lead="m3")
    reads = len(new.told(actions.ReadLog))
    for _ in range(5):
        new.after(10_000)
    assert [key.tenure.member for key in tombstones(new) if isinstance(key, TenureKey)] == ["m1"]
    assert len(new.told(actions.ReadLog)) == reads + 1
    assert not [key for key in tombstones(new) if isinstance(key, AnnounceKey)]


def test_an_owner_that_waits_for_a_draining_hash_clears_nothing() -> None:
    old = TableMember("m1")
    old.assign(WHOLE)
    old.produce(b"a", b"b")
    old.start()
    claim = decode_subscription(old.core.subscription()).claims[0]
    old.assign()
    new = TableMember("m2", log=old.log, committed=old.committed)
    wait = Wait("m1", 1, claim.number, T0, claim.ranges)
    new.assign(WHOLE, waits=(wait,), lead="m1")
    for _ in range(4):
        new.hear_log()
        new.after(10_000)
    assert not tombstones(new)
    old.finish(0)
    old.finish(1)
    for _ in range(4):
        new.hear_log()
        new.after(10_000)
    assert tombstones(new)


def test_a_member_that_is_not_in_the_group_sleeps() -> None:
    member = TableMember()
    member.now_ms = 60_000
    member.tell(events.Joining())
    assert member.core.next_wake_ms() >= 61_000
    member.assign(WHOLE)
    member.tell(events.Lost("evicted"))
    member.after(60_000)
    assert member.core.next_wake_ms() >= member.now_ms + 1_000


def test_a_lead_that_finds_more_partitions_than_the_plan_joins_again() -> None:
    """They were added while a static group was down: the coordinator gives the plan of before."""
    member = TableMember(static=True)
    member.tell(events.TopicsKnown({"t": (TOPIC_ID, 3)}))
    member.assign(WHOLE, planned=1)
    told = [action.reason for action in member.told(actions.Rejoin)]
    assert told == ["topic t has 3 partitions, and the plan 1"]
    member.assign(WHOLE, planned=3)
    member.after(60_000)
    assert len(member.told(actions.Rejoin)) == 1


def test_while_the_plan_does_not_know_them_the_lead_asks_again_more_and_more_seldom() -> None:
    """The leader has old metadata, or has crashed, and its next run plans nothing by itself."""
    member = TableMember(static=True)
    member.tell(events.TopicsKnown({"t": (TOPIC_ID, 3)}))
    asked, rejoins = [], member.assign(WHOLE, planned=1)
    for _ in range(50):
        if any(isinstance(action, actions.Rejoin) for action in rejoins):
            asked.append(member.now_ms)
            rejoins = member.assign(WHOLE, planned=1)
        else:
            rejoins = member.after(1_000)
    assert [later - earlier for earlier, later in pairwise(asked)] == [5_000, 10_000, 20_000]


def test_a_plan_lacks_nothing_of_a_topic_that_the_member_has_left() -> None:
    member = TableMember()
    member.tell(events.TopicsKnown({"u": (bytes(16), 5)}))
    member.tell(events.TopicsKnown({}, frozenset({"u"})))
    member.assign(WHOLE, planned=1)
    member.after(600_000)
    assert member.told(actions.Rejoin) == []


def test_a_plan_lacks_nothing_of_a_topic_that_does_not_exist_until_it_does_again() -> None:
    member = TableMember()
    member.tell(events.TopicsKnown({"u": (bytes(16), 5)}))
    member.tell(events.TopicsKnown({}, missing=frozenset({"u"})))
    member.assign(WHOLE, planned=1)
    member.after(600_000)
    assert member.told(actions.Rejoin) == []
    member.tell(events.TopicsKnown({"u": (bytes(16), 5)}))
    member.assign(WHOLE, planned=1)
    told = [action.reason for action in member.told(actions.Rejoin)]
    assert told == ["topic u has 5 partitions, and the plan 1"]


def test_whoever_does_not_lead_leaves_new_partitions_to_the_lead() -> None:
    member = TableMember()
    member.tell(events.TopicsKnown({"t": (TOPIC_ID, 3)}))
    assert not [
        a for a in member.assign(LOW, lead="m2", planned=1) if isinstance(a, actions.Rejoin)
    ]


def test_an_epoch_that_the_log_has_lost_is_begun_anew_by_whoever_notices() -> None:
    """The lead read its beginning long ago, and sees no reason to do anything."""
    old = TableMember()
    old.assign(WHOLE)
    old.produce(b"a", b"b")
    old.finish_all()
    old.after(10_000)
    newcomer = TableMember("m2", committed=old.committed)  # with an empty log
    newcomer.assign(HIGH, lead="m1")
    assert (newcomer.store.epoch, newcomer.store.base_offset) == (2, 2)


def test_who_has_no_part_in_a_partition_begins_no_epoch_of_it() -> None:
    """Nobody would hear of it: who begins in a new epoch tells of it, and it begins nothing."""
    member = TableMember()
    member.assign(WHOLE)
    member.assign(lead="m2")
    member.lose_log(MemoryLog())
    member.after(10_000)
    member.hear_log()
    assert member.store.epoch is None
    assert member.core.next_wake_ms() - member.now_ms > 100, "it has nothing to wait for"


def test_what_was_told_before_the_log_lost_it_is_told_again_and_work_goes_on() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.start()
    member.finish(1)
    member.after(10_000)
    empty = MemoryLog()
    member.lose_log(empty)
    member.after(10_000)
    assert (member.store.epoch, member.store.base_offset) == (2, 0), "nothing was mirrored yet"
    member.finish(0)
    member.finish(2)
    member.fetch()
    assert member.finish_all() == [0, 1, 2], "what nobody can tell any more is repeated"
    member.after(10_000)
    assert member.committed == Committed(3, tag(2))


def test_who_comes_to_lead_as_the_next_epoch_begins_gives_up_what_it_holds_of_the_old() -> None:
    member = TableMember()
    member.assign(LOW)
    member.assign(LOW, lead="m2")
    member.produce(*(b"key-%d" % number for number in range(8)))
    done = member.finish_all()
    assert done
    member.kept_back = {actions.ReadLog}
    member.assign(LOW)
    end_of_epoch = BaseKey(GROUP, TOPIC_ID, 0, 2, "m2/1/1")
    member.log.append(encode_key(end_of_epoch), encode_value(BaseRecord(2, 0)))
    member.committed = Committed(0, tag(2))
    member.let_go()
    member.hear_log()
    member.fetch()
    assert member.finish_all() == done, "nothing counts in the new epoch that the old one told"


def test_an_epoch_whose_beginning_the_log_has_lost_is_not_begun_a_second_time() -> None:
    """Its remaining facts would count records as done that somebody has asked for again."""
    first = TableMember()
    first.assign(WHOLE)
    first.produce(b"a", b"b", b"c")
    first.finish_all()
    first.tell(events.Close())
    rest = MemoryLog()
    for record in first.log.read(0, 100).records:
        if not isinstance(decode_key(record.key), BaseKey):
            rest.append(record.key, record.value)
    second = TableMember("m2", log=rest, committed=Committed(1, ""))
    second.assign(WHOLE)
    begun = [key for record in rest.read(0, 100).records if (key := decode_key(record.key))]
    assert [key.epoch for key in begun if isinstance(key, BaseKey)] == [2]
    second.produce(b"a", b"b", b"c")
    assert second.finish_all() == [1, 2]


def test_who_slept_over_the_answer_where_to_begin_begins_where_the_group_is() -> None:
    """Meanwhile the group has begun, and the log has lost how: the old answer may lie behind."""
    member = TableMember(kept_back={actions.ResolveOffset})
    member.assign(WHOLE)
    member.committed = Committed(5, tag(2))
    member.tell(events.CommittedRead({T0: member.committed}))
    member.let_go()
    keys = [decode_key(record.key) for record in member.log.read(0, 100).records]
    assert [key.epoch for key in keys if isinstance(key, BaseKey)] == [3]
    assert (member.store.epoch, member.store.base_offset) == (3, 5)


def test_a_lead_that_has_missed_a_plan_compares_again() -> None:
    """By that plan plain members had the partition: nobody began what they committed."""
    member = TableMember(upgrade_from="range")
    member.assign(WHOLE)
    assert member.store.epoch == 1
    member.tell(events.Withdraw(7))
    member.committed = Committed(45, "")
    member.assign(lead="m1", generation=3)
    for _ in range(5):
        member.after(200)
    assert (member.store.epoch, member.store.base_offset) == (2, 45)
    assert member.committed == Committed(45, tag(2))


def test_what_a_stranger_commits_once_an_epoch_is_agreed_on_is_no_fact_of_that_epoch() -> None:
    """A member slept after it had agreed, and plain members were there meanwhile."""
    before = TableMember("m1")
    before.assign(WHOLE)
    before.produce(b"a", b"b", b"c", b"d")
    before.start()
    before.finish(0)
    before.after(10_000)
    member = TableMember(
        "m2", log=before.log, committed=before.committed, kept_back=[actions.Append]
    )
    member.assign(WHOLE)
    member.kept_back |= {actions.FetchCommitted, actions.CommitOffsets}
    member.tell(events.CommittedRead({T0: Committed(3, "")}))
    for append in member.unanswered:
        if isinstance(append, actions.Append):
            for event in member.answers(append):
                member.tell(event)
    facts = [fact for tenure in member.store.tenures() for fact in tenure.record.facts]
    assert {fact.stable for fact in facts} == {1}
