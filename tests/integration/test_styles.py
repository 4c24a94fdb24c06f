"""Work styles on a real broker: on which threads a worker's methods run, and in which order."""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

import pytest

from assignors import KeyRange, TopicPartition
from coop_consumer import BatchFailure, Context, Record, Worker, WorkerPool
from coop_consumer.errors import (
    ConfigError,
    MisuseError,
    OutOfMemoryError,
    OutOfThreadsError,
    WorkerMethodError,
)
from coop_consumer.executors.children import Child
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.stock import keys_of

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
KEYS = keys_of(200, 20)


def loops() -> list[str]:
    """The threads that run event loops."""
    return [thread.name for thread in threading.enumerate() if thread.name.endswith("-loop")]


class AllAsync(Worker):
    """Every method is a coroutine function, and notes its name, once in a row."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.offsets: set[tuple[int, int]] = set()
        self.loops: set[asyncio.AbstractEventLoop] = set()

    async def _note(self, name: str) -> None:
        await asyncio.sleep(0)
        self.loops.add(asyncio.get_running_loop())
        if self.called[-1:] != [name]:
            self.called.append(name)

    async def setup(self, context: Context) -> None:
        assert context.workers == 100
        await self._note("setup")

    async def process(self, record: Record) -> None:
        await self._note("process")
        self.offsets.add((record.partition, record.offset))

    async def flush(self) -> None:
        await self._note("flush")

    async def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        assert tp.topic
        assert ranges
        await self._note("on_ranges_assigned")

    async def on_ranges_revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        assert tp.topic
        assert ranges
        await self._note("on_ranges_revoked")

    async def teardown(self) -> None:
        await self._note("teardown")


def test_all_methods_of_an_async_worker_run_on_one_loop(job: MakeJob) -> None:
    orders = job()
    produced = orders.produce(KEYS)
    worker = AllAsync()
    with WorkerPool(
        worker, orders.settings, [orders.topic], workers=100, until_caught_up=True
    ) as pool:
        pool.wait(60)
    orders.wait_for_lag(0)
    assert worker.offsets == set(produced)
    assert worker.called[:3] == ["setup", "on_ranges_assigned", "process"]
    assert worker.called[-1] == "teardown"
    assert "flush" in worker.called
    assert len(worker.loops) == 1
    assert not loops()


class InBatches(Worker):
    """Notes its batches; fails the first time at some of them, in every way there is."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[int, int]]] = []
        self.keys_overlap = False
        self._failed: set[bytes | None] = set()
        self._lock = threading.Lock()

    def process_batch(self, records: Sequence[Record]) -> list[BaseException | None]:
        with self._lock:
            keys = [(record.partition, record.key) for record in records]
            self.keys_overlap |= len(set(keys)) < len(keys)
            new = [record for record in records if record.key not in self._failed]
            self._failed |= {record.key for record in new[:3]}
            match len(new):
                case 0:
                    self.batches.append([(record.partition, record.offset) for record in records])
                    return [None for _ in records]
                case n if n % 3 == 0:
                    raise BatchFailure(records, "none today")
                case n if n % 3 == 1:
                    raise OSError("who knows")
                case _:
                    return [OSError("not now") for _ in records]


class InAsyncBatches(InBatches):
    """The same on an event loop."""

    async def process_batch(  # type: ignore[override] # a user would write one of them
        self, records: Sequence[Record]
    ) -> list[BaseException | None]:
        await asyncio.sleep(0)
        return super().process_batch(records)


@pytest.mark.parametrize("worker", [InBatches(), InAsyncBatches()], ids=["threads", "event loop"])
def test_batches_that_fail_in_part_lose_nothing(job: MakeJob, worker: InBatches) -> None:
    orders = job(**{"batch.max.records": 7, "attempt.backoff.ms": 10, "max.attempts": 50})
    produced = orders.produce(KEYS)
    with WorkerPool(
        worker, orders.settings, [orders.topic], workers=3, until_caught_up=True
    ) as pool:
        pool.wait(60)
    orders.wait_for_lag(0)
    done = [place for batch in worker.batches for place in batch]
    assert sorted(done) == sorted(produced)
    assert 1 < max(map(len, worker.batches)) <= 7
    assert not worker.keys_overlap


