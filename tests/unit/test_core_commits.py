"""Commits that the log does not take in time are told of, and no others."""

from __future__ import annotations

from assignors import WHOLE, key_hash
from coop_consumer.core import actions, events
from coop_consumer.errors import BrokerUnreachableError
from tests.unit.core_member import TableMember


def late(told: list[actions.Action]) -> list[str]:
    texts = [action.text for action in told if isinstance(action, actions.Report)]
    return [text for text in texts if "not been acknowledged" in text]


def test_a_commit_that_nobody_acknowledges_is_told_after_ten_seconds_and_again() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a")
    member.kept_back = {actions.Append}
    member.finish_all()
    member.after(1_000)
    assert late(member.after(8_900)) == []
    [line] = late(member.after(1_200))
    assert line.startswith("progress log, partition 0: a commit has not been acknowledged for 1")
    assert "min.insync.replicas of __individual_commit_offsets" in line
    assert late(member.after(9_000)) == []
    assert len(late(member.after(1_000))) == 1
    assert late([*member.let_go(), *member.after(60_000)]) == []


def test_many_commits_in_time_are_not_late_together() -> None:
    member = TableMember()
    member.assign(WHOLE)
    told = []
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
    member.kept_back = {actions.Append}
    member.produce(b"a", b"c", b"d")
    member.finish_all()
    member.after(1_000)
    assert (counters.finished, counters.committed) == (5, 2), "a kill would repeat three"
    [append] = member.unanswered
    assert isinstance(append, actions.Append)
    member.unanswered.clear()
    member.tell(events.AppendFailed(append.token, BrokerUnreachableError("b:9092", "gone")))
    member.produce(b"e")
    member.finish_all()
    member.let_go()
    member.after(1_000)
    assert (counters.finished, counters.committed) == (6, 6), "told once, though sent twice"
