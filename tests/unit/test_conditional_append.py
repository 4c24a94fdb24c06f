"""The rules of a conditional append, call by call; the simulation has all their orders."""

from __future__ import annotations

import pytest

from coop_consumer.core.transaction import Said
from coop_consumer.logs.conditional import (
    FENCE_AFTER_MS,
    AppendCall,
    AppendEnd,
    ConditionalAppend,
)
from coop_consumer.logs.port import Landed, StableRead
from coop_consumer.logs.records import VisibleRecord

EMPTY = StableRead([], 0, 0, 0)


def begun(expected: int = -1, count: int = 1) -> ConditionalAppend:
    """An append that has its epoch."""
    rule = ConditionalAppend(lambda: 0.5)
    rule.begin(expected, count, b"own")
    assert rule.next is AppendCall.RENEW
    rule.renewed(Said.AGAIN)
    assert rule.next is AppendCall.RENEW
    rule.renewed(Said.DONE)
    return rule


def at_commit() -> ConditionalAppend:
    rule = begun()
    rule.read(EMPTY)
    rule.produced(Landed(Said.DONE, 0, 0))
    assert rule.next is AppendCall.COMMIT
    return rule


def test_behind_an_own_append_the_next_one_is_made_without_a_read() -> None:
    rule = at_commit()
    rule.committed(Said.DONE, took_ms=3)
    assert (rule.end, rule.appended) == (AppendEnd.APPENDED, 0)
    rule.begin(0, 2, b"next")
    assert (rule.next, rule.position) == (AppendCall.PRODUCE, 2)
    rule.produced(Landed(Said.DONE, 2, 3))
    rule.committed(Said.DONE)
    assert rule.appended == 3
    rule.begin(0, 1, b"old token")
    assert rule.next is AppendCall.READ


def test_a_commit_that_was_asked_for_twice_or_was_slow_is_followed_by_a_new_epoch() -> None:
    twice = at_commit()
    twice.committed(Said.AGAIN)
    assert twice.next is AppendCall.COMMIT
    slow = at_commit()
    for rule, took_ms in ((twice, 1), (slow, 1_001)):
        rule.committed(Said.DONE, took_ms)
        assert rule.end is AppendEnd.APPENDED
        rule.begin(0, 1, b"next")
        assert rule.next is AppendCall.RENEW
        rule.renewed(Said.DONE)
        assert rule.next is AppendCall.READ, "what the late request may have done is not known"


@pytest.mark.parametrize("landed", [(1, 1), (0, 1), (-1, -1)])
def test_records_that_lie_elsewhere_are_aborted(landed: tuple[int, int]) -> None:
    rule = begun()
    rule.read(EMPTY)
    rule.produced(Landed(Said.DONE, *landed))
    assert rule.next is AppendCall.ABORT
    rule.aborted(Said.DONE)
    assert rule.next is AppendCall.PAUSE
    rule.paused()
    assert rule.next is AppendCall.READ


def test_pauses_grow_with_each_loss_up_to_a_bound() -> None:
    rule, pauses = begun(), []
    for _ in range(9):
        rule.read(EMPTY)
        rule.produced(Landed(Said.DONE, 5, 5))
        rule.aborted(Said.DONE)
        pauses.append(rule.pause_ms)
        rule.paused()
    assert pauses == [4, 8, 16, 32, 64, 128, 128, 128, 128]


def test_pauses_are_as_long_as_producing_takes_up_to_the_same_bound() -> None:
    rule, pauses = begun(), []
    for _ in range(9):
        rule.read(EMPTY)
        rule.produced(Landed(Said.DONE, 1, 1), took_ms=30)
        rule.aborted(Said.DONE)
        pauses.append(rule.pause_ms)
        rule.paused()
    assert pauses == [30, 60, 120, 240, 256, 256, 256, 256, 256]


def lost_to(winner: VisibleRecord) -> ConditionalAppend:
    """A rule whose append has lost an attempt, and then met the winner's record."""
    rule = begun()
    rule.read(EMPTY)
    rule.produced(Landed(Said.DONE, 1, 1))
    rule.aborted(Said.DONE)
    rule.paused()
    rule.read(StableRead([winner], 2, 2, 2))
    assert (rule.end, rule.found) == (AppendEnd.CONFLICT, winner.offset)
    return rule


