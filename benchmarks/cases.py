"""The cases: what is produced, what a record costs, and what would be ideal.

In: a broker. Out: one `Result` a run. Never all keys distinct: where every record has a key of its
own, the order by key costs nothing and nothing is measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.checker import OrderChecker
from coop_consumer import Record, Worker, WorkerPool

PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class Result:
    """One run of a case.

    Attributes:
        seconds: From the first record handled to the last commit.
        ideal_s: What it would take if only the work itself took time.
        first_record_s: From `start()` to the first record handled.
    """

    records: int
    processed: int
    seconds: float
    ideal_s: float
    first_record_s: float
    out_of_order: int
    repeated: int

    @property
    def efficiency(self) -> float:
        """Ideal time over time taken."""
        return self.ideal_s / self.seconds

    def __str__(self) -> str:
        return (
            f"{self.seconds:.3f} s for {self.processed} records, efficiency {self.efficiency:.3f}, "
            f"first record after {self.first_record_s:.2f} s, {self.out_of_order} out of order, "
            f"{self.repeated} repeated"
        )


def produced(bootstrap: str, records: int, keys: int, value: bytes) -> str:
    """Make a topic and fill it; keys recur evenly, in an order that is not that of their hashes."""
    topic = f"bench-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])[topic].result(30)
    room = {"queue.buffering.max.messages": records}  # a broker that is new may take a while
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **room})
    for number in range(records):
        producer.produce(topic, value, key=f"key-{number * 7_919 % keys}")
        if number % 1_000 == 0:
            producer.poll(0)
    producer.flush()
    return topic


class Timed(Worker):
    """Notes when its first record came, and has the order checker look on."""

    def __init__(self, sleep_s: float) -> None:
        self.checker = OrderChecker()
        self.sleep_s = sleep_s
        self.first_s = 0.0
        self.first_ms = 0.0

    def begin(self, record: Record) -> None:
        """A record is handled now."""
        if not self.first_s:
            self.first_s, self.first_ms = time.perf_counter(), time.time() * 1_000
        self.checker.begin(record)


class SleepingWorker(Timed):
    """Stands for a remote call that blocks its thread."""

    def process(self, record: Record) -> None:
        """Sleep."""
        self.begin(record)
        time.sleep(self.sleep_s)
        self.checker.end(record)


class AwaitingWorker(Timed):
    """Stands for a remote call that is awaited."""

    async def process(self, record: Record) -> None:
        """Sleep."""
        self.begin(record)
        await asyncio.sleep(self.sleep_s)
        self.checker.end(record)


class BurningWorker(Timed):
    """Stands for a computation, in a child process; leaves a file behind that tells how it went."""

    def __init__(self, work_s: float, folder: Path) -> None:
        super().__init__(work_s)
        self.folder = folder

    def process(self, record: Record) -> None:
        """Compute."""
        self.begin(record)
        until_s = time.thread_time() + self.sleep_s
        while time.thread_time() < until_s:
            pass
        self.checker.end(record)

    def teardown(self) -> None:
        """Tell."""
        told = self.first_ms, self.checker.out_of_order, self.checker.repeated
        (self.folder / str(os.getpid())).write_text(json.dumps(told))


def cpu(bootstrap: str) -> Result:
    """20,000 records of 2,000 keys, 0.5 ms of CPU each, 2 processes."""
    records, processes, work_s = 20_000, 2, 0.0005
    topic = produced(bootstrap, records, keys=2_000, value=b"x" * 100)
    config = {"bootstrap.servers": bootstrap, "group.id": f"bench-{uuid4().hex[:8]}"}
    with TemporaryDirectory() as folder:
        started_ms = time.time() * 1_000
        worker = BurningWorker(work_s, Path(folder))
        pool = WorkerPool(
            worker, config, [topic], workers=processes, executor="process", until_caught_up=True
        )
        pool.start()
        pool.wait()
        told = [json.loads(path.read_text()) for path in Path(folder).iterdir()]
    first_ms = min(first for first, _, _ in told)
    counters = pool.counters
    return Result(
        records=records,
        processed=counters.finished,
        seconds=(counters.committed_at_ms - first_ms) / 1_000,
        ideal_s=records * work_s / processes,
        first_record_s=(first_ms - started_ms) / 1_000,
        out_of_order=sum(count for _, count, _ in told),
        repeated=sum(count for _, _, count in told),
    )


def io(bootstrap: str) -> Result:
    """30,000 records of 10,000 keys, 5 ms each, 64 workers."""
    return measured(bootstrap, SleepingWorker(0.005), records=30_000, keys=10_000, workers=64)


def aio(bootstrap: str) -> Result:
    """30,000 records of 10,000 keys, 100 ms each, 1,000 at a time."""
    return measured(bootstrap, AwaitingWorker(0.1), records=30_000, keys=10_000, workers=1_000)


def measured(bootstrap: str, worker: Timed, *, records: int, keys: int, workers: int) -> Result:
    """One run of a pool over a topic that was filled before."""
    topic = produced(bootstrap, records, keys, value=b"x" * 100)
    config = {"bootstrap.servers": bootstrap, "group.id": f"bench-{uuid4().hex[:8]}"}
    started = time.perf_counter()
    pool = WorkerPool(worker, config, [topic], workers=workers, until_caught_up=True)
    pool.start()
    pool.wait()
    counters = pool.counters
    return Result(
        records=records,
        processed=counters.finished,
        seconds=(counters.committed_at_ms - worker.first_ms) / 1_000,
        ideal_s=records * worker.sleep_s / workers,
        first_record_s=worker.first_s - started,
        out_of_order=worker.checker.out_of_order,
        repeated=worker.checker.repeated,
    )


CASES: dict[str, Callable[[str], Result]] = {"io": io, "aio": aio, "cpu": cpu}
