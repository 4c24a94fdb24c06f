"""Commits that the log does not take in time are told of, and no others."""

from __future__ import annotations

import pytest

from assignors import WHOLE, key_hash
from coop_consumer.core import actions, events, record_size
from coop_consumer.core.record_size import RECORD_MAX_BYTES
from coop_consumer.errors import BrokerUnreachableError, RecordTooLargeError
from coop_consumer.log_events import LogEvent
from tests.unit.core_member import T0, TO_LOG, TableMember, ToLog


def late(told: list[actions.Action]) -> list[actions.CommitLate]:
    return [action for action in told if isinstance(action, actions.CommitLate)]


def test_a_commit_that_nobody_acknowledges_is_told_after_ten_seconds_and_again() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a")
    member.kept_back = set(TO_LOG)
    member.finish_all()
    member.after(1_000)
    assert late(member.after(8_900)) == []
    [it] = late(member.after(1_200))
    (commit,) = [action for action in member.unanswered if isinstance(action, TO_LOG)]
    assert (it.log_partition, it.token) == (0, commit.token)
    assert 10_000 <= it.waits_ms < 11_000
    assert late(member.after(9_000)) == []
    assert len(late(member.after(1_000))) == 1
    assert late([*member.let_go(), *member.after(60_000)]) == []


def test_many_commits_in_time_are_not_late_together() -> None:
    member = TableMember()
    member.assign(WHOLE)
    told: list[actions.CommitLate] = []
    for _ in range(30):
        member.produce(b"a")
        member.finish_all()
        told += late(member.after(1_000))
    assert told == []
    assert member.core.state.counters.commits >= 30


def test_what_is_finished_is_committed_within_the_interval_though_no_executor_tells_of_it() -> None:
    member = TableMember(commit_interval_ms=200)
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    member.start()
    for _ in range(10):
        member.after(member.core.next_wake_ms() - member.now_ms)
    began_ms = member.now_ms
    member.core.lanes.finished.append(member.running[b"a", 0][1])  # and others run on
    while not member.store.progress().is_done(key_hash(b"a"), 0):
        member.after(member.core.next_wake_ms() - member.now_ms)
    assert member.now_ms - began_ms <= 200


def test_records_count_as_committed_once_the_log_tells_of_them() -> None:
    member = TableMember()
    member.assign(WHOLE)
    counters = member.core.state.counters
    member.produce(b"a", b"b")
    member.finish_all()
    member.after(1_000)
    assert (counters.finished, counters.committed) == (2, 2)
    member.kept_back = set(TO_LOG)
    member.produce(b"a", b"c", b"d")
    member.finish_all()
    member.after(1_000)
    assert (counters.finished, counters.committed) == (5, 2), "a kill would repeat three"
    [append] = member.unanswered
    assert isinstance(append, TO_LOG)
    member.unanswered.clear()
    member.tell(events.AppendFailed(append.token, BrokerUnreachableError("b:9092", "gone")))
    member.produce(b"e")
    member.finish_all()
    member.let_go()
    member.after(1_000)
    assert (counters.finished, counters.committed) == (6, 6), "told once, though sent twice"


def test_a_record_that_the_log_does_not_take_is_told_with_what_it_means_and_a_command() -> None:
    member = TableMember(kept_back=TO_LOG)
    member.assign(WHOLE)
    first, *_ = member.unanswered
    assert isinstance(first, TO_LOG)
    error = BrokerUnreachableError("b:9092", "no leader")
    [line] = [
        it
        for it in member.tell(events.AppendFailed(first.token, error))
        if isinstance(it, actions.LogLine)
    ]
    assert line.event == LogEvent.PROGRESS_LOG_APPEND_REFUSED
    topic = member.core.state.config.progress_log
    assert line.text.startswith(f"progress topic {topic}: it has not taken a record (")
    assert "ranges may begin later. Nothing is lost. `coop-consumer doctor --group" in line.text


# ---- the log takes less than we thought --------------------------------------------------------

TOO_LARGE = RecordTooLargeError("progress", "Message size too large")


def sizes(append: ToLog) -> list[int]:
    return [len(value or b"") for _, value in append.entries]


