"""Exactly once: results and progress leave together, one transaction at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from assignors import WHOLE, KeyRange, Wait
from coop_consumer.core import actions, effects, events
from coop_consumer.core.blocked_read import Blockage, RunId
from coop_consumer.errors import (
    AuthorizationError,
    CoopConsumerError,
    LogLostForGoodError,
    LogWriterBrokenError,
    TransactionAbortedError,
)
from offsets import (
    Committed,
    MemoryLog,
    StopKey,
    Tag,
    TenureId,
    TenureKey,
    TenureRecord,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.unit.core_member import GROUP, HIGH, LOW, T0, TOPIC_ID, TableMember, keys_in
from tests.unit.test_core_effects import Left, running

EO = Tag.EXACTLY_ONCE
A, B = keys_in(LOW, 2)
(C,) = keys_in(HIGH, 1)
ABORTED = TransactionAbortedError("billing", "a broker is away")


@pytest.fixture
def member() -> TableMember:
    """A member whose commits the test answers."""
    member = TableMember(exactly_once=True)
    member.assign(WHOLE)
    member.kept_back = {actions.Commit}
    return member


def work(member: TableMember, *keys: bytes) -> None:
    """Records of these keys come, and each leaves its offset behind."""
    kept, member.kept_back = member.kept_back, set()
    member.produce(*keys)
    member.after(1_000)
    member.kept_back = kept
    while offsets := member.start():
        for offset in offsets:
            assert effects.file(running(member, offset), Left(offset))
            member.finish(offset)


def pending(member: TableMember) -> actions.Commit:
    """The commit under way; there is one."""
    (commit,) = [it for it in member.unanswered if isinstance(it, actions.Commit)]
    return commit


def left_in(commit: actions.Commit) -> list[str]:
    return [str(it) for result in commit.results for it in result.effects]


def answer(member: TableMember, event: events.Event) -> Sequence[actions.Action]:
    """Answer the commit under way."""
    member.unanswered.clear()
    return member.tell(event)


def take(member: TableMember) -> None:
    """The commit under way is committed."""
    commit = pending(member)
    offsets = [member.log.append(*entry) for entry in commit.entries]
    answer(member, events.CommitDone(commit.token, offsets))


def records(commit: actions.Commit) -> list[TenureRecord]:
    keys = [(decode_key(key), value) for key, value in commit.entries]
    told = [decode_value(key, value) for key, value in keys if value and isinstance(key, TenureKey)]
    return [record for record in told if isinstance(record, TenureRecord)]


def held(member: TableMember) -> list[KeyRange]:
    """The ranges that have begun here."""
    partitions = member.core.state.partitions.values()
    return sorted(r for it in partitions for tenure in it.tenures for r in tenure.ranges)


def test_one_transaction_at_a_time_with_the_assignment_of_its_results(member: TableMember) -> None:
    work(member, A)
    member.after(1_000)
    commit = pending(member)
    assert (left_in(commit), commit.metadata.generation) == (["0"], 1)
    work(member, B)
    member.after(10_000)
    assert pending(member) is commit
    take(member)
    member.after(1_000)
    assert left_in(pending(member)) == ["1"]


def test_an_idle_member_opens_no_transaction() -> None:
    """So none can time out, however long nothing comes."""
    member = TableMember(exactly_once=True)
    member.assign(WHOLE)
    member.produce(A)
    member.finish_all()
    member.after(60_000)
    opened = len(member.told(actions.Commit))
    for _ in range(100):
        member.after(60_000)
    assert len(member.told(actions.Commit)) == opened
    assert member.store.progress().stable == 1


@pytest.mark.parametrize(("settings", "is_due"), [({}, False), ({"commit_max_records": 300}, True)])
def test_the_number_of_finished_records_makes_nothing_due_unless_that_is_set(
    settings: dict[str, Any], is_due: bool
) -> None:
    """What a crash has done again costs work, and is never seen."""
    member = TableMember(exactly_once=True, commit_interval_ms=60_000, **settings)
    member.assign(WHOLE)
    member.produce(*[b"k%d" % number for number in range(400)])
    opened = len(member.told(actions.Commit))
    member.start()
    for offset in range(399):  # the last one runs on, so the member is not idle
        member.finish(offset)
    member.after(1_000)
    assert (len(member.told(actions.Commit)) > opened) is is_due


def test_what_an_aborted_one_held_goes_again_before_all_else(member: TableMember) -> None:
    work(member, A)
    member.after(1_000)
    work(member, B)
    answer(member, events.CommitRefused(pending(member).token, ABORTED, events.Refusal.RETRY))
    member.after(1_000)
    assert left_in(pending(member)) == ["0", "1"]
    assert records(pending(member))[0].facts[0].stable == 2


def test_one_of_another_generation_waits_for_the_next_assignment(member: TableMember) -> None:
    work(member, A)
    member.after(1_000)
    answer(member, events.CommitRefused(pending(member).token, ABORTED, events.Refusal.STALE))
    member.after(60_000)
    assert not member.unanswered
    member.assign(WHOLE)
    member.after(1_000)
    commit = pending(member)
    assert (left_in(commit), commit.metadata.generation) == (["0"], 2)


@pytest.mark.parametrize("was_committed", [True, False])
def test_a_doubt_is_ended_by_the_log(member: TableMember, was_committed: bool) -> None:
    work(member, A)
    member.after(1_000)
    commit, end = pending(member), member.log.end_offset
    if was_committed:
        for entry in commit.entries:
            member.log.append(*entry)
    told = answer(member, events.CommitInDoubt(commit.token, range(end, end + 1)))
    assert any(isinstance(it, actions.ReadLog) for it in told)
    member.after(1_000)
    again = [left_in(it) for it in member.unanswered if isinstance(it, actions.Commit)]
    assert again == ([] if was_committed else [["0"]])


def test_what_was_read_before_does_not_end_a_doubt(member: TableMember) -> None:
    member.kept_back.add(actions.ReadLog)
    work(member, A)
    member.after(1_000)
    commit = pending(member)
    answer(member, events.CommitInDoubt(commit.token, [member.log.end_offset]))
    read = member.core.reading._state.views[0].complete
    member.tell(events.LogRead(0, [], read, member.log.end_offset))
    member.after(60_000)
    assert list(member.core.commits.under_way) == [commit.token]


def test_who_has_lost_its_membership_tells_nothing_of_what_it_had_not_committed(
    member: TableMember,
) -> None:
    work(member, A)
    member.after(1_000)
    take(member)
    work(member, B, C)
    running_before = Left("never")
    member.produce(A)
    member.start()
    record = running(member, 3)
    assert effects.file(record, running_before)
    member.tell(events.Lost("its session is over"))
    answer(member, events.CommitRefused(pending(member).token, ABORTED, events.Refusal.STALE))
    assert not effects.file(record, Left("too late")), "a send is refused from now on"
    member.finish(3)
    assert running_before.is_undone
    member.after(60_000)
    assert not member.unanswered, "generation -1 does not leave the process"
    member.assign(WHOLE)
    commit = pending(member)
    assert left_in(commit) == []
    (release,) = records(commit)
    assert release.released == (WHOLE,)
    assert [fact.stable for fact in release.facts] == [1]


def test_results_of_a_lost_membership_are_not_put_back(member: TableMember) -> None:
    work(member, A)
    member.after(1_000)
    commit = pending(member)
    member.tell(events.Lost("its session is over"))
    answer(member, events.CommitRefused(commit.token, ABORTED, events.Refusal.STALE))
    member.assign(WHOLE)
    assert left_in(pending(member)) == []


def test_a_transaction_that_has_passed_its_check_counts_though_the_membership_is_lost(
    member: TableMember,
) -> None:
    work(member, A)
    member.after(1_000)
    member.tell(events.Lost("its session is over"))
    take(member)
    member.assign(WHOLE)
    (release,) = records(pending(member))
    assert [fact.stable for fact in release.facts] == [1]


@pytest.mark.parametrize("was_committed", [True, False])
def test_while_a_transaction_is_in_doubt_no_release_is_told(
    member: TableMember, was_committed: bool
) -> None:
    """It would say what the log has of the tenure, and nobody knows that yet."""
    work(member, A)
    member.after(1_000)
    commit, end = pending(member), member.log.end_offset
    if was_committed:
        for entry in commit.entries:
            member.log.append(*entry)
    member.kept_back.add(actions.ReadLog)
    answer(member, events.CommitInDoubt(commit.token, range(end, end + 1)))
    member.tell(events.Lost("its session is over"))
    member.assign(WHOLE)
    member.after(60_000)
    assert not [it for it in member.unanswered if isinstance(it, actions.Commit)]
    member.kept_back.discard(actions.ReadLog)
    member.hear_log()
    member.after(1_000)
    (release,) = records(pending(member))
    assert release.released == (WHOLE,)
    assert [fact.stable for fact in release.facts] == [int(was_committed)]
    assert left_in(pending(member)) == []


def test_a_range_comes_back_only_once_its_release_is_committed_and_read(
    member: TableMember,
) -> None:
    work(member, A, C)
    member.assign(LOW)
    member.assign(WHOLE)
    take(member)  # what was under way by then
    assert held(member) == [LOW]
    take(member)
    assert held(member) == [LOW], "committed, and not read"
    member.hear_log()
    assert held(member) == [LOW, HIGH]


def test_who_ends_without_a_membership_waits_for_no_commit(member: TableMember) -> None:
    work(member, A)
    member.tell(events.Lost("its session is over"))
    member.tell(events.Close())
    member.after(1_000)
    assert member.told(actions.Leave)


def end_of(member: TableMember) -> CoopConsumerError:
    (leave,) = member.told(actions.Leave)
    assert leave.error is not None
    return leave.error


def test_a_lost_log_ends_the_group_for_good() -> None:
    member = TableMember(exactly_once=True, committed=Committed.mirror(7, 3, TOPIC_ID, EO))
    member.assign(WHOLE)
    for _ in range(5):
        member.after(1_000)
    assert isinstance(end_of(member), LogLostForGoodError)
    assert "has lost epoch 3 of t-0" in str(end_of(member))
    reset = "coop-consumer reset billing --to committed --dry-run --bootstrap table:9092"
    assert f"`{reset}`" in str(end_of(member))


def test_records_that_the_log_has_lost_end_the_group(member: TableMember) -> None:
    work(member, A)
    member.let_go()
    member.lose_log(MemoryLog())
    member.after(1_000)
    assert isinstance(end_of(member), LogLostForGoodError)


def test_a_producer_that_broke_is_no_lost_log() -> None:
    """Another one can write: nobody has to decide where the group goes on."""
    member = TableMember(exactly_once=True, kept_back={actions.Append})
    member.assign(WHOLE)
    append = next(it for it in member.unanswered if isinstance(it, actions.Append))
    broken = LogWriterBrokenError("log", "can no longer be written to by this producer (fatal)")
    member.tell(events.AppendFailed(append.token, broken, is_final=True))
    member.after(1_000)
    assert end_of(member) is broken


SOUND = encode_value(TenureRecord(1, 0, ()))


@pytest.mark.parametrize(
    "value",
    [SOUND[:-1], b"\x02" + SOUND[1:], b"garbage", b""],
    ids=["cut off", "of a newer version", "garbage", "empty"],
)
def test_a_record_of_a_tenure_that_cannot_be_read_ends_the_group(
    member: TableMember, value: bytes
) -> None:
    """What it told may be visible, and nobody knows what it told."""
    member.let_go()
    key = TenureKey(GROUP, TOPIC_ID, 0, TenureId("m2", 7, 1))
    member.log.append(encode_key(key), value)
    member.assign(LOW)
    member.assign(WHOLE)
    member.after(1_000)
    assert "the record of m2/7#1 about t-0 is damaged, or of a newer" in str(end_of(member))
    told = [it.text for it in member.told(actions.LogLine)]
    assert not [text for text in told if "is done again" in text]


def test_the_guarantee_before_begins_an_epoch_without_alarm() -> None:
    member = TableMember(exactly_once=True, committed=Committed.mirror(7, 3, TOPIC_ID))
    member.assign(WHOLE)
    for _ in range(5):
        member.after(1_000)
    assert not member.told(actions.Leave)
    assert member.committed == Committed.mirror(7, 1, TOPIC_ID, EO)


def test_a_transaction_that_hangs_is_named_with_the_command_that_ends_it(
    member: TableMember,
) -> None:
    """twmb/kcl#10 (KAFKA-12671), twmb/franz-go#928 (KAFKA-18957): readers stop for ever."""
    member.assign(LOW)
    runs = [RunId("m2", 7)]
    member.tell(events.ReadBlocked(Blockage(0, 17, 39_000, runs)))
    assert not [it for it in member.told(actions.LogLine) if it.level is actions.Level.ERROR]
    member.tell(events.ReadBlocked(Blockage(0, 17, 40_000, runs)))
    member.tell(events.ReadBlocked(Blockage(0, 17, 40_100, runs)))
    (line,) = [it for it in member.told(actions.LogLine) if it.level is actions.Level.ERROR]
    assert "a transaction of m2 is undecided from offset 17 on, for 40.0 s" in line.text
    assert "abort --topic __individual_commit_offsets-billing --partition 0" in line.text


