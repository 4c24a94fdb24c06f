"""Handlers on an event loop that do to it what they should not: nothing stands still in silence."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from coop_consumer import Context, Record, Worker
from coop_consumer.errors import CoopConsumerError, EventLoopStoppedError
from coop_consumer.styles import event_loop
from tests.support.crew import WAIT_S, Crew, Script

KEYS = [b"k%d" % number for number in range(30)]


@pytest.fixture(params=["asyncio", "uvloop"], autouse=True)
def loop_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    else:
        monkeypatch.setattr(event_loop, "_new_event_loop", asyncio.new_event_loop)


class Naughty(Worker):
    """Does something at the first attempt of the key `naughty`."""

    def __init__(self, does: Callable[[], object]) -> None:
        self.does = does
        self.done: list[int] = []

    async def process(self, record: Record) -> None:
        if record.key == b"naughty" and record.attempt == 1:
            result = self.does()
            if asyncio.iscoroutine(result):
                await result
        await asyncio.sleep(0)
        self.done.append(record.offset)


class NaughtyInBatches(Naughty):
    process = Worker.process  # type: ignore[assignment]

    async def process_batch(self, records: Sequence[Record]) -> None:  # type: ignore[override]
        for record in records:
            await Naughty.process(self, record)


def cancel_all_others() -> None:
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()


def crew_of(worker: Worker, workers: int = 20, max_attempts: int = 3) -> Crew:
    settings = {"attempt_backoff_ms": 10, "max_attempts": max_attempts, "on_failure": "park"}
    return Crew(worker, Script(), workers, batch_max_records=3, **settings)


def go_through(crew: Crew, count: int) -> None:
    """Until so many are done, and back-offs are over."""

    def is_done() -> bool:
        crew.member.after(1_000)
        crew.executor.offered()
        return crew.member.core.state.counters.finished >= count

    crew.until(is_done)


@pytest.mark.parametrize("worker", [Naughty, NaughtyInBatches])
def test_tasks_that_a_handler_cancels_before_their_first_step_are_done_at_last(
    worker: Callable[[Callable[[], object]], Naughty],
) -> None:
    naughty = worker(cancel_all_others)
    with crew_of(naughty) as crew:
        crew.produce(b"naughty", *KEYS)
        go_through(crew, len(KEYS) + 1)
    assert sorted(set(naughty.done)) == list(range(len(KEYS) + 1))
    assert not crew.executor._tasks  # type: ignore[attr-defined] # no place is lost
    assert crew.executor._running == 0  # type: ignore[attr-defined]


def test_a_task_cancelled_before_its_first_step_has_failed_like_any_other() -> None:
    with crew_of(Naughty(cancel_all_others), max_attempts=1) as crew:
        crew.produce(b"naughty", b"a")
        crew.until_done(1)
        crew.until_failed(1)
        crew.member.after(1_000)
        ((offset, attempt),) = crew.member.store.attempts().items()
    assert (offset, attempt.error) == (1, "CancelledError: before its first step")


def test_tasks_that_a_handler_cancels_while_they_wait_have_failed() -> None:
    gate = asyncio.Event()

    class Waits(Naughty):
        async def process(self, record: Record) -> None:
            if record.key == b"waits" and record.attempt == 1:
                await gate.wait()
            await super().process(record)

    naughty = Waits(cancel_all_others)
    with crew_of(naughty) as crew:
        crew.produce(b"waits", b"a", b"naughty")
        go_through(crew, 3)
        assert crew.member.core.state.counters.failures >= 1
    assert sorted(naughty.done) == [0, 1, 2]


async def exit_in_a_task() -> None:
    async def exits() -> None:
        sys.exit("no more")

    await asyncio.create_task(exits())


async def interrupt_in_a_task() -> None:
    async def interrupts() -> None:
        raise KeyboardInterrupt

    await asyncio.create_task(interrupts())


@pytest.mark.parametrize(
    ("does", "error"),
    [
        (exit_in_a_task, "SystemExit: no more"),
        (interrupt_in_a_task, "KeyboardInterrupt"),
    ],
)
def test_a_record_fails_that_awaits_a_task_which_exits(
    does: Callable[[], object], error: str
) -> None:
    naughty = Naughty(does)
    with crew_of(naughty, max_attempts=1) as crew:
        crew.produce(*KEYS, b"naughty", *KEYS)
        crew.until_done(2 * len(KEYS))
        crew.until_failed(1)
        crew.member.after(1_000)
        ((offset, attempt),) = crew.member.store.attempts().items()
    assert (offset, attempt.error) == (len(KEYS), error)


def test_a_task_that_exits_and_that_nobody_awaits_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left: list[asyncio.Task[None]] = []

    async def exits() -> None:
        sys.exit(0)

    naughty = Naughty(lambda: left.append(asyncio.get_running_loop().create_task(exits())))
    with crew_of(naughty) as crew:
        crew.produce(*KEYS, b"naughty", *KEYS)
        crew.until_done(2 * len(KEYS) + 1)
    assert isinstance(left[0].exception(), SystemExit)
    assert "a task of the event loop raised SystemExit: 0; the loop continues" in caplog.text


def test_a_loop_that_is_stopped_ends_the_member_by_its_reason_and_what_runs_is_finished() -> None:
    naughty = Naughty(lambda: asyncio.get_running_loop().stop())
    told: list[CoopConsumerError] = []
    with crew_of(naughty) as crew:
        crew.style.fail = told.append
        crew.produce(*KEYS, b"naughty", *KEYS)
        crew.until_done(2 * len(KEYS) + 1)
    assert [str(error).partition(". ")[0] for error in told] == [
        "group billing: the worker's code stopped its event loop by loop.stop()"
    ]
    assert isinstance(told[0], EventLoopStoppedError)


class Exits(Worker):
    """All methods but its handler exit."""

    async def setup(self, _: Context) -> None:
        await asyncio.sleep(0)

    async def flush(self) -> None:
        await asyncio.sleep(0)
        sys.exit(0)

    async def process(self, record: Record) -> None: ...


def test_an_exit_in_flush_is_told_to_its_caller_and_the_loop_goes_on() -> None:
    with crew_of(Exits()) as crew:
        with pytest.raises(SystemExit):
            crew.style.flush()
        crew.produce(*KEYS)
        crew.until_done(len(KEYS))


class Flushes(Naughty):
    """Its flush waits until a handler has cancelled it."""

    def __init__(self, does: Callable[[], object]) -> None:
        super().__init__(does)
        self.is_at_it = threading.Event()

    async def flush(self) -> None:  # type: ignore[override]
        self.is_at_it.set()
        await asyncio.Event().wait()


def test_a_flush_that_a_handler_cancels_is_told_to_its_caller() -> None:
    flushes = Flushes(cancel_all_others)
    with crew_of(flushes) as crew, ThreadPoolExecutor(1) as flusher:
        flushed = flusher.submit(crew.style.flush)
        assert flushes.is_at_it.wait(WAIT_S)
        crew.produce(b"naughty")
        crew.until_done(1)
        with pytest.raises(CancelledError):
            flushed.result(WAIT_S)


def test_tasks_that_heed_no_cancellation_do_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_loop, "_TASKS_END_S", 0.05)
    left: list[asyncio.Task[None]] = []
    ended = threading.Event()

    async def goes_on() -> None:
        while not ended.is_set():
            try:
                await asyncio.sleep(WAIT_S)
            except asyncio.CancelledError:
                continue

    naughty = Naughty(lambda: left.append(asyncio.get_running_loop().create_task(goes_on())))
    with crew_of(naughty) as crew:
        crew.produce(b"naughty")
        crew.until_done(1)
    ended.set()
    assert "tasks of the event loop do not end when cancelled" in caplog.text


def test_a_member_ends_by_what_another_thread_raises_in_that_of_its_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted(asyncio.SelectorEventLoop):
        is_first = True

        def run_forever(self) -> None:
            super().run_forever()
            if self.is_first:
                self.is_first = False
                raise TimeoutError("too late")

    monkeypatch.setattr(event_loop, "_new_event_loop", Interrupted)
    told: list[BaseException] = []
    with crew_of(Naughty(lambda: asyncio.get_running_loop().stop())) as crew:
        crew.style.die = told.append
        crew.produce(*KEYS, b"naughty", *KEYS)
        crew.until_done(2 * len(KEYS) + 1)  # the loop goes on
    assert [str(error) for error in told] == ["too late"]