def with_many_gaps() -> tuple[TableMember, ToLog]:
    """A member whose next commit is about 1.2 kB large, and that commit."""
    member = TableMember(commit_interval_ms=60_000, commit_max_records=1_000_000)
    member.assign(WHOLE)
    member.produce(*(b"k%d" % i for i in range(1_200)))
    for offset in member.start():
        if offset % 2:
            member.finish(offset)
    member.kept_back = {actions.Commit}
    member.after(60_000)
    [append] = member.unanswered
    assert isinstance(append, TO_LOG)
    assert sum(sizes(append)) > 1_000
    member.unanswered.clear()
    return member, append


def refused(member: TableMember, append: ToLog) -> ToLog:
    """What is sent once the log has refused this for its size."""
    member.tell(events.AppendFailed(append.token, TOO_LARGE))
    member.after(1_000)
    [again] = member.unanswered
    assert isinstance(again, TO_LOG)
    member.unanswered.clear()
    return again


def test_a_commit_that_the_log_refuses_for_its_size_comes_again_in_smaller_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_size, "RECORD_MAX_BYTES", 2_000)
    monkeypatch.setattr(record_size, "RECORD_MIN_BYTES", 400)
    member, append = with_many_gaps()
    assert len(append.entries) == 1
    for most in (1_000, 500, 400, 400):
        append = refused(member, append)
        assert max(sizes(append)) <= most
    assert member.core.state.membership.closing is False, "no member ends because of many gaps"
    reports = [it.text for it in member.told(actions.LogLine) if "Raise its limit" in it.text]
    assert len(reports) == 4, reports
    assert "in parts of at most 1000 bytes" in reports[0]
    assert "not even 400 bytes" in reports[-1]
    assert "--add-config max.message.bytes=1048588" in reports[-1]


def test_appends_that_were_under_way_by_then_do_not_make_parts_smaller_still() -> None:
    member, append = with_many_gaps()
    for _ in range(3):
        member.tell(events.AppendFailed(append.token, TOO_LARGE))
    assert member.core.state.record_size.max_bytes == RECORD_MAX_BYTES // 2


def test_a_log_that_refuses_again_and_again_is_named_every_ten_seconds() -> None:
    member, append = with_many_gaps()
    error = BrokerUnreachableError("b:9092", "not enough replicas")
    for _ in range(20):
        member.tell(events.AppendFailed(append.token, error))
        member.after(1_000)
        append = member.unanswered.pop()  # type: ignore[assignment] # nothing else is kept back
    reports = [it.text for it in member.told(actions.LogLine) if "failed" in it.text]
    assert len(reports) == 2, reports


def test_why_an_announcement_is_not_taken_is_said() -> None:
    """A member stood still, and said only that its log was not read far enough yet."""
    member = TableMember(kept_back=set(TO_LOG))
    member.assign(WHOLE)
    append = member.unanswered.pop()
    assert isinstance(append, TO_LOG)
    member.tell(events.AppendFailed(append.token, BrokerUnreachableError("b:9092", "no leader")))
    [report] = [it.text for it in member.told(actions.LogLine) if "not taken" in it.text]
    assert "no leader" in report


def test_a_first_record_that_the_log_refuses_for_its_size_comes_again_in_smaller_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A simulation's seed: it was sent again as it was, for ever, so its range stood still."""
    before, commit = with_many_gaps()
    before.tell(events.Appended(commit.token, [before.log.append(*it) for it in commit.entries]))
    monkeypatch.setattr(record_size, "RECORD_MAX_BYTES", 2_000)
    monkeypatch.setattr(record_size, "RECORD_MIN_BYTES", 400)
    member = TableMember("m2", log=before.log, committed=before.committed)
    member.kept_back = set(TO_LOG)
    member.assign(WHOLE)
    [announcement] = member.unanswered
    assert isinstance(announcement, TO_LOG)
    member.unanswered.clear()
    for event in member.answers(announcement):
        member.tell(event)
    [append] = member.unanswered
    assert isinstance(append, TO_LOG)
    member.unanswered.clear()
    assert max(sizes(append)) > 1_000, "it inherits the gap ranges"
    for most in (1_000, 500):
        append = refused(member, append)
        assert max(sizes(append)) <= most
    for event in member.answers(append):
        member.tell(event)
    assert member.core.state.assignment() == {T0: (WHOLE,)}
