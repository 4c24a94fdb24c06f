"""The committer of at-least-once: flush, then effects, then the log; nothing after a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any
from unittest.mock import Mock

import pytest

from coop_consumer.config import Config
from coop_consumer.core import actions, events
from coop_consumer.core.events import Refusal
from coop_consumer.errors import (
    CoopConsumerError,
    MemberLostError,
    ProgressLogLostError,
    ProgressTopicError,
    RecordTooLargeError,
    WorkerFlushError,
)
from coop_consumer.kafka import committer as room
from coop_consumer.kafka.committer import AtLeastOnce

WAIT_S = 10.0

Error = CoopConsumerError | None


class Buffer:
    """The user's: what is put in is durable after a flush, which waits at a gate if asked to."""

    def __init__(self) -> None:
        self.buffered: list[str] = []
        self.durable: list[str] = []
        self.flushes = 0
        self.began = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.fails: list[BaseException] = []

    def flush(self) -> None:
        self.flushes += 1
        taken, self.buffered = self.buffered, []
        self.began.set()
        assert self.gate.wait(WAIT_S), "nobody opened the gate"
        if self.fails:
            raise self.fails.pop()
        self.durable += taken


@pytest.fixture
def buffer() -> Buffer:
    return Buffer()


class Log:
    """In the place of `LogWriter`: notes what is appended, and answers as the test says."""

    answer: Callable[[int], events.Appended | events.AppendFailed]

    def __init__(self, _: object, __: str, deliver: Callable[[Any], None], **___: object) -> None:
        self.answer = lambda token: events.Appended(token, [token])
        self.deliver = deliver
        self.appended: list[int] = []

    def append(self, _: int, __: object, token: int) -> None:
        self.appended.append(token)
        self.deliver(self.answer(token))

    def close(self, _: float, *, lost: bool) -> None:
        del lost


