"""This library, as it is measured: a worker of each style around the common handler.

In: a job. Out: a `WorkerPool` that runs it at the default settings, as `coop-consumer run` does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import fmean

from assignors import KeyRange, TopicPartition
from benchmarks.handler import Handler
from benchmarks.job import Job
from benchmarks.watched import WatchedConsumer
from coop_consumer import Context, Record, Worker, WorkerPool, threads_on_one_core
from coop_consumer.cli.garbage import collect_less_often
from coop_consumer.core.actions import Commit
from coop_consumer.core.transaction import Said, TransactionCall
from coop_consumer.kafka import consuming
from coop_consumer.kafka.transactor import Transactor

_NS_PER_MS = 1_000_000


class Joining(Worker):
    """Knows whether the group has given it anything."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.joined = False

    def on_ranges_assigned(self, _: TopicPartition, __: tuple[KeyRange, ...]) -> None:
        """It has."""
        self.joined = True

    def teardown(self) -> None:
        """Write what was noted: in a child process nobody else would."""
        self.handler.close()


class Blocking(Joining):
    """Handles records on threads, or in child processes."""

    def process(self, record: Record) -> None:
        """Handle one."""
        self.handler.handle(record.partition, record.offset, record.key or b"")


class Sending(Blocking):
    """Sends an output of each record, too."""

    def __init__(self, handler: Handler) -> None:
        super().__init__(handler)
        self._handle = handler.handle

    def setup(self, context: Context) -> None:
        """Know where to."""
        self._send = context.send
        (self._outputs,) = context.config.output_names

    def process(self, record: Record) -> None:
        """Handle one, and send its place."""
        partition, offset = record.partition, record.offset
        self._handle(partition, offset, record.key or b"")
        self._send(record, self._outputs, record.key, b"%d/%d" % (partition, offset))


class Awaiting(Joining):
    """Handles records on an event loop."""

    async def process(self, record: Record) -> None:
        """Handle one."""
        await self.handler.await_it(record.partition, record.offset, record.key or b"")


class Trivial(Joining):
    """Has nothing to do: what is left is what a record costs the library."""

    def process(self, _: Record) -> None:
        """Notice the first one."""
        if not self.handler.first_ns:
            self.handler.first_ns = time.monotonic_ns()


class TrivialBatches(Joining):
    """The same by batches, whose order is judged."""

    def process_batch(self, records: Sequence[Record]) -> None:
        """Note that it was there."""
        self.handler.handle_batch(
            [record.partition for record in records],
            [record.offset for record in records],
            [record.key or b"" for record in records],
        )


_WORKERS: dict[str, type[Joining]] = {
    "sleep": Blocking,
    "burn": Blocking,
    "await": Awaiting,
    "nothing": Trivial,
    "batch": TrivialBatches,
}


class Steps:
    """What the steps of transactions take, of the only transactor of this process."""

    def __init__(self) -> None:
        took_s = self._took_s = dict[str, list[float]]()
        ask = Transactor._asked

        def timed(self: Transactor, call: TransactionCall, action: Commit) -> Said:
            begun_s = time.monotonic()
            try:
                return ask(self, call, action)
            finally:
                took_s.setdefault(call.name.lower(), []).append(time.monotonic() - begun_s)

        Transactor._asked = timed  # type: ignore[method-assign]

    @property
    def mean_ms(self) -> dict[str, float]:
        """Of each step that was made."""
        return {name: 1_000 * fmean(took_s) for name, took_s in self._took_s.items()}


def take_spans(*, sampled: bool) -> None:
    """Set OpenTelemetry up, with an exporter that throws spans away."""
    # Loaded here: other systems are measured without it.
    from opentelemetry.trace import set_tracer_provider  # noqa: PLC0415

    from benchmarks.spans import provider  # noqa: PLC0415

    set_tracer_provider(provider(sampled=sampled))


class Ours:
    """A pool."""

    def __init__(self, job: Job, handler: Handler) -> None:
        # Consumers are made by this name; the library itself counts no bytes.
        vars(consuming)["Consumer"] = WatchedConsumer
        self._worker = (Sending if job.outputs else _WORKERS[job.work])(handler)
        self._steps = Steps() if job.system == "exactly-once" else None
        self._one_core = job.system == "ours-one-core"
        self._around = ExitStack()
        self._ends_by_itself = job.ends_at > 0
        config: dict[str, object] = {"bootstrap.servers": job.bootstrap, "group.id": job.group}
        if job.system == "ours-watched":
            config["ops.address"] = os.environ["BENCH_OPS"]
        if job.system in {"ours-unsampled", "ours-sampled"}:
            take_spans(sampled=job.system == "ours-sampled")
            config["tracing"] = "on"
        if job.instance:
            config["group.instance.id"] = job.instance
        if job.outputs:
            config["output.topics"] = job.outputs
        if job.system == "exactly-once":
            config["processing.guarantee"] = "exactly_once"
        if job.interval_ms:
            config["commit.interval.ms"] = job.interval_ms
        if job.held:
            config["max.num.ranges.held"] = config["max.num.ranges.to.commit"] = job.held
        self._pool = WorkerPool(
            self._worker,
            config,
            [job.topic],
            workers=job.width,
            executor="process" if job.work == "burn" else "thread",
            until_caught_up=self._ends_by_itself,
        )

    def start(self) -> None:
        """Join."""
        collect_less_often()
        if self._one_core:
            self._around.enter_context(threads_on_one_core())
        self._pool.start()

    def stop(self) -> None:
        """Leave; a pool that has caught up leaves by itself."""
        if not self._ends_by_itself:
            self._pool.close()
        self._pool.wait()
        self._around.close()

    @property
    def handled(self) -> int:
        """By the member's own counter."""
        return self._pool.counters.finished

    @property
    def joined(self) -> bool:
        """Whether it has got a range."""
        return self._worker.joined

    @property
    def committed_ns(self) -> int:
        """The member notes it by the wall clock."""
        committed_ms = self._pool.counters.committed_at_ms
        if not committed_ms:
            return 0
        return committed_ms * _NS_PER_MS - time.time_ns() + time.monotonic_ns()

    @property
    def commits(self) -> tuple[int | None, int | None]:
        """Of progress records."""
        return self._pool.counters.commits, self._pool.counters.commit_bytes

    @property
    def steps_ms(self) -> dict[str, float] | None:
        """Of the transactor."""
        return self._steps.mean_ms if self._steps else None


def make(job: Job, handler: Handler) -> Ours:
    """As `MakeSystem`."""
    return Ours(job, handler)
