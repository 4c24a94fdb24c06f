"""What a user asks of the core: commit now, tell progress, pause, resume, seek, own ranges."""

from __future__ import annotations

import pytest

from assignors import KEY_HASH_MAX, WHOLE, KeyRange, Wait, decode_subscription, key_hash, union
from coop_consumer.core import actions, events
from coop_consumer.core.committed import CommittedOffset, committed_offset
from coop_consumer.errors import BrokerUnreachableError
from offsets import Committed, MemoryLog, OffsetRange, TenureRecord, range_progress
from tests.support.written_log import OLD, WrittenLog
from tests.support.written_log import TOPIC_ID as LOG_TOPIC_ID
from tests.unit.core_member import T0, TO_LOG, TableMember, tag

LOW = KeyRange(0, KEY_HASH_MAX // 2 - 1)
HIGH = KeyRange(KEY_HASH_MAX // 2, KEY_HASH_MAX)
LOW_KEY, HIGH_KEY = (
    next(key for i in range(99) if key_hash(key := b"key-%d" % i) in half) for half in (LOW, HIGH)
)


@pytest.fixture
def member() -> TableMember:
    it = TableMember()
    it.assign(WHOLE)
    return it


def done(member: TableMember, key: bytes, *offsets: int) -> list[bool]:
    """What the log says of these records."""
    progress = member.store.progress()
    return [progress.is_done(key_hash(key), offset) for offset in offsets]


def answers(seen: list[actions.Action]) -> list[object]:
    return [action.value for action in seen if isinstance(action, actions.Answer)]


def test_what_passes_by_a_draining_hash_is_not_done(member: TableMember) -> None:
    member.produce(HIGH_KEY)
    member.start()
    member.assign(LOW)
    member.produce(HIGH_KEY, LOW_KEY)
    member.finish(0)
    member.after(1_000)
    assert done(member, HIGH_KEY, 0, 1) == [True, False], "I2: the next owner must get 1"


def test_a_commit_is_answered_when_the_log_has_it(member: TableMember) -> None:
    member.produce(b"a", b"b")
    member.start()
    member.finish(1)
    member.kept_back = set(TO_LOG)
    assert answers(member.tell(events.CommitNow(7))) == []
    assert answers(member.let_go()) == [{T0: 0}]
    assert done(member, b"b", 1) == [True]
    assert answers(member.tell(events.CommitNow(8))) == [{T0: 0}], "nothing new: at once"


def test_a_commit_under_way_is_not_mistaken_for_the_one_asked_for(member: TableMember) -> None:
    member.produce(b"a", b"b")
    member.start()
    member.kept_back = set(TO_LOG)
    member.finish(0)
    member.after(1_000)
    [under_way] = member.unanswered
    member.finish(1)
    member.tell(events.CommitNow(7))
    member.unanswered.clear()
    [appended] = member.answers(under_way)
    assert answers(member.tell(appended)) == [], "it was built before 1 was finished"
    assert answers(member.let_go()) == [{T0: 2}]


def test_a_commit_waits_for_the_one_under_way_if_that_has_all_there_is(member: TableMember) -> None:
    member.produce(b"a", b"b")
    member.start()
    member.finish(0)
    member.kept_back = set(TO_LOG)
    member.after(1_000)
    [under_way] = member.unanswered
    member.unanswered.clear()
    assert answers(member.tell(events.CommitNow(7))) == [], "the log does not have it yet"
    [appended] = member.answers(under_way)
    assert answers(member.tell(appended)) == [{T0: 1}]


def test_a_failed_commit_is_repeated_before_the_answer(member: TableMember) -> None:
    member.produce(b"a")
    member.start()
    member.finish(0)
    member.kept_back = set(TO_LOG)
    member.tell(events.CommitNow(7))
    [append] = member.unanswered
    assert isinstance(append, TO_LOG)
    member.unanswered.clear()
    member.kept_back = set()
    error = BrokerUnreachableError("table:9092", "timed out")
    assert answers(member.tell(events.AppendFailed(append.token, error))) == []
    assert answers(member.after(1_000)) == [{T0: 1}]


def test_progress_is_told_from_a_read_that_began_after_the_question(member: TableMember) -> None:
    member.finish_all()
    member.kept_back = {actions.ReadLog}
    of_a_deleted_topic = Committed.mirror(99, 1, bytes(16))
    assert answers(member.tell(events.TellProgress(7, {T0: of_a_deleted_topic}))) == []
    assert answers(member.let_go()) == [{T0: CommittedOffset(0)}]


def test_a_pause_takes_back_what_waits_and_leaves_what_runs(member: TableMember) -> None:
    member.produce(b"a", b"b", b"a")
    assert member.start() == [0, 1]
    member.tell(events.Pause(7, [T0]))
    assert member.core.state.pending() == 0
    member.finish(0)
    member.tell(events.Resume(8, [T0]))
    member.fetch()
    assert member.start() == [2], "0 is done, and 1 still runs"
    member.finish(1)
    member.finish(2)
    member.after(1_000)
    assert member.finished == [0, 1, 2]
    assert member.store.progress().stable == 3


def test_a_key_that_runs_while_its_stream_begins_anew_waits(member: TableMember) -> None:
    member.produce(b"a", b"a")
    member.start()
    member.tell(events.Seek(7, T0, 0))
    member.fetch()
    assert member.start() == [], "I4: 0 is in somebody's hands"
    member.finish(0)
    assert member.start() == [1], "what was in hand does not come twice"


def test_what_was_in_hand_and_fails_comes_again(member: TableMember) -> None:
    member.produce(b"a")
    member.start()
    member.tell(events.Seek(7, T0, 0))
    member.fetch()
    member.fail(0)
    assert member.start() == [0]
    [lane] = [lane for lane, _, _ in member.running.values()]
    assert lane.records[0].attempt == 2


def test_failures_are_counted_on_if_the_stream_begins_anew_meanwhile() -> None:
    """The log's record of our own failures is older than what we know."""
    member = TableMember(max_attempts=9, circuit_share=0, attempt_backoff_ms=10)
    member.assign(WHOLE)
    member.produce(b"a")
    member.fail(*member.start())
    member.after(10_000)
    member.start()
    member.tell(events.Pause(1, [T0]))
    member.fail(0)
    member.tell(events.Resume(2, [T0]))
    member.fetch()
    member.start()
    assert [record.attempt for _, record, _ in member.running.values()] == [3]


def test_a_seek_back_repeats_and_withdraws_nothing(member: TableMember) -> None:
    member.produce(b"a", b"b", b"c", b"a")
    member.finish_all()
    member.after(1_000)
    assert answers(member.tell(events.Seek(7, T0, 1))) == [(WHOLE,)]
    member.after(1_000)
    assert member.store.progress().stable == 4, "I3: no fact is withdrawn"
    member.fetch()
    assert member.finish_all() == [1, 2, 3]


def test_a_seek_forward_skips_and_claims_nothing(member: TableMember) -> None:
    member.produce(b"a", b"b", b"c", b"a")
    member.tell(events.Seek(7, T0, 2))
    member.fetch()
    assert member.finish_all() == [2, 3]
    member.after(1_000)
    assert member.store.progress().clip(WHOLE) == (range_progress(WHOLE, 0, [OffsetRange(2, 3)]),)
    following = TableMember("m2", log=member.log, committed=member.committed)
    member.assign()
    following.messages = member.messages
    following.assign(WHOLE)
    following.fetch()
    assert following.finish_all() == [0, 1]


def test_facts_released_before_a_seek_are_told_after_it(member: TableMember) -> None:
    member.produce(LOW_KEY, HIGH_KEY, LOW_KEY)
    member.finish_all()
    member.kept_back = set(TO_LOG)  # the release is not in the log yet
    member.assign(LOW)
    member.tell(events.Seek(7, T0, 2))
    [tenure] = member.core.state.partitions[T0].tenures
    assert union(fact.range for fact in tenure.facts()) == (WHOLE,)
    assert {fact.stable for fact in tenure.facts()} == {3}
    member.let_go()
    member.after(1_000)
    assert done(member, HIGH_KEY, 1) == [True]


def test_a_range_that_moves_away_after_a_seek_takes_true_facts_along(member: TableMember) -> None:
    member.produce(LOW_KEY, HIGH_KEY, LOW_KEY, HIGH_KEY)
    member.tell(events.Seek(7, T0, 2))
    member.fetch()
    assert member.start() == [2, 3]
    member.assign(LOW)
    member.finish(3)
    member.finish(2)
    member.after(1_000)
    assert done(member, HIGH_KEY, 1, 3) == [False, True]
    assert done(member, LOW_KEY, 0, 2) == [False, True]


def test_a_range_that_comes_back_after_a_seek_gets_what_was_skipped(member: TableMember) -> None:
    member.produce(LOW_KEY, HIGH_KEY, LOW_KEY, HIGH_KEY)
    member.tell(events.Seek(7, T0, 2))
    member.fetch()
    assert member.start() == [2, 3]
    member.assign(LOW)
    member.assign(WHOLE)
    member.finish(3)
    member.fetch()
    assert member.start() == [1], "3 is done, 1 was only skipped"


def test_what_is_not_held_cannot_be_sought() -> None:
    member = TableMember()
    assert answers(member.tell(events.Seek(7, T0, 0))) == [()]


def test_a_pause_outlasts_a_rebalance(member: TableMember) -> None:
    member.tell(events.Pause(7, [T0]))
    member.assign()
    member.assign(WHOLE)
    member.produce(b"a")
    assert member.start() == []
    member.tell(events.Resume(8, [T0]))
    member.fetch()
    assert member.start() == [0]


def test_ranges_are_assigned_without_a_group_and_others_are_named() -> None:
    log = MemoryLog()
    first, second = TableMember("m1", log=log), TableMember("m2", log=log)
    first.tell(events.AssignAlone({T0: (LOW,)}))
    first.produce(LOW_KEY, HIGH_KEY)
    assert first.finish_all() == [0]
    second.committed = first.committed
    second.tell(events.AssignAlone({T0: (WHOLE,)}))
    warnings = [r.text for r in second.told(actions.LogLine) if r.level is actions.Level.WARNING]
    assert [text for text in warnings if f"keys {LOW}" in text and "held by m1" in text]
    assert not [r for r in first.told(actions.LogLine) if r.level is actions.Level.WARNING]


def test_an_offset_set_by_somebody_else_stands_above_the_log() -> None:
    log = WrittenLog().base(1, 40)
    lower = range_progress(LOW, 43, [OffsetRange(45, 47)])
    upper = range_progress(HIGH, 44, [OffsetRange(46, 50)])
    log.tenure(OLD, TenureRecord(1, -1, (lower, upper)))
    store = log.store.partition(LOG_TOPIC_ID, 0)
    ours = CommittedOffset(43, (OffsetRange(46, 47),))
    assert committed_offset(store, Committed(43, tag(1))) == ours
    assert committed_offset(store, None) == ours
    assert committed_offset(store, Committed(7)) == CommittedOffset(7)
    assert committed_offset(
        log.base(2, 40).store.partition(LOG_TOPIC_ID, 0), Committed(43, tag(1))
    ) == CommittedOffset(40), "a reset is ahead of its tag"
    assert committed_offset(WrittenLog().store.partition(LOG_TOPIC_ID, 0), None) is None


def test_a_changed_capacity_is_told_with_the_next_subscription() -> None:
    member = TableMember(capacity=4)
    assert decode_subscription(member.core.subscription()).capacity == 4
    before = len(member.told(actions.Rejoin))
    member.tell(events.CapacityChanged(9))
    assert decode_subscription(member.core.subscription()).capacity == 9
    assert len(member.told(actions.Rejoin)) == before, "no rebalance is asked for"


def test_a_seek_ahead_does_not_commit_what_a_handler_elsewhere_is_at() -> None:
    """The tracker's new beginning is no fact, also for hashes that the record omits."""
    old = TableMember("m1")
    old.assign(WHOLE)
    old.produce(LOW_KEY)
    old.start()
    old.assign()
    (claim,) = decode_subscription(old.core.subscription()).claims
    new = TableMember("m2", log=old.log, committed=old.committed)
    new.assign(WHOLE, waits=(Wait("m1", 1, claim.number, T0, claim.ranges),))
    new.messages = list(old.messages)
    new.produce(HIGH_KEY)
    new.finish(*new.start())
    new.tell(events.Seek(1, T0, 2))
    assert answers(new.tell(events.CommitNow(2))) == [{T0: 0}]
    new.after(10_000)
    assert new.committed == Committed(0, tag(1))
    old.finish(0)
    new.hear_log()
    assert answers(new.tell(events.CommitNow(3))) == [{T0: 2}]