class InChild(Worker):
    """Writes what is called, and where, to a folder; dies once at one record."""

    def __init__(self, folder: Path, deadly: str = "") -> None:
        self.folder = folder
        self.deadly = deadly.encode()
        self._buffer: list[str] = []

    def _write(self, *lines: str) -> None:
        with (self.folder / str(os.getpid())).open("a") as file:
            file.writelines(line + "\n" for line in lines)

    def setup(self, context: Context) -> None:
        self._write(f"setup {context.workers}")

    def process(self, record: Record) -> None:
        has_died = self.folder.with_suffix(".died")
        if record.key == self.deadly and not has_died.exists():
            has_died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        assert record.value is not None
        assert (record.headers, record.timestamp_ms > 0) == ([], True)
        self._write(f"process {record.partition} {record.offset} {record.key!r}")

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        self._write(f"assigned {tp.partition} {len(ranges)}")

    def teardown(self) -> None:
        self._write("teardown")


def calls_in(folder: Path) -> dict[int, list[str]]:
    """What was called in each process."""
    return {int(path.name): path.read_text().splitlines() for path in folder.iterdir()}


@pytest.mark.parametrize("deadly", ["", "key-3"])
def test_children_hear_all_calls_and_keep_their_keys(
    job: MakeJob, tmp_path: Path, deadly: str
) -> None:
    orders = job(**{"attempt.backoff.ms": 10})
    produced = orders.produce(KEYS)
    folder = tmp_path / "calls"
    folder.mkdir()
    worker = InChild(folder, deadly)
    with WorkerPool(
        worker, orders.settings, [orders.topic], workers=2, executor="process", until_caught_up=True
    ) as pool:
        pool.wait(60)
    orders.wait_for_lag(0)
    called = calls_in(folder)
    assert os.getpid() not in called
    done = [
        line.split(maxsplit=3)[1:]
        for lines in called.values()
        for line in lines
        if line[:4] == "proc"
    ]
    assert {(int(partition), int(offset)) for partition, offset, _ in done} == set(produced)
    for lines in called.values():
        assert lines[0] == "setup 2"
        assert lines[1].startswith("assigned")
    living = [lines for lines in called.values() if lines[-1] == "teardown"]
    assert (len(living), len(called)) == (2, 3 if deadly else 2)
    keys = [{line.split(maxsplit=3)[3] for line in lines if line[:4] == "proc"} for lines in living]
    assert not keys[0] & keys[1], "a key stays with its child"
    assert pool.counters.failures == bool(deadly)


class Unreadable(InChild):
    """Can be pickled, and not be made again."""

    def __setstate__(self, state: object) -> None:
        raise RuntimeError(f"no place for {state}")


def test_children_that_cannot_start_are_told_at_once(job: MakeJob, tmp_path: Path) -> None:
    orders = job()
    pool = WorkerPool(
        Unreadable(tmp_path), orders.settings, [orders.topic], workers=1, executor="process"
    )
    with pytest.raises(MisuseError, match="its processes cannot start"):
        pool.start()
    assert not multiprocessing.active_children()


