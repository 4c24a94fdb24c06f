"""A tenure that lost some of its ranges goes on under a new name: its record stays small."""

from __future__ import annotations

from assignors import KEY_HASH_MAX, WHOLE, AssignmentData, KeyRange, decode_subscription, key_hash
from coop_consumer.core import events
from coop_consumer.errors import BrokerUnreachableError
from tests.unit.core_member import HIGH, LOW, T0, TO_LOG, TableMember, keys_in

LOST = BrokerUnreachableError("table:9092", "no answer")


A, B = keys_in(HIGH, 2)
L = keys_in(LOW, 1)[0]


def halved() -> TableMember:
    """A member of which one half has moved away, all of it released and told."""
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A, L, B, L)
    member.start()
    member.finish(0)
    member.assign(LOW)
    member.finish(2)
    return member


def test_after_a_release_the_rest_is_told_under_a_new_name_alone() -> None:
    member = halved()
    member.after(1_000)
    old, new = member.store.tenures()
    assert old.is_released
    assert old.ranges == (WHOLE,)
    assert new.ranges == (LOW,)
    assert {fact.range for fact in new.record.facts} == {LOW}
    progress = member.store.progress()
    assert [progress.is_done(key_hash(key), n) for n, key in enumerate((A, L, B, L))] == [
        True,
        False,
        True,
        False,
    ]
    member.finish(1)
    member.finish(3)
    member.after(1_000)
    assert member.store.progress().is_done(key_hash(L), 3)
    assert [claim.number for claim in decode_subscription(member.core.subscription()).claims] == [
        new.id.number
    ]


def test_the_last_record_of_an_old_name_tells_nothing_of_attempts_that_the_new_one_has() -> None:
    """It lies behind the first record of the new name, and would bring back what that has passed.

    Seed 1,120 of the simulation: a parked record ran again at its next owner without a decision.
    """
    member = TableMember(max_attempts=2, attempt_backoff_ms=5)
    member.assign(WHOLE)
    member.produce(A, L)
    member.start()
    member.fail(1)
    member.assign(LOW)
    member.finish(0)  # the release is in the log, and the tenure has a new name
    member.after(10)
    member.start()
    member.fail(1)
    # Before the next commit, so both names leave in one append.
    member.tell(events.Assigned(events.GroupMetadata(9), AssignmentData()))
    (attempt,) = member.store.attempts().values()
    assert (attempt.offset, attempt.attempts, attempt.parked) == (1, 2, True)


def test_a_name_that_a_join_has_listed_stays_until_the_assignment() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A, L)
    member.start()
    member.assign(LOW)  # offset 0 still runs
    member.tell(events.Joining())
    member.finish(0)
    member.after(1_000)
    assert len(member.store.tenures()) == 1
    member.assign(LOW)
    member.finish(1)
    member.after(1_000)
    assert len(member.store.tenures()) == 2


def test_a_new_name_whose_record_was_refused_is_told_again_before_the_old_one_ends() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A, L)
    member.start()
    member.finish(0)
    member.assign(LOW)
    member.kept_back = set(TO_LOG)
    member.after(1_000)
    (append,) = member.unanswered
    assert isinstance(append, TO_LOG)
    assert len(append.entries) == 2
    member.unanswered.clear()
    member.tell(events.AppendFailed(append.token, LOST))
    assert not member.store.tenures()[0].is_released
    member.let_go()
    member.after(1_000)
    old, new = member.store.tenures()
    assert old.is_released
    assert not new.is_released
    assert old.first_offset < new.first_offset


def test_the_record_does_not_grow_with_the_number_of_rebalances() -> None:
    member = TableMember()
    member.assign(WHOLE)
    for halvings in range(1, 9):
        kept = KeyRange(0, KEY_HASH_MAX >> halvings)
        gone = KeyRange(kept.hi + 1, KEY_HASH_MAX >> halvings - 1)
        first = len(member.messages)
        member.produce(*keys_in(gone, 3))
        member.start()
        member.finish(first)
        member.finish(first + 2)
        member.assign(kept)
        member.finish(first + 1)
        member.after(1_000)
    [tenure] = member.core.state.partitions[T0].tenures
    assert {fact.range for fact in tenure.record().facts} == {kept}
