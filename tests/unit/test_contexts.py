"""Context variables: what a handler sets, no other record finds, however it is run."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence

import pytest

from coop_consumer import Record, Worker
from tests.support.crew import Crew, Script

KEYS = [b"k%d" % (number % 7) for number in range(60)]
OFFSET: contextvars.ContextVar[int] = contextvars.ContextVar("offset")
TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")


def set_in(records: Sequence[Record]) -> None:
    """Raises if another record's handler has set it before."""
    found = OFFSET.get(None)
    if found is not None:
        raise OSError(f"{records[0].offset} finds what {found} has set")
    OFFSET.set(records[0].offset)


class OnThreads(Worker):
    def process(self, record: Record) -> None:
        set_in([record])


class InBatches(Worker):
    def process_batch(self, records: Sequence[Record]) -> None:
        set_in(records)


class OnLoop(Worker):
    async def process(self, record: Record) -> None:
        set_in([record])


class BatchesOnLoop(Worker):
    async def process_batch(self, records: Sequence[Record]) -> None:  # type: ignore[override]
        set_in(records)


def go_through(crew: Crew) -> None:
    with crew:
        crew.produce(*KEYS)
        crew.until_done(len(KEYS))
    assert crew.member.core.state.counters.failures == 0


@pytest.mark.parametrize("executor", ["thread", "inline", "process"])
@pytest.mark.parametrize("worker", [OnThreads, InBatches])
def test_what_a_handler_sets_no_other_record_finds(
    worker: Callable[[], Worker], executor: str
) -> None:
    go_through(Crew(worker(), Script(), 1, executor=executor, batch_max_records=3))


@pytest.mark.parametrize("workers", [1, 20])
@pytest.mark.parametrize("worker", [OnLoop, BatchesOnLoop])
def test_what_a_coroutine_sets_no_other_record_finds(
    worker: Callable[[], Worker], workers: int
) -> None:
    go_through(Crew(worker(), Script(), workers, batch_max_records=3))


def test_slow_records_that_are_taken_one_by_one_find_nothing_either() -> None:
    crew = Crew(OnThreads(), Script(), 2)
    crew.executor._cost_s = 1.0  # type: ignore[attr-defined] # as after slow records
    go_through(crew)


def test_records_that_are_run_straight_find_nothing_either() -> None:
    crew = Crew(OnThreads(), Script(), 1)
    with crew:
        crew.produce(b"a")
        crew.until_done(1)
        crew.executor._cost_s = 1e-6  # type: ignore[attr-defined] # as after many quick records
        crew.executor.help(lambda: None, lambda: None)
        crew.member.produce(*KEYS)
        helper = threading.Thread(target=crew.executor.help, args=(lambda: None, lambda: None))
        helper.start()
        crew.until_done(len(KEYS) + 1)
    helper.join()
    assert crew.member.core.state.counters.failures == 0


class KnowsItsTenant(Worker):
    def __init__(self) -> None:
        self.found: list[str] = []

    def process(self, _: Record) -> None:
        self.found.append(TENANT.get())
        TENANT.set("another")


def test_inline_handlers_find_what_the_thread_that_drives_them_has_set() -> None:
    worker = KnowsItsTenant()
    crew = Crew(worker, Script(), 1, executor="inline")
    drive = crew.style.await_end

    def as_a_tenant(*arguments: object) -> None:
        TENANT.set("the tenant")
        drive(*arguments)  # type: ignore[arg-type] # as it was given
        assert TENANT.get() == "the tenant"

    crew.style.await_end = as_a_tenant  # type: ignore[method-assign]
    go_through(crew)
    assert worker.found == ["the tenant"] * len(KEYS)
