"""The flusher: what waits goes on after a flush that began later, and never after a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from coop_consumer.errors import CoopConsumerError, MemberLostError, WorkerFlushError
from coop_consumer.member.flusher import Flusher

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


@pytest.fixture
def flusher(buffer: Buffer) -> Iterator[Flusher]:
    flusher = Flusher(buffer.flush, "billing", "test-flush")
    yield flusher
    buffer.gate.set()
    flusher.close()


@pytest.fixture
def flushed(flusher: Flusher, buffer: Buffer) -> Callable[[], Future[tuple[Error, list[str]]]]:
    """Waits for a flush: its error, and what was durable when the call was made."""

    def ask() -> Future[tuple[Error, list[str]]]:
        told: Future[tuple[Error, list[str]]] = Future()
        flusher.after(lambda error: told.set_result((error, list(buffer.durable))))
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
    flusher = Flusher(buffer.flush, "billing", "test-flush")
    told: list[Error] = []
    flusher.after(told.append)
    flusher.after(told.append)
    flusher.close()
    assert told == [None, None]
    assert buffer.durable == ["a"]


def test_nothing_is_flushed_while_nothing_waits(buffer: Buffer) -> None:
    Flusher(buffer.flush, "billing", "test-flush").close()
    assert buffer.flushes == 0
