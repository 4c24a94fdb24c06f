"""The thread executor: what a handler may do wrong, and what becomes of the record and its key."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future

import pytest

from assignors import WHOLE
from coop_consumer.core import actions, events
from coop_consumer.core.record import Record
from coop_consumer.executors import ThreadExecutor
from tests.unit.core_member import T0, TableMember


def attempts_after(handler: Callable[[Record], object]) -> tuple[list[int], dict[int, str]]:
    """Offsets done, and the errors of the others, of a record of `a` and one of `b`."""
    member = TableMember(on_failure="park", max_attempts=1)
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    executor = ThreadExecutor(
        member.core.lanes,
        threading.Condition(),
        lambda record: handler(record) if record.key == b"a" else None,
        workers=1,
        wake=lambda: None,
        wake_after=1,
        name="test",
    )
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


def test_a_worker_that_is_lost_to_a_hanging_handler_is_replaced() -> None:
    member = TableMember(max_processing_ms=1_000, on_overdue="fail", max_attempts=1)
    member.assign(WHOLE)
    member.produce(b"hangs", b"b")
    hangs, ends = threading.Event(), threading.Event()
    awake = threading.Semaphore(0)

    def process(record: Record) -> None:
        if record.key == b"hangs":
            hangs.set()
            assert ends.wait(10)

    condition = threading.Condition()
    executor = ThreadExecutor(
        member.core.lanes,
        condition,
        process,
        workers=1,
        wake=awake.release,
        wake_after=1,
        name="test",
    )
    executor.start()
    assert hangs.wait(10)
    [lane] = [lane for lane in member.core.lanes.table(T0).values() if lane.key == b"hangs"]
    assert "ends.wait(10)" in executor.stack(lane)
    for _ in range(20):
        member.after(100)
    (told,) = member.told(actions.AbandonLane)
    executor.abandon(told.lane)
    assert awake.acquire(timeout=10)
    member.tell(events.Tick())
    assert member.core.state.counters.finished == 1, "the other key goes on"
    ends.set()
    executor.stop()
    member.tell(events.Tick())
    assert member.core.state.counters.finished == 1, "what comes back late counts for nothing"