class Effects:
    """Where effects go."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self.at_work, self.gate = threading.Event(), threading.Event()
        self.gate.set()
        self.fails: list[CoopConsumerError] = []

    def what(self) -> str:
        return "outputs to totals"

    def write(self, results: Any) -> None:
        self.at_work.set()
        self.gate.wait(WAIT_S)
        if self.fails:
            raise self.fails.pop()
        self._buffer.durable += results


HEARD_S = 5.0
CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})


class Desk:
    """A committer between a log, effects and an inbox."""

    def __init__(self, buffer: Buffer, effects: Effects | None = None) -> None:
        self._heard: SimpleQueue[events.Event] = SimpleQueue()
        self.committer = AtLeastOnce(
            CONFIG,
            {},
            self._heard.put,
            Mock(),
            flush=buffer.flush,
            effects=[effects] if effects else [],
        )
        log: Any = self.committer._writer
        self.log: Log = log

    def heard(self) -> events.Event:
        return self._heard.get(timeout=HEARD_S)


@pytest.fixture(autouse=True)
def _log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LogWriter", Log)


@pytest.fixture
def effects(buffer: Buffer) -> Effects:
    return Effects(buffer)


@pytest.fixture
def desk(buffer: Buffer, effects: Effects) -> Iterator[Desk]:
    desk = Desk(buffer, effects)
    yield desk
    buffer.gate.set()
    desk.committer.close(WAIT_S)


@pytest.fixture
def flushed(desk: Desk, buffer: Buffer) -> Callable[[], Future[tuple[Error, list[str]]]]:
    """Waits for a flush: its error, and what was durable when the call was made."""

    def ask() -> Future[tuple[Error, list[str]]]:
        told: Future[tuple[Error, list[str]]] = Future()
        desk.committer.when_durable(
            [], lambda error: told.set_result((error, list(buffer.durable)))
        )
        return told

    return ask


Ask = Callable[[], Future[tuple[Error, list[str]]]]


def test_what_was_buffered_before_is_durable_when_the_call_is_made(
    buffer: Buffer, flushed: Ask
) -> None:
    buffer.buffered.append("a")
    assert flushed().result(WAIT_S) == (None, ["a"])


def test_what_comes_while_a_flush_runs_waits_for_one_that_begins_later_and_shares_it(
    buffer: Buffer, flushed: Ask
) -> None:
    buffer.gate.clear()
    first = flushed()
    assert buffer.began.wait(WAIT_S)
    buffer.buffered.append("late")
    second, third = flushed(), flushed()
    assert not first.done()
    buffer.gate.set()
    assert first.result(WAIT_S) == (None, [])
    assert second.result(WAIT_S) == third.result(WAIT_S) == (None, ["late"])
    assert buffer.flushes == 2


class MuteError(Exception):
    """Its text cannot be made."""

    def __repr__(self) -> str:
        raise RecursionError

    __str__ = __repr__


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (OSError("disk full"), "OSError: disk full"),
        (SystemExit(1), "SystemExit: 1"),
        (MuteError(), "MuteError: (its text cannot be made: RecursionError)"),
    ],
)
def test_after_a_failure_there_is_no_other_flush_and_nothing_counts_as_flushed(
    buffer: Buffer, flushed: Ask, cause: BaseException, told: str
) -> None:
    buffer.fails.append(cause)
    (first, _), (second, _) = flushed().result(WAIT_S), flushed().result(WAIT_S)
    assert first is second
    assert isinstance(first, WorkerFlushError)
    assert (first.group, first.detail) == ("billing", told)
    assert buffer.flushes == 1


def test_who_is_a_member_no_more_is_told_so(buffer: Buffer, flushed: Ask) -> None:
    lost = MemberLostError("billing", "m1", "others may be at a key")
    buffer.fails.append(lost)
    assert flushed().result(WAIT_S)[0] is lost


def test_closing_waits_for_what_waits_already(buffer: Buffer) -> None:
    buffer.buffered.append("a")
    committer, told = Desk(buffer).committer, list[Error]()
    committer.when_durable([], told.append)
    committer.when_durable([], told.append)
    committer.close(WAIT_S)
    assert told == [None, None]
    assert buffer.durable == ["a"]


def test_nothing_is_flushed_while_nothing_waits(buffer: Buffer) -> None:
    Desk(buffer).committer.close(WAIT_S)
    assert buffer.flushes == 0


def test_a_commit_tells_the_log_behind_the_flush_and_its_effects(
    desk: Desk, buffer: Buffer
) -> None:
    buffer.buffered.append("output")
    durable: list[str] = []

    def answer(token: int) -> events.Appended:
        durable.extend(buffer.durable)
        return events.Appended(token, [token])

    desk.log.answer = answer
    desk.committer.commit(actions.Commit({0: []}, 7, ["state"], events.NO_MEMBER))
    assert desk.heard() == events.CommitDone(7, [7])
    assert durable == ["output", "state"]


def test_whoever_asks_is_told_what_a_commit_waits_for(
    desk: Desk, buffer: Buffer, effects: Effects
) -> None:
    buffer.gate.clear()
    effects.gate.clear()
    asked: list[str] = []

    def answer(token: int) -> events.Appended:
        asked.append(desk.committer.waits_for(token))
        return events.Appended(token, [token])

    desk.log.answer = answer
    desk.committer.commit(actions.Commit({0: []}, 7, [], events.NO_MEMBER))
    assert buffer.began.wait(WAIT_S)
    assert desk.committer.waits_for(7) == "the worker's flush(). Look what that waits for"
    buffer.gate.set()
    assert effects.at_work.wait(WAIT_S)
    assert desk.committer.waits_for(7).startswith("outputs to totals. Look whether the brokers")
    effects.gate.set()
    desk.heard()
    assert asked[0].startswith("the progress log __individual_commit_offsets. Look whether")


def test_an_append_waits_for_nothing(desk: Desk, buffer: Buffer) -> None:
    buffer.gate.clear()
    desk.committer.commit(actions.Commit({0: []}, 7, [], events.NO_MEMBER))
    desk.committer.append(actions.Append(0, [], 8))
    assert desk.heard() == events.Appended(8, [8])
    assert desk.log.appended == [8]
    buffer.gate.set()
    assert desk.heard() == events.CommitDone(7, [7])


LOST_LOG = ProgressLogLostError("log", "was deleted")
REFUSED = ProgressTopicError("log", "refuses a record", "Mend it")


@pytest.mark.parametrize(
    ("error", "is_final", "why"),
    [
        (REFUSED, False, Refusal.RETRY),
        (LOST_LOG, False, Refusal.RETRY),
        (LOST_LOG, True, Refusal.LOST),
        (REFUSED, True, Refusal.FINAL),
    ],
)
def test_a_commit_that_the_log_refuses_says_why(
    desk: Desk, error: CoopConsumerError, is_final: bool, why: Refusal
) -> None:
    desk.log.answer = lambda token: events.AppendFailed(token, error, is_final)
    desk.committer.commit(actions.Commit({0: []}, 7, [], events.NO_MEMBER))
    assert desk.heard() == events.CommitRefused(7, error, why)


def test_nothing_is_committed_whose_effects_belong_to_others(desk: Desk, effects: Effects) -> None:
    lost = MemberLostError("billing", "m1", "others may be at a key")
    effects.fails.append(lost)
    desk.committer.commit(actions.Commit({0: []}, 7, ["state"], events.NO_MEMBER))
    desk.committer.commit(actions.Commit({0: []}, 8, [], events.NO_MEMBER))
    assert desk.heard() == events.CommitRefused(7, lost, Refusal.FENCED)
    assert desk.heard() == events.CommitRefused(8, lost, Refusal.FENCED)
    assert desk.log.appended == []


def test_what_a_topic_refuses_is_told_as_it_is(desk: Desk, effects: Effects) -> None:
    refused = RecordTooLargeError("totals", "refused")
    effects.fails.append(refused)
    desk.committer.commit(actions.Commit({0: []}, 7, [], events.NO_MEMBER))
    assert desk.heard() == events.CommitRefused(7, refused, Refusal.FINAL)


def test_after_a_flush_that_failed_nothing_is_committed_ever(desk: Desk, buffer: Buffer) -> None:
    buffer.fails.append(OSError("disk full"))
    desk.committer.commit(actions.Commit({0: []}, 7, [], events.NO_MEMBER))
    event = desk.heard()
    assert isinstance(event, events.CommitRefused)
    assert (event.token, event.why) == (7, Refusal.FINAL)
    assert isinstance(event.error, WorkerFlushError)
    assert desk.log.appended == []
