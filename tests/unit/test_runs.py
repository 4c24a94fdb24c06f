"""The runs of a member: which end is the end, and when the next one begins."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    ContractMismatchError,
    CoopConsumerError,
    FencedError,
    LogWriterBrokenError,
    MemberLostError,
    ProgressLogLostError,
)
from coop_consumer.member.runs import NEWCOMER_PATIENCE_S, Runs
from tests.support.journal import WAIT_S

LOST = ProgressLogLostError("progress", "was deleted")
FENCED = FencedError("m1")
OLD, NEW = "hash=mmh3,progress=01/50", "hash=mmh3,progress=02/50"
MISMATCH = ContractMismatchError("m1", OLD, NEW)


class ARun:
    """A run that ends when it is told to."""

    name = "m1"

    def __init__(self, *, accepted: bool = True) -> None:
        self.accepted = accepted
        self.ended: Future[CoopConsumerError | None] = Future()

    def close(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class Story:
    """Runs of one member; `refusals` keep the next ones from beginning."""

    def __init__(self, *refusals: CoopConsumerError, accepted: bool = True) -> None:
        self.refusals = list(refusals)
        self.now_s = 0.0
        self.begun = threading.Semaphore(0)
        self.newest = ARun(accepted=accepted)
        self.runs = Runs("g", self.newest, self._again, pause_s=0.001, now_s=lambda: self.now_s)

    def _again(self, before: ARun) -> ARun:
        assert before.ended.done()
        if self.refusals:
            raise self.refusals.pop(0)
        self.newest = ARun(accepted=False)
        self.begun.release()
        return self.newest

    def end(self, error: CoopConsumerError | None) -> None:
        """The newest run ends."""
        self.newest.ended.set_result(error)

    def goes_on(self) -> bool:
        return self.begun.acquire(timeout=WAIT_S)

    def outcome(self) -> CoopConsumerError | None:
        return self.runs.ended.result(WAIT_S)


@pytest.mark.parametrize("error", [None, FENCED])
def test_an_end_that_is_none_of_the_progress_topics_is_the_end(
    error: CoopConsumerError | None,
) -> None:
    story = Story()
    story.end(error)
    assert story.outcome() is error


@pytest.mark.parametrize(
    "error",
    [
        LOST,
        LogWriterBrokenError("progress", "can no longer be written to"),
        MemberLostError("g", "m1", "others may be at a key"),
    ],
)
def test_after_a_loss_another_run_begins(error: CoopConsumerError) -> None:
    story = Story()
    first = story.runs.member
    story.end(error)
    assert story.goes_on()
    story.runs.close()
    assert story.outcome() is None
    assert story.runs.member is not first


def test_what_may_pass_is_tried_again_and_what_does_not_ends_it() -> None:
    denied = AuthorizationError("topic progress", "create")
    story = Story(BrokerUnreachableError("b:9092", "timed out"), LOST, denied)
    story.end(LOST)
    assert story.outcome() is denied
    assert story.refusals == []


def test_a_defect_in_the_beginning_is_told() -> None:
    def fail(_: ARun) -> ARun:
        raise ZeroDivisionError

    run = ARun()
    runs = Runs("g", run, fail, pause_s=0.001)
    run.ended.set_result(LOST)
    with pytest.raises(ZeroDivisionError):
        runs.ended.result(WAIT_S)


def test_a_close_between_two_runs_lets_none_follow() -> None:
    run = ARun()
    runs = Runs("g", run, lambda _: pytest.fail("it was closed"), pause_s=WAIT_S)
    run.ended.set_result(LOST)
    runs.close()
    assert runs.ended.result(WAIT_S) is None


def test_who_is_closed_while_the_log_is_lost_hears_of_it() -> None:
    story = Story()
    first = story.runs.member
    first.close = lambda: None  # type: ignore[method-assign] # its handlers still run
    story.runs.close()
    story.end(LOST)
    assert story.outcome() is LOST


def test_a_close_reaches_a_run_that_is_just_beginning() -> None:
    run, late = ARun(), ARun()
    begins, may_begin = threading.Event(), threading.Event()

    def again(_: ARun) -> ARun:
        begins.set()
        may_begin.wait(WAIT_S)
        return late

    runs = Runs("g", run, again, pause_s=0.001)
    run.ended.set_result(LOST)
    assert begins.wait(WAIT_S)
    runs.close()
    may_begin.set()
    assert runs.ended.result(WAIT_S) is None
    assert late.ended.done()


def test_who_was_a_member_tries_again_when_refused_for_another_progress_topic() -> None:
    story = Story()
    story.end(MISMATCH)
    assert story.goes_on()


def test_who_was_a_member_in_an_earlier_run_does_so_too() -> None:
    story = Story()
    story.end(LOST)
    assert story.goes_on()
    assert not story.newest.accepted
    story.end(MISMATCH)
    assert story.goes_on()


@pytest.mark.parametrize("accepted", [True, False])
def test_another_meaning_of_a_hash_is_told_at_once(accepted: bool) -> None:
    story, error = Story(accepted=accepted), ContractMismatchError("m1", "hash=crc32", NEW)
    story.end(error)
    assert story.outcome() is error


def test_a_newcomer_that_is_refused_for_its_progress_topic_comes_back_for_a_while() -> None:
    story = Story(accepted=False)
    story.end(MISMATCH)
    assert story.goes_on()
    story.now_s = NEWCOMER_PATIENCE_S
    story.end(MISMATCH)
    assert story.outcome() is MISMATCH
