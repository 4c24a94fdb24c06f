"""A launched task: one group member for as long as Spark lets it run.

In: an order, the number of this task. Out: a member with a static name of application and task; at
its end, its report. By the static name, Spark's next attempt gets the ranges back, and the broker
fences an attempt that lives on somewhere.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark import TaskContext

from coop_consumer import CoopConsumerError, Worker, WorkerPool
from coop_consumer.kafka.patience import patiently
from coop_consumer.ops.log_format import json_if_asked
from streams_adapter.control import DRAINED, Address, Report, line_to

REPORT_S = 0.5


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """What all tasks of a launch are told.

    Attributes:
        name: The launch; a member's name is that and the number of its task.
        worker: The worker.
        config: The group's configuration, as the user gave it.
        topics: What to consume; None: what the configuration says.
        threads: Records processed at a time by a task; None: what the configuration says.
        until_caught_up: End once the group has processed everything.
        desk: Where the driver listens.
    """

    name: str
    worker: type[Worker] | Worker
    config: Mapping[str, object]
    topics: tuple[str, ...] | None
    threads: int | None
    until_caught_up: bool
    desk: Address

    def settings(self, task: int) -> dict[str, object]:
        """The configuration of one task's member."""
        own = {"group.instance.id": self.member(task)}
        return {"host": socket.gethostname(), **self.config, **own}

    def member(self, task: int) -> str:
        """The name of one task's member."""
        return f"{self.name}-{task}"

    def pool(self, task: int) -> WorkerPool:
        """One task's member, not started yet."""
        return WorkerPool(
            self.worker,
            self.settings(task),
            self.topics,
            workers=self.threads,
            until_caught_up=self.until_caught_up,
        )


def run_task(order: LaunchOrder, task: int) -> Iterator[Report]:
    """Be a member until the driver says stop, or all is done; yields the last report.

    Raises:
        CoopConsumerError: What ended the member; or the driver could not be reached for long, so
            that the member has drained. Spark starts the task again.
    """
    json_if_asked()
    context = TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    attempt_id = context.taskAttemptId() if context is not None else 0
    began_s = time.monotonic()
    with line_to(order.desk) as line:
        report = Report(task, attempt, attempt_id, order.member(task), socket.gethostname())
        line.tell(report)
        pool: WorkerPool | None = None

        def is_over() -> bool:
            line.tell(report)
            return line.is_told_to_stop()

        def begun() -> WorkerPool:
            made = order.pool(task)
            stack.enter_context(made)
            return made

        try:
            with ExitStack() as stack:  # whatever happens, it drains
                pool = patiently(begun, report.member, between=is_over)
                while not pool.wait(REPORT_S):
                    report = _newer(report, pool, began_s)
                    if is_over():
                        pool.close()  # again and again: nothing comes of it
        except CoopConsumerError as error:
            # While no broker answers, a task that has not begun may be told to stop.
            if pool is not None or not line.is_told_to_stop():
                line.tell(replace(_newer(report, pool, began_s), ended=str(error)))
                raise
        report = replace(_newer(report, pool, began_s), ended=DRAINED)
        line.tell(report)
    yield report


def _newer(report: Report, pool: WorkerPool | None, began_s: float) -> Report:
    if pool is None:
        return report
    counters = pool.counters
    committed = counters.committed  # read first: it never passes what is finished
    finished = counters.finished
    held = {f"{tp}{key_range}" for tp, ranges in pool.assignment().items() for key_range in ranges}
    return replace(
        report,
        records=finished,
        retries=counters.retries,
        failures=counters.failures,
        ranges=tuple(sorted(held)) or report.ranges,
        seconds=round(time.monotonic() - began_s, 3),
        uncommitted=finished - committed,
    )
