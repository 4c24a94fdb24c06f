"""A worker that misbehaves outside of `process`: what its pool says, and that nothing is lost."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import NoReturn

import pytest

from assignors import KeyRange, TopicPartition
from coop_consumer import Context, Record, Worker, WorkerPool
from coop_consumer.errors import (
    CoopConsumerError,
    EventLoopStoppedError,
    ExitCode,
    MisuseError,
    WorkerCallbackError,
    WorkerFlushError,
    WorkerMethodError,
)
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.stock import keys_of

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]


class Fine(Worker):
    def process(self, record: Record) -> None: ...


class NoDatabase(Fine):
    def setup(self, context: Context) -> None:
        raise OSError(f"no database for {context.workers} workers")


class NoFarewell(Fine):
    def teardown(self) -> None:
        raise OSError("connection is gone")


class ExitsInSetup(Fine):
    def setup(self, _: Context) -> None:
        sys.exit(0)


class ExitsInTeardown(Fine):
    def teardown(self) -> None:
        sys.exit(0)


class WaitsForItself(Fine):
    pool: WorkerPool

    def process(self, record: Record) -> None:
        if record.attempt == 1:
            self.pool.wait()


class WaitsInSetup(Worker):
    pool: WorkerPool

    async def setup(self, _: Context) -> None:
        self.pool.wait()

    async def process(self, record: Record) -> None: ...


class StopsItsLoop(Worker):
    def __init__(self) -> None:
        self.done: list[int] = []

    async def process(self, record: Record) -> None:
        if record.offset == 5:
            asyncio.get_running_loop().stop()
            await asyncio.sleep(0)
        self.done.append(record.offset)


class ExitsInAsyncFlush(Worker):
    async def process(self, record: Record) -> None: ...

    async def flush(self) -> None:
        sys.exit(0)


class Exits(Fine):
    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        sys.exit(f"no room for {tp} {ranges}")


def pool_of(worker: type[Worker] | Worker, orders: Job) -> WorkerPool:
    return WorkerPool(worker, orders.settings, [orders.topic], workers=2, until_caught_up=True)


def ending(pool: WorkerPool, kind: type[CoopConsumerError]) -> str:
    pool.start()
    with pytest.raises(kind) as caught:
        pool.wait(WAIT_S)
    assert caught.value.exit_code is ExitCode.USAGE
    return str(caught.value)


def test_a_setup_that_raises_joins_no_group(job: MakeJob) -> None:
    orders = job()
    with pytest.raises(WorkerMethodError) as caught:
        pool_of(NoDatabase, orders).start()
    assert str(caught.value).startswith(
        "worker NoDatabase: setup raised OSError: no database for 2 workers. The group was not"
    )
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("executor", ["thread", "inline"])
def test_a_handler_that_waits_for_its_own_pool_is_refused(
    job: MakeJob, executor: str, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job(**{"attempt.backoff.ms": 10})
    orders.produce(["a"])
    worker = WaitsForItself()
    worker.pool = WorkerPool(
        worker, orders.settings, [orders.topic], workers=1, executor=executor, until_caught_up=True
    )
    worker.pool.start()
    assert worker.pool.wait(WAIT_S)
    assert "MisuseError: wait(): the worker's own code calls it" in caplog.text


def test_an_async_setup_that_waits_for_its_pool_is_refused(job: MakeJob) -> None:
    worker = WaitsInSetup()
    worker.pool = pool_of(worker, job())
    with pytest.raises(WorkerMethodError, match="MisuseError: wait\\(\\): the worker's own code"):
        worker.pool.start()


def test_an_exit_in_setup_is_no_success(job: MakeJob) -> None:
    with pytest.raises(WorkerMethodError, match="setup raised SystemExit: 0"):
        pool_of(ExitsInSetup, job()).start()


def test_an_exit_in_teardown_is_no_success(job: MakeJob) -> None:
    told = ending(pool_of(ExitsInTeardown, job()), WorkerMethodError)
    assert told.startswith("worker ExitsInTeardown: teardown raised SystemExit: 0.")


def test_a_teardown_that_raises_is_told_though_the_log_cannot_be_written(job: MakeJob) -> None:
    log, handler = logging.getLogger("coop_consumer.pool"), Raising()
    log.addHandler(handler)
    try:
        told = ending(pool_of(NoFarewell, job()), WorkerMethodError)
    finally:
        log.removeHandler(handler)
    assert told.startswith("worker NoFarewell: teardown raised OSError: connection is gone.")


def test_a_loop_that_a_handler_stops_ends_its_member_and_what_it_did_is_committed(
    job: MakeJob,
) -> None:
    orders = job()
    orders.produce(keys_of(20, 5))
    worker = StopsItsLoop()
    told = ending(pool_of(worker, orders), EventLoopStoppedError)
    assert "stopped its event loop by loop.stop()" in told
    assert 5 in worker.done
    assert sorted(worker.done + orders.run_to_end().offsets) == list(range(20))


def test_an_exit_in_an_async_flush_ends_its_member(job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(20, 5))
    pool = pool_of(ExitsInAsyncFlush, orders)
    pool.start()
    with pytest.raises(WorkerFlushError, match="flush raised SystemExit: 0"):
        pool.wait(WAIT_S)
    assert orders.run_to_end().offsets == list(range(20))


def test_a_teardown_that_raises_is_told_after_everything_is_committed(job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(20, 5))
    told = ending(pool_of(NoFarewell, orders), WorkerMethodError)
    assert told.startswith("worker NoFarewell: teardown raised OSError: connection is gone.")
    assert orders.committed()[0][0] == 20


def test_a_callback_that_exits_ends_its_member_and_nothing_is_lost(job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(20, 5))
    told = ending(pool_of(Exits, orders), WorkerCallbackError)
    assert f"{orders.topic}-0: on_ranges_assigned raised SystemExit: no room for" in told
    assert orders.run_to_end().offsets == list(range(20))


def test_a_pool_lives_once(job: MakeJob) -> None:
    pool = pool_of(Fine, job())
    with pytest.raises(MisuseError, match=r"wait\(\): this pool was not started"):
        pool.wait()
    with pool:
        with pytest.raises(MisuseError, match=r"start\(\): this pool was started before"):
            pool.run()
        assert pool.wait(WAIT_S)


class FailsOnce(Fine):
    def process(self, record: Record) -> None:
        if record.offset == 0 and record.attempt == 1:
            raise OSError("not today")


class Raising(logging.Handler):
    """A log's handler that fails."""

    def emit(self, _: logging.LogRecord) -> NoReturn:
        raise SystemExit


def test_a_member_works_on_though_its_log_cannot_be_written(job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(20, 5))
    log, handler = logging.getLogger("coop_consumer.member.member"), Raising()
    pool = pool_of(FailsOnce, orders)
    log.addHandler(handler)
    try:
        pool.start()
        assert pool.wait(WAIT_S)
    finally:
        log.removeHandler(handler)
    assert (pool.counters.finished, pool.counters.failures) == (20, 1)