@pytest.mark.parametrize(("rested_ms", "pause_ms"), [(0.0, 4.0), (1.5, 2.5), (60_000.0, 0.0)])
def test_who_has_lost_pauses_before_its_next_append_unless_it_has_rested(
    rested_ms: float, pause_ms: float
) -> None:
    rule = lost_to(VisibleRecord(0, None, b"won"))
    rule.begin(0, 1, b"next", rested_ms=rested_ms)
    assert (rule.next, rule.pause_ms) == (AppendCall.PAUSE, pause_ms)
    rule.paused()
    rule.read(StableRead([], 2, 2, 2))
    rule.produced(Landed(Said.DONE, 2, 2))
    rule.committed(Said.DONE)
    rule.begin(0, 1, b"an old token")
    assert rule.next is AppendCall.READ, "an own win ends it"


def test_who_has_met_a_record_without_losing_an_attempt_does_not_pause() -> None:
    rule = begun()
    rule.read(StableRead([VisibleRecord(0, None, b"")], 2, 2, 2))
    rule.begin(0, 1, b"next")
    assert rule.next is AppendCall.READ


def test_an_undecided_transaction_is_looked_at_less_and_less_often() -> None:
    rule, pauses = begun(), []
    for _ in range(8):
        rule.read(StableRead([], 0, 0, 1))
        assert rule.next is AppendCall.PAUSE
        pauses.append(rule.pause_ms)
        rule.paused()
    assert pauses == [1.5, 3.75, 9.375, 23.4375, 24, 24, 24, 24]


def test_an_undecided_transaction_is_waited_for_and_then_ended() -> None:
    rule, waited_ms = begun(), 0.0
    blocked = StableRead([], 7, 7, 9)
    rule.read(blocked)
    while rule.next is AppendCall.PAUSE:
        waited_ms += rule.pause_ms
        rule.paused()
        rule.read(blocked)
    assert rule.next is AppendCall.FENCE
    assert rule.blocked_at == 7
    assert FENCE_AFTER_MS <= waited_ms < FENCE_AFTER_MS + 10
    rule.fenced(True)
    again_ms = 0.0
    rule.read(StableRead([], 11, 11, 12))  # another one: whoever is slow gets twice as long
    while rule.next is AppendCall.PAUSE:
        again_ms += rule.pause_ms
        rule.paused()
        rule.read(StableRead([], 11, 11, 12))
    assert again_ms >= 2 * FENCE_AFTER_MS


def test_a_doubt_is_ended_by_a_new_epoch_and_a_read_behind_the_records() -> None:
    rule = at_commit()
    rule.committed(Said.BROKEN)
    assert rule.next is AppendCall.RENEW
    rule.renewed(Said.DONE)
    rule.read(StableRead([], 0, 0, 1))  # its marker is on the way
    assert rule.next is AppendCall.PAUSE
    rule.paused()
    rule.read(StableRead([VisibleRecord(0, None, b"")], 2, 2, 2, 0, b"own"))
    assert (rule.end, rule.appended) == (AppendEnd.APPENDED, 0)


def test_a_doubt_whose_records_are_not_there_was_no_commit() -> None:
    rule = at_commit()
    rule.committed(Said.BROKEN)
    rule.renewed(Said.DONE)
    rule.read(StableRead([], 2, 2, 2))
    assert (rule.next, rule.position) == (AppendCall.PRODUCE, 2)


def test_what_was_removed_behind_a_token_may_have_been_visible() -> None:
    rule = begun(expected=3)
    rule.read(StableRead([], 9, 9, 9, first_offset=6))
    assert (rule.end, rule.found) == (AppendEnd.CONFLICT, 5)
    same = begun(expected=5)
    same.read(StableRead([], 9, 9, 9, first_offset=6))
    assert same.next is AppendCall.PRODUCE


def test_a_token_beyond_the_end_is_ahead_and_one_below_it_is_waited_for() -> None:
    rule = begun(expected=9)
    rule.read(StableRead([], 5, 5, 9))
    assert rule.end is AppendEnd.AHEAD
    rule = begun(expected=8)
    rule.read(StableRead([], 5, 5, 9))
    assert rule.next is AppendCall.PAUSE, "its marker is on the way"


def test_a_stop_before_the_commit_is_certain_and_behind_it_a_doubt() -> None:
    before = begun()
    before.stop()
    assert before.end is AppendEnd.STOPPED
    before.begin(-1, 1, b"next")
    assert before.next is AppendCall.READ
    before.read(EMPTY)
    before.produced(Landed(Said.DONE, 0, 0))
    before.stop()
    assert before.end is AppendEnd.STOPPED
    before.begin(-1, 1, b"next")
    assert before.next is AppendCall.RENEW, "what it has open must be over"
    behind = at_commit()
    behind.committed(Said.AGAIN)
    behind.stop()
    assert behind.end is AppendEnd.IN_DOUBT
    behind.stop()
    behind.begin(-1, 1, b"own")
    assert behind.next is AppendCall.RENEW
