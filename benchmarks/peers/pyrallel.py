"""pyrallel-consumer 1.0: order by key on an event loop, or in processes.

In: a job. Out: the same handler in its hands, at its defaults: 1,000 records in flight. So many
it also begins at once, so the width is kept by a semaphore around the handler. It has no threads:
where others block one, its handler awaits. This module runs in the peer's own environment.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pyrallel_consumer import KafkaConfig, PyrallelConsumer, WorkItem
from pyrallel_consumer.control_plane import broker_poller
from pyrallel_consumer.dto import ExecutionMode

from benchmarks.handler import Handler
from benchmarks.job import Job
from benchmarks.peers.loop import settings_of
from benchmarks.watched import WatchedConsumer

_LOOK_S = 0.01
_QUIET_NS = 300_000_000


class Settings(KafkaConfig):  # type: ignore[misc] # it has no types here
    """Its settings, with the consumer's that it has no names for."""

    def __init__(self, job: Job) -> None:
        super().__init__(BOOTSTRAP_SERVERS=job.bootstrap, CONSUMER_GROUP=job.group)
        self._consumer = settings_of(job)

    def get_consumer_config(self) -> dict[str, str | int | bool]:
        """For librdkafka."""
        return dict(self._consumer)


class InProcess:
    """The handler as its processes take it: by pickle. Each row goes to a file at once."""

    def __init__(self, job: Job) -> None:
        self._handler = Handler(job, at_once=True)

    def __call__(self, item: WorkItem) -> None:
        """Handle one."""
        self._handler.handle(item.tp.partition, item.offset, _key(item))


def on_loop(job: Job, handler: Handler, count: Callable[[], None]) -> Callable[[WorkItem], object]:
    """The handler as its event loop takes it."""
    room = asyncio.Semaphore(job.width)

    async def worker(item: WorkItem) -> None:
        async with room:
            await handler.await_it(item.tp.partition, item.offset, _key(item))
        count()

    return worker


class Pyrallel:
    """The consumer, on a thread that runs its event loop."""

    def __init__(self, job: Job, handler: Handler) -> None:
        logging.disable(logging.WARNING)  # it warns of every pause
        vars(broker_poller)["Consumer"] = WatchedConsumer
        self._job = job
        self._handler = handler
        self._count = 0
        self._stopping = threading.Event()
        self._consumer: PyrallelConsumer | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def start(self) -> None:
        """Join."""
        self._thread.start()

    def stop(self) -> None:
        """Leave, once it commits no more: by itself it leaves the last commit out."""
        while time.monotonic_ns() - self.committed_ns < _QUIET_NS:
            time.sleep(_LOOK_S)
        self._stopping.set()
        self._thread.join()

    @property
    def handled(self) -> int:
        """As the handler counted; in processes, by the rows that they wrote."""
        if self._job.work != "burn":
            return self._count
        files = Path(self._job.journal).glob("*.rows")
        return sum(path.read_bytes().count(b"\n") for path in files)

    @property
    def joined(self) -> bool:
        """Whether it has partitions."""
        return self._consumer is not None and bool(self._consumer.get_metrics().partitions)

    @property
    def committed_ns(self) -> int:
        """As the consumer saw it."""
        return max((it.committed_ns for it in WatchedConsumer.made), default=0)

    @property
    def commits(self) -> tuple[int | None, int | None]:
        """Of offsets."""
        return sum(it.commits for it in WatchedConsumer.made), None

    async def _run(self) -> None:
        settings = Settings(self._job)
        execution = settings.parallel_consumer.execution
        worker: Callable[[WorkItem], object] | Callable[[WorkItem], Awaitable[None]]
        if self._job.work == "burn":
            execution.mode = ExecutionMode.PROCESS
            execution.process_config.process_count = self._job.width
            worker = InProcess(self._job)
        else:
            worker = on_loop(self._job, self._handler, self._one_more)
        self._consumer = PyrallelConsumer(config=settings, worker=worker, topic=self._job.topic)
        await self._consumer.start()
        while not self._stopping.is_set():
            await asyncio.sleep(_LOOK_S)
        await self._consumer.stop()

    def _one_more(self) -> None:
        self._count += 1


def _key(item: WorkItem) -> bytes:
    return item.key if isinstance(item.key, bytes) else str(item.key).encode()


def make(job: Job, handler: Handler) -> Pyrallel:
    """As `MakeSystem`."""
    return Pyrallel(job, handler)