def test_who_may_not_end_the_transaction_of_a_member_that_is_gone_says_what_ends_it(
    member: TableMember,
) -> None:
    member.assign(LOW)
    refused = AuthorizationError("transactional.id coop-billing-m2-7", "write", "ann")
    for _ in range(3):
        member.tell(events.Fenced((), refused))
    (line,) = [it for it in member.told(actions.LogLine) if it.level is actions.Level.WARNING]
    assert "transactional.id coop-billing-m2-7: user ann may not write" in line.text
    assert "until brokers end it, after transaction.timeout.ms and 10 s" in line.text
    assert member.core.state.counters.fences == 0


def test_a_stop_waits_for_no_transaction() -> None:
    """It is a plain append: a transaction that brokers never take must not hide it."""
    member = TableMember(exactly_once=True, on_failure="stop", max_attempts=1)
    member.assign(WHOLE)
    member.kept_back = {actions.Commit}
    work(member, A)
    member.after(1_000)
    commit = pending(member)
    member.produce(B)
    (offset,) = member.start()
    told = member.fail(offset)
    (stop,) = [
        append
        for append in told
        if isinstance(append, actions.Append)
        and any(isinstance(decode_key(key), StopKey) for key, _ in append.entries)
    ]
    assert stop.entries
    assert member.core.state.membership.stop
    assert pending(member) is commit


