"""Decisions about parked records: applied once, when the record is there, and then cleared."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from assignors import WHOLE, key_hash
from coop_consumer.core import actions, events
from coop_consumer.errors import BrokerUnreachableError
from offsets import Committed, DecisionKey, DecisionRecord, MemoryLog, encode_key, encode_value
from tests.unit.core_member import GROUP, HIGH, LOW, T0, TO_LOG, TOPIC_ID, TableMember

IN_HIGH = next(key for key in map(str.encode, "abcdefgh") if key_hash(key) in HIGH)
KEY = encode_key(DecisionKey(GROUP, TOPIC_ID, 0, 1))


def decide(log: MemoryLog, action: Literal["retry", "skip"], at_ms: int = 7) -> None:
    log.append(KEY, encode_value(DecisionRecord(action, at_ms)))


def parked() -> TableMember:
    """A member of which offset 1 of four records, the first of its key `b`, is parked."""
    member = TableMember(max_attempts=1)
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c", b"b")
    member.start()
    member.finish(0)
    member.fail(1, why="broken")
    member.finish(2)
    member.after(1_000)
    return member


def successor(first: TableMember) -> TableMember:
    """Who takes over all that a dead member left."""
    second = TableMember("m2", log=first.log, committed=first.committed, max_attempts=1)
    second.messages = first.messages
    second.assign(WHOLE)
    return second


def test_a_decision_is_applied_and_cleared_when_it_comes() -> None:
    member = parked()
    decide(member.log, "skip")
    member.hear_log()
    assert member.finish_all() == [3]
    assert member.core.state.counters.skipped == 1
    member.hear_log()
    assert dict(member.store.decisions) == {}


def test_a_decision_taken_before_the_record_is_fetched_waits_for_it() -> None:
    first = parked()
    decide(first.log, "retry")
    second = successor(first)
    assert 1 in second.store.decisions
    second.fetch()
    assert second.finish_all() == [1, 3]
    second.hear_log()
    assert dict(second.store.decisions) == {}


def test_a_record_that_fails_again_waits_for_another_decision() -> None:
    member = parked()
    decide(member.log, "retry")
    member.hear_log()
    assert member.start() == [1]
    member.fail(1, why="still broken")
    member.produce(b"d")  # comes before the tombstone is read
    assert member.start() == [4]
    decide(member.log, "retry", at_ms=8)
    member.hear_log()
    assert member.start() == [1]


def test_a_decision_of_an_earlier_history_does_not_hold_after_a_rewind() -> None:
    first = parked()
    first.tell(events.Close())
    decide(first.log, "skip")  # nobody is there to obey it, and then somebody rewinds the group
    second = TableMember("m2", log=first.log, committed=Committed(0, ""), max_attempts=1)
    second.messages = first.messages
    second.assign(WHOLE)
    second.after(250)
    second.fetch()
    second.start()
    second.fail(1, why="broken")
    second.hear_log()
    assert second.core.state.counters.skipped == 0
    assert second.core.state.partitions[T0].tenures[0].attempts[1].parked


def test_many_decisions_are_applied_together_and_cleared_in_one_append() -> None:
    member = TableMember(max_attempts=1, circuit_share=0)
    member.assign(WHOLE)
    member.produce(*[b"key-%d" % number for number in range(100)])
    member.fail(*member.start())
    member.after(1_000)
    for offset in range(100):
        key = DecisionKey(GROUP, TOPIC_ID, 0, offset)
        action: Literal["retry", "skip"] = "skip" if offset % 2 else "retry"
        member.log.append(encode_key(key), encode_value(DecisionRecord(action, 0)))
    told = member.hear_log()
    cleared = [a for a in told if isinstance(a, TO_LOG) and a.entries[0][1] is None]
    assert [len(append.entries) for append in cleared] == [100]
    assert member.start() == list(range(0, 100, 2))
    assert member.core.state.counters.skipped == 50
    member.after(1_000)
    member.hear_log()
    assert not member.store.decisions


@pytest.mark.parametrize("action", ["retry", "skip"])
def test_a_decision_is_applied_once_where_two_tenures_know_of_the_record(
    action: Literal["retry", "skip"],
) -> None:
    """Its range comes back, and a join kept the old tenure from going on under another number."""
    member = parked()
    others, own = (HIGH, LOW) if key_hash(b"b") in LOW else (LOW, HIGH)
    member.kept_back = {actions.Commit}
    member.assign(others)
    member.tell(events.Joining())
    member.let_go()
    member.assign(WHOLE)
    member.fetch()
    knowing = [it for it in member.core.state.partitions[T0].tenures if 1 in it.attempts]
    assert [own in it.ranges for it in knowing] == [False, True]
    decide(member.log, action)
    member.hear_log()
    assert member.finish_all() == ([1, 3] if action == "retry" else [3])


def test_what_others_have_parked_stays_so_where_the_range_comes_back_before_the_log_knows() -> None:
    """Without a group, two processes may have a range: what one knows hid what both did."""
    settings: dict[str, Any] = {
        "max_attempts": 2,
        "on_failure": "park",
        "circuit_share": 0,
        "attempt_backoff_ms": 60_000,
        "attempt_backoff_max_ms": 60_000,
    }
    member = TableMember(**settings)
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    member.fail(0)
    member.after(1_000)
    member.kept_back = {actions.Commit}
    member.assign()
    other = TableMember("m2", log=member.log, committed=member.committed, **settings)
    other.messages = member.messages
    other.assign(WHOLE)
    other.fetch()
    other.start()
    other.fail(0)
    other.after(1_000)
    assert other.store.attempts()[0].parked
    member.hear_log()
    member.assign(WHOLE)
    member.let_go()
    member.after(1_000)
    member.fetch()
    assert member.start() == []


def test_who_comes_late_without_a_group_hides_no_failures() -> None:
    """Its first record is sent again once others have had the range: it inherits nothing of that.

    What begins after a failure was told has read it, and tells of it itself if it counts still.
    """
    late = TableMember()
    late.assign(LOW)
    late.kept_back = set(TO_LOG)
    late.assign(LOW, HIGH)
    (first,) = late.unanswered
    assert isinstance(first, TO_LOG)
    late.unanswered.clear()
    late.tell(events.AppendFailed(first.token, BrokerUnreachableError("table:9092", "no answer")))
    other = successor(late)
    other.produce(IN_HIGH)
    other.start()
    other.fail(0)
    other.after(1_000)
    other.assign()
    assert other.store.attempts()[0].parked
    late.assign()
    late.after(1_000)
    late.let_go()
    last = successor(other)
    last.fetch()
    assert last.start() == []


def test_what_was_decided_holds_where_the_range_comes_back_before_the_log_knows() -> None:
    """The log says that the record is parked, and its decision was applied, once for all."""
    member = TableMember(max_attempts=1, on_failure="park", circuit_share=0)
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    member.fail(0)
    member.after(1_000)
    assert member.store.attempts()[0].parked
    member.kept_back = {actions.Commit}
    key, value = DecisionKey(GROUP, TOPIC_ID, 0, 0), DecisionRecord("retry", 0)
    member.log.append(encode_key(key), encode_value(value))
    member.hear_log()
    member.assign()
    member.assign(WHOLE)
    member.let_go()
    member.after(1_000)
    member.fetch()
    assert member.start() == [0]
