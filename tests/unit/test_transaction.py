"""A transaction, call by call: what a Producer is asked next, and what is known at the end."""

from __future__ import annotations

import pytest

from coop_consumer.core.transaction import Outcome, Said, Transaction, TransactionCall

IN_ORDER = [
    TransactionCall.BEGIN,
    TransactionCall.EFFECTS,
    TransactionCall.PROGRESS,
    TransactionCall.OFFSETS,
    TransactionCall.COMMIT,
]


def at(call: TransactionCall) -> Transaction:
    """A transaction that is at this call."""
    transaction = Transaction()
    while transaction.next is not call:
        transaction.said(Said.DONE)
    return transaction


def test_all_is_produced_then_the_generation_is_checked_then_it_is_committed() -> None:
    transaction, calls = Transaction(), []
    while transaction.next is not None:
        calls.append(transaction.next)
        transaction.said(Said.DONE)
    assert calls == IN_ORDER
    assert transaction.outcome is Outcome.COMMITTED
    assert not transaction.must_renew


@pytest.mark.parametrize("call", IN_ORDER[1:4])
@pytest.mark.parametrize("said", [Said.REFUSED, Said.AGAIN])
def test_what_is_refused_before_the_commit_is_aborted_for_certain(
    call: TransactionCall, said: Said
) -> None:
    transaction = at(call)
    transaction.said(said)
    assert transaction.next is TransactionCall.ABORT
    transaction.said(Said.DONE)
    assert transaction.outcome is Outcome.ABORTED
    assert not transaction.must_renew


def test_offsets_of_which_nobody_says_whether_they_were_taken_are_never_committed() -> None:
    """librdkafka calls that time-out retriable, and a commit after it goes without its fence."""
    transaction = at(TransactionCall.OFFSETS)
    transaction.said(Said.AGAIN)
    assert transaction.next is TransactionCall.ABORT


def test_a_generation_that_is_over_is_told_apart_from_trouble_with_brokers() -> None:
    transaction = at(TransactionCall.OFFSETS)
    transaction.said(Said.STALE)
    transaction.said(Said.DONE)
    assert transaction.outcome is Outcome.STALE


def test_a_commit_is_asked_for_as_long_as_it_may_be_and_the_next_producer_is_a_new_one() -> None:
    transaction = at(TransactionCall.COMMIT)
    for _ in range(3):
        transaction.said(Said.AGAIN)
        assert transaction.next is TransactionCall.COMMIT
    transaction.said(Said.DONE)
    assert transaction.outcome is Outcome.COMMITTED
    assert transaction.must_renew, "a request to commit may be on its way still"


@pytest.mark.parametrize(("took_ms", "must_renew"), [(1_000, False), (1_001, True)])
def test_a_slow_commit_may_have_been_sent_twice(took_ms: int, must_renew: bool) -> None:
    transaction = at(TransactionCall.COMMIT)
    transaction.said(Said.DONE, took_ms)
    assert transaction.must_renew is must_renew


@pytest.mark.parametrize("said", [Said.BROKEN, Said.REFUSED, Said.STALE])
def test_any_other_answer_to_a_commit_is_a_doubt_that_ends_with_the_next_epoch(said: Said) -> None:
    transaction = at(TransactionCall.COMMIT)
    transaction.said(said)
    for _ in range(3):
        assert transaction.next is TransactionCall.RENEW
        transaction.said(Said.AGAIN)
    transaction.said(Said.DONE)
    assert transaction.outcome is Outcome.IN_DOUBT
    assert not transaction.must_renew


@pytest.mark.parametrize("call", IN_ORDER[1:4])
def test_a_broken_producer_is_replaced_and_nothing_is_committed(call: TransactionCall) -> None:
    transaction = at(call)
    transaction.said(Said.BROKEN)
    assert transaction.next is TransactionCall.RENEW
    transaction.said(Said.DONE)
    assert transaction.outcome is Outcome.ABORTED


def test_an_abort_that_does_not_succeed_is_certain_once_the_next_epoch_is_there() -> None:
    transaction = at(TransactionCall.EFFECTS)
    transaction.said(Said.REFUSED)
    transaction.said(Said.REFUSED)
    assert transaction.next is TransactionCall.RENEW
    transaction.said(Said.DONE)
    assert transaction.outcome is Outcome.ABORTED


def test_a_producer_that_cannot_begin_is_replaced_and_begins() -> None:
    transaction = Transaction(renew=True)
    assert transaction.next is TransactionCall.RENEW
    transaction.said(Said.DONE)
    transaction.said(Said.BROKEN)
    assert transaction.next is TransactionCall.RENEW
    transaction.said(Said.DONE)
    assert transaction.next is TransactionCall.BEGIN


def test_nothing_is_asked_behind_its_end() -> None:
    transaction = at(TransactionCall.COMMIT)
    transaction.said(Said.DONE)
    with pytest.raises(AssertionError, match="I9"):
        transaction.said(Said.DONE)
