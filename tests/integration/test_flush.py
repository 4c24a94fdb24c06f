"""Workers that buffer their output: progress follows what is flushed, never what is processed."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState

from assignors import KeyRange, TopicPartition, key_hash
from coop_consumer import Record, Worker, WorkerPool
from coop_consumer.errors import WorkerFlushError
from tests.support.buffering import BufferingWorker, Door
from tests.support.job import Job
from tests.support.journal import WAIT_S, lost, out_of_order
from tests.support.killed import to_be_killed
from tests.support.stock import described, eventually, keys_of

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]

KEYS = keys_of(200, 20)


@contextmanager
def member(job: Job, worker: Worker) -> Iterator[WorkerPool]:
    """A member with this worker for the length of a block."""
    with WorkerPool(worker, job.settings, [job.topic], workers=4) as pool:
        yield pool


def stable_of(job: Job) -> int:
    """The first offset of partition 0 that the log does not tell as done."""
    return job.log.partition(job.topic, 0).progress().stable


def is_settled(job: Job, members: int) -> bool:
    """Whether the group has so many members, and its last rebalance is over."""
    found = described(job.admin, job.group)
    return found.state is ConsumerGroupState.STABLE and len(found.members) == members


def flushers() -> list[str]:
    """The threads that flush."""
    return [thread.name for thread in threading.enumerate() if "coop-flush" in thread.name]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_slow_flush_holds_back_progress_and_nobody_else(job: MakeJob, guarantee: str) -> None:
    """quix-streams (checkpoint.py): a slow sink used up the revoke's time, and records came twice.

    Here a range that moves waits for the flush, however long that takes.
    """
    orders, door = job(**{"processing.guarantee": guarantee}), Door()
    worker = BufferingWorker(at_flush=door)
    with member(orders, worker):
        orders.produce(KEYS)
        orders.wait_for_lag(0)
        door.shut()
        more = orders.produce(KEYS)
        worker.processed.wait_for(more[:1])
        door.wait_for_arrival()
        worker.processed.wait_for(more)
        with orders.running() as other:  # heartbeats go on: a rebalance comes to its end
            eventually(lambda: is_settled(orders, members=2))
            still = orders.produce(KEYS)
            assert stable_of(orders) == len(KEYS)
            door.open()
            orders.wait_for_lag(0)
            assert not set(other.journal.places) & set(more)
    assert lost([*worker.durable.rows, *other.journal.rows], still) == set()


def test_what_a_killed_member_had_not_flushed_comes_again(job: MakeJob) -> None:
    orders = job()
    produced = orders.produce(KEYS)
    with to_be_killed("tests.support.buffering", orders.settings, orders.topic, len(KEYS)):
        assert stable_of(orders) == 0
    assert orders.run_to_end().places == sorted(produced)


@pytest.mark.parametrize("committed", [0, len(KEYS)])
def test_a_flush_that_fails_ends_the_member_and_loses_nothing(job: MakeJob, committed: int) -> None:
    orders, is_full = job(), threading.Event()

    def write() -> None:
        if is_full.is_set():
            raise OSError("disk full")

    worker = BufferingWorker(at_flush=write)
    pool = WorkerPool(worker, orders.settings, [orders.topic], workers=4)
    pool.start()
    produced = orders.produce(KEYS[:committed])
    worker.durable.wait_for(produced)
    is_full.set()
    produced += orders.produce(KEYS)
    with pytest.raises(WorkerFlushError, match="disk full"):
        pool.wait(WAIT_S)
    assert len(worker.durable.rows) == committed
    assert stable_of(orders) <= committed
    orders.wait_until_empty()
    others = orders.run_to_end().rows
    assert lost([*worker.durable.rows, *others], produced) == set()
    assert out_of_order(others) == []
    assert flushers() == []


def test_at_the_end_everything_is_flushed_and_then_committed(job: MakeJob) -> None:
    orders = job(**{"commit.interval.ms": 60_000})
    worker = BufferingWorker()
    produced = orders.produce(KEYS)
    with member(orders, worker):
        worker.processed.wait_for(produced)
    assert sorted(worker.durable.places) == sorted(produced)
    assert orders.committed()[0][0] == len(KEYS)


def test_a_worker_without_a_flush_pays_for_none(job: MakeJob) -> None:
    orders = job()
    orders.produce(KEYS)
    with orders.running() as pool:
        pool.journal.wait(lambda rows: len(rows) == len(KEYS))
        assert flushers() == []
    with member(orders, BufferingWorker()):
        assert len(flushers()) == 1


class Mortal(Worker):
    """Writes to a file when it is flushed; its process dies at the first record of a key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._buffer: list[int] = []

    def process(self, record: Record) -> None:
        if record.key == b"poison":
            os.kill(os.getpid(), signal.SIGKILL)
        self._buffer.append(record.offset)

    def flush(self) -> None:
        with (self._folder / str(os.getpid())).open("a") as file:
            file.writelines(f"{offset}\n" for offset in self._buffer)
        self._buffer.clear()

    def written(self) -> set[int]:
        """By all processes."""
        lines = [line for path in self._folder.iterdir() for line in path.read_text().split()]
        return set(map(int, lines))


