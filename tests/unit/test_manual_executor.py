"""The manual executor: who has which record, and when the next one of its key comes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from assignors import WHOLE
from coop_consumer.core import events
from coop_consumer.core.lanes import READY_ONE_BY_ONE, READY_TOGETHER
from coop_consumer.core.record import Record
from coop_consumer.executors import ManualExecutor
from tests.support.journal import WAIT_S
from tests.unit.core_member import TableMember


class Hands:
    """A member on a table whose records are taken by hand."""

    def __init__(self) -> None:
        self.member = TableMember(attempt_backoff_ms=100, attempt_backoff_max_ms=100)
        self.wakes = 0
        self.ending = self.pausing = False
        self.executor = ManualExecutor(
            self.member.core.lanes,
            threading.Condition(),
            wake=self._wake,
            is_ending=lambda: self.ending,
            is_pausing=lambda: self.pausing,
        )
        self.member.assign(WHOLE)

    def _wake(self) -> None:
        self.wakes += 1

    def take(self, count: int) -> list[Record]:
        records = [self.executor.take(0) for _ in range(count)]
        assert None not in records, "fewer records wait than asked for"
        return [record for record in records if record is not None]

    def offsets(self) -> list[int]:
        """Everything that can be had now, left in hand."""
        return [record.offset for record in iter(lambda: self.executor.take(0), None)]


@pytest.fixture
def hands() -> Iterator[Hands]:
    it = Hands()
    yield it
    it.member.tell(events.Tick())  # which ends with a check of the core


def test_records_of_one_key_come_one_after_the_other(hands: Hands) -> None:
    hands.member.produce(b"a", b"a", b"b", b"a")
    first, other = hands.take(2)
    assert (first.offset, other.offset) == (0, 2)
    assert hands.offsets() == []
    assert hands.executor.finish(first)
    assert hands.offsets() == [1]


def test_keys_take_turns(hands: Hands) -> None:
    hands.member.produce(b"a", b"a", b"b")
    [first] = hands.take(1)
    hands.executor.finish(first)
    assert hands.offsets() == [2, 1], "b waited longer"


def test_what_is_finished_reaches_the_member_with_one_wake(hands: Hands) -> None:
    hands.member.produce(b"a", b"b", b"c")
    for record in hands.take(3):
        hands.executor.finish(record)
    assert hands.wakes == 1, "the later ones are collected with the first"
    hands.member.tell(events.Tick())
    assert hands.member.core.state.counters.finished == 3


def test_a_record_is_finished_once(hands: Hands) -> None:
    hands.member.produce(b"a")
    [record] = hands.take(1)
    assert hands.executor.finish(record)
    assert not hands.executor.finish(record)
    assert not hands.executor.fail(record, ValueError("too late"))


def test_a_failed_record_comes_again_after_its_back_off(hands: Hands) -> None:
    hands.member.produce(b"a", b"a", b"b")
    first, other = hands.take(2)
    assert hands.executor.fail(first, ValueError("no price"))
    hands.member.tell(events.Tick())
    hands.executor.finish(other)
    assert hands.offsets() == [], "its key waits"
    hands.member.after(100)
    [again] = hands.take(1)
    assert (again.offset, again.attempt) == (0, 2)


def test_a_record_whose_range_has_moved_can_still_be_finished(hands: Hands) -> None:
    hands.member.produce(b"a", b"a")
    [record] = hands.take(1)
    hands.member.assign()
    assert hands.offsets() == [], "the rest of its key is the next owner's"
    assert hands.executor.finish(record)
    hands.member.tell(events.Tick())
    progress = hands.member.store.progress()
    assert [progress.is_done(record.key_hash, offset) for offset in (0, 1)] == [True, False]


def test_what_is_given_back_is_not_done(hands: Hands) -> None:
    hands.member.produce(b"a", b"b")
    finished, left = hands.take(2)
    hands.executor.finish(finished)
    hands.executor.stop()
    hands.member.tell(events.Close())
    assert hands.executor.give_back() == 1
    for _ in range(3):  # released, committed, mirrored
        hands.member.after(200)
    progress = hands.member.store.progress()
    assert progress.is_done(finished.key_hash, finished.offset)
    assert not progress.is_done(left.key_hash, left.offset)
    assert hands.member.core.state.membership.left
    assert not hands.executor.finish(left)


def test_nothing_is_handed_out_while_paused_or_stopped(hands: Hands) -> None:
    hands.member.produce(b"a")
    hands.executor.pause(True)
    assert hands.executor.take(0) is None
    hands.executor.pause(False)
    assert hands.offsets() == [0]
    hands.member.produce(b"b")
    hands.executor.stop()
    assert hands.executor.take(None) is None


def test_calls_are_made_in_their_order_by_whoever_takes(hands: Hands) -> None:
    made: list[str] = []
    hands.member.produce(b"a")
    hands.executor.call(lambda: made.append("first"))
    hands.executor.call(lambda: made.append("second"))
    [record] = hands.take(1)
    assert made == ["first", "second"], "before any record"
    assert record.offset == 0


def test_a_call_that_takes_gets_records_but_not_the_next_call(hands: Hands) -> None:
    made: list[object] = []
    hands.member.produce(b"a")
    hands.executor.call(lambda: made.append(hands.executor.take(0)))
    hands.executor.call(lambda: made.append("second"))
    assert hands.executor.take(0) is None
    assert [type(it) for it in made] == [Record, str]


def test_so_many_are_kept_ready_as_are_taken_at_once_also_in_the_next_run(hands: Hands) -> None:
    second = Hands()
    assert hands.member.core.lanes.ready_min == READY_ONE_BY_ONE
    hands.executor.expect(2)
    assert hands.member.core.lanes.ready_min == READY_TOGETHER
    hands.executor.expect(900)
    hands.executor.serve(second.member.core.lanes, second._wake)
    assert second.member.core.lanes.ready_min == 900


def test_whoever_waits_gets_the_record_the_call_and_the_end(hands: Hands) -> None:
    taken: list[Record | None] = []
    called = threading.Event()
    arrived = threading.Semaphore(0)

    def wait_for_records() -> None:
        for _ in range(2):
            taken.append(hands.executor.take(None))
            arrived.release()

    thread = threading.Thread(target=wait_for_records)
    thread.start()
    hands.executor.call(called.set)
    assert called.wait(WAIT_S)
    hands.member.produce(b"a")
    hands.executor.offered()
    assert arrived.acquire(timeout=WAIT_S)
    hands.ending = True
    hands.executor.offered()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert [record and record.offset for record in taken] == [0, None]


def test_who_closes_waits_for_the_hands_of_others(hands: Hands) -> None:
    hands.member.produce(b"a")
    [record] = hands.take(1)
    assert not hands.executor.await_empty_hands(0)
    thread = threading.Thread(target=hands.executor.finish, args=(record,))
    thread.start()
    assert hands.executor.await_empty_hands(WAIT_S)
    thread.join(WAIT_S)


def test_who_has_something_in_hand_does_not_wait_for_a_run_that_waits_for_it(hands: Hands) -> None:
    hands.member.produce(b"a", b"a")
    (first,) = hands.take(1)
    hands.pausing = True
    assert hands.executor.take(None) is None
    others: list[Record | None] = []
    other = threading.Thread(target=lambda: others.append(hands.executor.take(None)))
    other.start()
    assert hands.executor.finish(first)
    hands.pausing = False
    other.join(WAIT_S)
    assert [record.offset for record in others if record] == [1], "it had nothing, and could wait"


def test_the_next_run_of_a_member_is_served_by_the_same_hands(hands: Hands) -> None:
    second = Hands()
    second.member.produce(b"x")
    hands.executor.serve(second.member.core.lanes, second._wake)
    (record,) = hands.take(1)
    assert hands.executor.finish(record)
    assert (hands.wakes, second.wakes) == (0, 1)


def test_while_most_fails_alike_one_record_is_handed_out_until_one_is_done(hands: Hands) -> None:
    hands.member.produce(*[b"key-%d" % number for number in range(12)])
    for record in hands.take(10):
        assert hands.executor.fail(record, ConnectionError("no route"))
    hands.member.tell(events.Tick())
    assert hands.offsets() == []
    for _ in range(2):
        hands.member.after(1_000)
        [probe] = hands.take(1)
        assert hands.offsets() == []
        hands.executor.fail(probe, ConnectionError("no route"))
        hands.member.tell(events.Tick())
    hands.member.after(1_000)
    [probe] = hands.take(1)
    hands.executor.finish(probe)
    hands.member.tell(events.Tick())
    assert len(hands.offsets()) == 11


def test_an_error_that_a_user_hands_in_keeps_its_traceback(hands: Hands) -> None:
    """The user may still log it, or raise it again."""
    hands.member.produce(b"a")
    [record] = hands.take(1)
    error = ValueError("refused")
    with pytest.raises(ValueError, match="refused"):
        raise error
    hands.executor.fail(record, error)
    assert error.__traceback__ is not None