class KilledAtItsStart(InChild):
    """Its process is killed while it starts, as the kernel does where memory is short."""

    def __setstate__(self, state: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_child_that_is_killed_at_its_start_is_no_misuse(job: MakeJob, tmp_path: Path) -> None:
    orders = job()
    pool = WorkerPool(
        KilledAtItsStart(tmp_path), orders.settings, [orders.topic], workers=2, executor="process"
    )
    with pytest.raises(OutOfMemoryError, match=r"was killed by signal 9 .* Give the process more"):
        pool.start()
    assert not multiprocessing.active_children()


def test_children_that_the_machine_refuses_are_no_misuse(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(Child, "_spawn", refused)
    orders = job()
    pool = WorkerPool(
        InChild(tmp_path), orders.settings, [orders.topic], workers=2, executor="process"
    )
    with pytest.raises(OutOfThreadsError, match="Resource temporarily unavailable"):
        pool.start()


def test_children_come_and_go_while_the_pool_runs(job: MakeJob, tmp_path: Path) -> None:
    orders = job()
    pool = WorkerPool(
        InChild(tmp_path), orders.settings, [orders.topic], workers=1, executor="process"
    )
    with pytest.raises(MisuseError, match="this pool does not run"):
        pool.resize(2)
    produced: list[tuple[int, int]] = []
    with pool:
        for workers in (1, 3, 2):
            if workers != pool.workers:
                pool.resize(workers)
            heard = pool._runs.member.snapshot()
            assert heard.result(WAIT_S).capacity == workers  # told at the next assignment
            produced += orders.produce(KEYS)
            orders.wait_for_lag(0)
        with pytest.raises(ConfigError, match="processes nothing"):
            pool.resize(0)
        assert pool.workers == 2
    with pytest.raises(MisuseError, match="this pool does not run"):
        pool.resize(1)
    called = calls_in(tmp_path)
    done = [line.split()[1:3] for lines in called.values() for line in lines if "process" in line]
    assert sorted((int(partition), int(offset)) for partition, offset in done) == sorted(produced)
    assert len(called) == 3
    for lines in called.values():
        assert lines[0] == "setup 1"
        assert lines[1].startswith("assigned 0")
        assert "process" in "".join(lines)
        assert lines[-1] == "teardown"


class SetupMayFail(InChild):
    """Cannot be set up once its folder has a stop sign."""

    def setup(self, context: Context) -> None:
        if (self.folder / "stop").exists():
            raise OSError("no room")
        super().setup(context)


def test_a_child_more_that_cannot_be_set_up_changes_nothing(job: MakeJob, tmp_path: Path) -> None:
    orders = job()
    worker = SetupMayFail(tmp_path)
    with WorkerPool(worker, orders.settings, [orders.topic], workers=1, executor="process") as pool:
        (tmp_path / "stop").touch()
        with pytest.raises(WorkerMethodError, match="setup raised OSError: no room"):
            pool.resize(2)
        assert pool.workers == 1
        assert len(multiprocessing.active_children()) == 1
        orders.produce(KEYS)
        orders.wait_for_lag(0)


class Asks(Worker):
    """Quick, but for a question to its pool that only the member's thread can answer."""

    def __init__(self) -> None:
        self.pool: WorkerPool | None = None
        self.answer: object = None
        self.offsets: list[tuple[int, int]] = []

    def process(self, record: Record) -> None:
        if self.pool and not self.answer and "coop-member" in threading.current_thread().name:
            self.answer = self.pool.assignment()
        self.offsets.append((record.partition, record.offset))


def test_a_quick_handler_that_has_the_members_thread_may_ask_the_member(job: MakeJob) -> None:
    orders = job()
    worker, produced = Asks(), list[tuple[int, int]]()
    until_s = monotonic() + WAIT_S
    with WorkerPool(worker, orders.settings, [orders.topic], workers=4) as pool:
        worker.pool = pool
        while not worker.answer:
            assert monotonic() < until_s, "no record was processed on the member's thread"
            produced += orders.produce(KEYS)
            orders.wait_for_lag(0)
    assert worker.answer
    assert sorted(worker.offsets) == sorted(produced), "each is processed once"


class OnOneThread(Worker):
    """Notes its methods and their threads."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.threads: set[threading.Thread] = set()
        self.offsets: set[tuple[int, int]] = set()

    def _note(self, name: str) -> None:
        self.threads.add(threading.current_thread())
        if self.called[-1:] != [name]:
            self.called.append(name)

    def setup(self, context: Context) -> None:
        assert context.workers == 1
        self._note("setup")

    def process(self, record: Record) -> None:
        self._note("process")
        self.offsets.add((record.partition, record.offset))

    def flush(self) -> None:
        self._note("flush")

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        assert tp.topic
        assert ranges
        self._note("on_ranges_assigned")

    def on_ranges_revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        assert tp.topic
        assert ranges
        self._note("on_ranges_revoked")

    def teardown(self) -> None:
        self._note("teardown")


def test_inline_all_is_called_by_the_thread_that_waits(job: MakeJob) -> None:
    orders = job()
    worker = OnOneThread()
    with WorkerPool(worker, orders.settings, [orders.topic], executor="inline") as pool:
        produced = orders.produce(KEYS)
        while len(worker.offsets) < len(produced):
            assert not pool.wait(0.1)
    assert worker.offsets == set(produced)
    assert worker.threads == {threading.current_thread()}
    assert worker.called[:2] == ["setup", "on_ranges_assigned"]
    assert worker.called[-1] == "teardown"
    assert {"process", "flush"} <= set(worker.called)
    assert orders.committed()[0][0] == len(produced)


class SetupFails(Worker):
    async def setup(self, context: Context) -> None:
        raise OSError(f"no database for {context.workers}")

    async def process(self, record: Record) -> None: ...


def test_an_async_setup_that_raises_is_told_and_leaves_no_loop_behind(job: MakeJob) -> None:
    orders = job()
    pool = WorkerPool(SetupFails, orders.settings, [orders.topic])
    with pytest.raises(WorkerMethodError, match="setup raised OSError: no database for 64"):
        pool.start()
    assert not loops()