def test_output_that_died_with_a_child_is_not_committed(job: MakeJob, tmp_path: Path) -> None:
    orders, worker = job(), Mortal(tmp_path)
    orders.produce([*KEYS, "poison"])
    pool = WorkerPool(worker, orders.settings, [orders.topic], workers=1, executor="process")
    pool.start()
    with pytest.raises(
        WorkerFlushError, match=r"killed by signal 9.*(had buffered is lost|during flush)"
    ):
        pool.wait(WAIT_S)
    orders.wait_until_empty()
    others = orders.run_to_end()
    assert worker.written() | set(others.offsets) == set(range(len(KEYS) + 1))


_STORING = threading.Lock()


class CountingWorker(Worker):
    """Counts each key's records in memory; what it counts is in `store` after a flush."""

    def __init__(self, store: dict[bytes, tuple[int, int]], pace: threading.Semaphore) -> None:
        self._store = store  # by key: the last offset counted, and the count
        self._memory: dict[bytes, tuple[int, int]] = {}
        self._pace = pace

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        del tp
        for key, value in self._store.copy().items():
            if any(key_hash(key) in key_range for key_range in ranges):
                self._memory[key] = value

    def process(self, record: Record) -> None:
        assert self._pace.acquire(timeout=WAIT_S), "nobody set the pace"
        key = record.key or b""
        last, count = self._memory.get(key, (-1, 0))
        if record.offset > last:
            self._memory[key] = record.offset, count + 1

    def flush(self) -> None:
        """Of keys that have moved on, others have counted further."""
        with _STORING:
            for key, counted in self._memory.copy().items():
                self._store[key] = max(counted, self._store.get(key, counted))


def test_state_that_is_buffered_moves_with_its_range(job: MakeJob) -> None:
    """Members come and go; whoever counts on begins where the one before had counted to."""
    orders, pace = job(), threading.Semaphore(0)
    store: dict[bytes, tuple[int, int]] = {}
    keys = keys_of(3_000, 40)
    orders.produce(keys)
    with member(orders, CountingWorker(store, pace)):
        pace.release(1_000)
        eventually(lambda: sum(count for _, count in store.copy().values()), lambda n: n >= 500)
        for _ in range(2):
            with member(orders, CountingWorker(store, pace)):
                eventually(
                    lambda: len(described(orders.admin, orders.group).members), lambda n: n == 2
                )
                pace.release(500)
        pace.release(len(keys) * 2)
        orders.wait_for_lag(0)
    assert {k.decode(): count for k, (_, count) in store.items()} == Counter(keys)
