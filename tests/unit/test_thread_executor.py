"""The thread executor: what a handler may do wrong, and what becomes of the record and its key."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future

import pytest

from assignors import WHOLE
from coop_consumer.core import events
from coop_consumer.core.record import Record
from coop_consumer.executors import ThreadExecutor, Workplace
from tests.unit.core_member import TableMember


def attempts_after(handler: Callable[[Record], object]) -> tuple[list[int], dict[int, str]]:
    """Offsets done, and the errors of the others, of a record of `a` and one of `b`."""
    member = TableMember(on_failure="park", max_attempts=1)
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    place = Workplace(member.core.lanes, threading.Condition(), 1, lambda: None, 1, "test")
    executor = ThreadExecutor(place, lambda record: handler(record) if record.key == b"a" else None)
    executor.start()
    executor.stop()  # which lets what is ready be processed, and joins the thread
    done = [record.offset for record in member.core.lanes.finished]
    member.tell(events.Tick())
    [tenure] = member.core.state.partitions[next(iter(member.core.state.partitions))].tenures
    return done, {offset: attempt.error for offset, attempt in tenure.attempts.items()}


def exits(_: Record) -> None:
    sys.exit(3)


def interrupts(_: Record) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("handler", "error"), [(exits, "SystemExit: 3"), (interrupts, "KeyboardInterrupt")]
)
def test_a_handler_that_would_end_its_thread_fails_its_record_alone(
    handler: Callable[[Record], object], error: str
) -> None:
    assert attempts_after(handler) == ([1], {0: error})


async def awaits(_: Record) -> None:
    await asyncio.sleep(0)


def yields(_: Record) -> Iterator[int]:
    yield 1


async def yields_later(_: Record) -> AsyncIterator[int]:
    yield 1


def promises(_: Record) -> Future[int]:
    return Future()


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (awaits, "coroutine"),
        (yields, "generator"),
        (yields_later, "async_generator"),
        (promises, "Future"),
    ],
)
def test_a_handler_that_returns_what_has_not_run_has_not_processed_its_record(
    handler: Callable[[Record], object], kind: str
) -> None:
    done, errors = attempts_after(handler)
    assert done == [1]
    assert errors[0].startswith(f"TypeError: process returned a {kind}, so the record is not")


def test_any_other_value_that_a_handler_returns_means_done() -> None:
    assert attempts_after(lambda record: record.offset) == ([0, 1], {})


def test_quick_work_taken_by_a_thread_that_gets_stuck_is_taken_back_without_any_event() -> None:
    member = TableMember()
    member.assign(WHOLE)
    condition = threading.Condition()
    warm, others, outcome = threading.Event(), threading.Event(), threading.Event()
    quick = [b"quick %d" % number for number in range(2_000)]
    left = set(quick[:50])

    def handler(record: Record) -> None:
        if record.key == b"slow":
            if others.wait(30):
                outcome.set()
        elif record.key == quick[-1]:
            warm.set()
        elif warm.is_set():
            left.discard(record.key or b"")
            if not left:
                others.set()

    place = Workplace(member.core.lanes, condition, 2, lambda: None, 1, "test")
    executor = ThreadExecutor(place, handler)
    with condition:
        member.produce(*quick)
    executor.start()
    assert warm.wait(30)  # from here on a thread takes many of these at once
    with condition:
        member.produce(b"slow", *quick[:50])
    executor.offered()  # the last that the threads hear of the member
    assert outcome.wait(60)
    executor.stop()