def test_since_when_a_read_of_the_log_waits_is_counted(member: TableMember) -> None:
    member.assign(LOW)
    counters = member.core.state.counters
    member.tell(events.ReadBlocked(Blockage(0, 17, 300, [RunId("m2", 7)])))
    assert counters.log_undecided_since_ms == member.now_ms - 300
    member.tell(events.LogRead(0, [], 99, member.log.end_offset))
    assert counters.log_undecided_since_ms == 0


def test_what_a_fallen_owner_has_open_is_ended_before_the_read_that_waits_for_it() -> None:
    """The read is complete once nothing is open: that would take a look after 100 ms."""
    owner = TableMember(exactly_once=True)
    owner.assign(WHOLE)
    runs = [RunId("m1", 1)]
    heir = TableMember("m2", log=owner.log, committed=owner.committed, exactly_once=True)
    heir.kept_back = {actions.ReadLog}
    heir.assign(WHOLE)
    assert not heir.told(actions.Fence), "nothing is known of the owner yet"
    heir.tell(heir.read(0, 0))
    assert [it.runs for it in heir.told(actions.Fence)] == [runs]
    assert not heir.told(actions.RangesAssigned)
    heir.let_go()
    assert heir.told(actions.RangesAssigned)


def test_who_claims_its_ranges_still_is_not_fenced() -> None:
    owner = TableMember(exactly_once=True)
    owner.assign(WHOLE)
    (tenure,) = owner.store.tenures()
    claim = Wait("m1", 1, tenure.id.number, T0, (HIGH,))
    heir = TableMember("m2", log=owner.log, committed=owner.committed, exactly_once=True)
    heir.assign(HIGH, waits=(claim,))
    heir.hear_log()
    assert not heir.told(actions.Fence)
    heir.assign(WHOLE)
    assert heir.told(actions.Fence), "it has fallen: nobody lists its claim any more"
