"""Workers launched as Spark tasks: each task of one job is a member of a consumer group.

In: a session, a worker, a configuration. Out: members on executors, which share partitions by key
ranges; a handle to watch and to stop them. Spark caps a consumer at one task a partition; here it
lends its executors, its way to ship code, and its patience with hosts that fall.
"""

from __future__ import annotations

import itertools
import logging
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from threading import Event, Thread
from typing import TYPE_CHECKING, Literal, Self

from pyspark import InheritableThread
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from coop_consumer import Config, Worker, forks
from coop_consumer.config import Settings, TopicNames, chosen_topics, named_only
from coop_consumer.config.setting import shown
from coop_consumer.errors import ConfigError, MisuseError
from coop_consumer.kafka.topics import Topics
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted
from coop_consumer.styles import refuse_state
from coop_consumer.worker import checked_outputs, worker_of
from streams_adapter import cluster
from streams_adapter.cluster import (
    check_connect,
    check_packages,
    context_of,
    executor_cores,
    use_own_python,
)
from streams_adapter.control import Desk, Report
from streams_adapter.task import LaunchOrder, run_task

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_CALL = "launch_workers()"
_PORT_MAX = 65_535
_NUMBERS = itertools.count(1)
_HELD: dict[str, int] = {}
"""Slots of launches that run in this process, by their names."""

SCHEMA = (
    StructType()
    .add("task", IntegerType(), nullable=False)
    .add("attempt", IntegerType(), nullable=False)
    .add("attempt_id", LongType(), nullable=False)
    .add("member", StringType(), nullable=False)
    .add("host", StringType(), nullable=False)
    .add("records", LongType(), nullable=False)
    .add("retries", LongType(), nullable=False)
    .add("failures", LongType(), nullable=False)
    .add("ranges", ArrayType(StringType(), containsNull=False), nullable=False)
    .add("seconds", DoubleType(), nullable=False)
    .add("repeats", LongType(), nullable=False)
    .add("ended", StringType(), nullable=False)
)
"""Of a launch's results; see `Report`. `repeats` is what an attempt left uncommitted."""


def launch_workers(
    spark: SparkSession,
    worker: type[Worker] | Worker,
    config: Settings | Mapping[str, object],
    topics: TopicNames | None = None,
    *,
    tasks: int = 16,
    threads_per_task: int | None = None,
    until: Literal["stopped", "caught_up"] = "stopped",
    barrier: bool = False,
    control_port: int = 0,
) -> Launch:
    """Start a job whose tasks are members of a group; returns once it is submitted.

    Each task is a static member, by application and task number. If Spark starts the task again, on
    any host, it gets its ranges back with their progress, and nothing is lost.

    Args:
        spark: A classic session; its driver is this process.
        worker: The `Worker` subclass (or an instance). It travels as code if it was defined in the
            main program, else its module must be importable on executors (`--py-files`).
        config: One dict of dotted names. Members get their `group.instance.id` here, and `host`
            from their executor.
        topics: What to consume; by default what the setting `topics` says.
        tasks: How many members; at most as many as the cluster has slots for tasks that no other
            launch of this process holds.
        threads_per_task: Records that a member processes at a time, and its weight in the group;
            by default what the setting `workers` says, else as many as an executor has cores.
        until: "caught_up": the job ends once the group has processed everything.
        barrier: Start all tasks together or none.
        control_port: Where the driver listens for its tasks' reports; 0: any free port.

    Raises:
        ConfigError: For a bad setting.
        MisuseError: For a worker that cannot process records, a session that cannot run so many
            tasks, or would start a task twice, executors without this library.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.

    Example::

        with launch_workers(spark, Billing, config, ["orders"], tasks=24) as launch:
            launch.wait(3600)
        launch.results().show()
    """
    check_connect(spark, _CALL, "driver here that tasks could report to")
    _check_number("tasks", tasks, 1)
    if threads_per_task is not None:
        _check_number("threads_per_task", threads_per_task, 1)
    _check_number("control_port", control_port, 0, _PORT_MAX)
    if until not in ("stopped", "caught_up"):
        raise MisuseError(_CALL, f"until={until!r}", 'Choose "stopped" or "caught_up"')
    if "group.instance.id" in config:
        raise ConfigError(
            "group.instance.id",
            "is each task's own here: two tasks of one name would fence each other",
            "Leave it out",
        )
    parsed = Config.from_dict(config)
    if topics is None and not parsed.topic_names:
        raise ConfigError(
            "topics", "is missing: there is nothing to consume", "Set it, or name them here"
        )
    names = None if topics is None else tuple(chosen_topics(topics))
    instance = worker_of(worker)
    if instance.keyed_state:
        refuse_state(parsed, "thread")
    parsed.refuse_circles(
        names or parsed.topic_names,
        keyed_state=instance.keyed_state,
        outputs=checked_outputs(instance),
    )
    _check_topics(parsed, names or parsed.topic_names)
    context = context_of(spark, tasks, sum(_HELD.values()))
    use_own_python(context)
    check_packages(context, tasks, needed=("rocksdict",) if instance.keyed_state else ())
    threads = threads_per_task or parsed.workers or executor_cores(context)
    name = _launch_name(context.applicationId, next(_NUMBERS))
    desk = _desk(context, control_port)
    order = LaunchOrder(
        name=name,
        worker=worker,
        config=dict(config),
        topics=names,
        threads=threads,
        until_caught_up=until == "caught_up",
        desk=desk.address,
    )
    return Launch(spark, name, order, tasks, desk, barrier=barrier)


def _check_number(name: str, value: object, least: int, most: int | None = None) -> None:
    if type(value) is int and least <= value and (most is None or value <= most):
        return
    to = "on" if most is None else f"to {most}"
    raise MisuseError(_CALL, f"{name}={shown(value)}", f"Choose a whole number from {least} {to}")


def _check_topics(config: Config, names: Sequence[str]) -> None:
    """See on the driver what each task would find, and Spark would try again."""
    topics = Topics(config)
    topics.check_broker()
    topics.describe(named_only(names))  # what matches a pattern may come later


def _launch_name(application: str, number: int) -> str:
    """Of letters that a static member's name may have."""
    return f"{re.sub(r'[^a-zA-Z0-9._-]', '-', application)}-{number}"


def _desk(context: SparkContext, port: int) -> Desk:
    conf = context.getConf()
    host = conf.get("spark.driver.host", "localhost")
    bind = conf.get("spark.driver.bindAddress", host)
    return Desk(bind, host, port, secrets.token_hex(32))


class Launch:
    """A job whose tasks are members; made by `launch_workers`.

    Attributes:
        name: Its members are called by it and the number of their task.
        tasks: How many they are.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        order: LaunchOrder,
        tasks: int,
        desk: Desk,
        *,
        barrier: bool,
    ) -> None:
        self.name = name
        self.tasks = tasks
        self._spark = spark
        self._desk = desk
        self._over = Event()
        self._error: Exception | None = None
        self._is_fork = False
        forks.watch(self)
        self._job = InheritableThread(target=self._run, args=(order, barrier))
        self._job.daemon = True
        _HELD[name] = tasks
        self._job.start()
        Thread(target=self._watch, args=(order,), name="coop-launch-watch", daemon=True).start()

    def shut_in_fork(self) -> None:
        """The job is the parent's, and so are its tasks."""
        self._is_fork = True

    def _refuse_fork(self, call: str) -> None:
        if self._is_fork:
            raise forks.misuse(call, "this launch")

    def _run(self, order: LaunchOrder, barrier: bool) -> None:
        def members(task: int, _: Iterable[int]) -> Iterable[Report]:
            return run_task(order, task)

        try:
            context = self._spark.sparkContext
            context.setJobDescription(f"{counted(self.tasks, 'member')}: {self.name}")
            numbers = context.parallelize(range(self.tasks), self.tasks)
            job = numbers.barrier() if barrier else numbers
            for report in job.mapPartitionsWithIndex(members).collect():
                self._desk.note(report)  # the last word of each may be on its line yet
        except Exception as error:  # noqa: BLE001 - whatever ended the job is told by wait
            self._error = error
        finally:
            self._desk.close()
            del _HELD[self.name]
            self._over.set()

    def _watch(self, order: LaunchOrder) -> None:
        """Tell of what keeps a launch waiting, each time it changes, as nobody else would.

        Spark is silent about tasks without a slot, and what has failed is told by executors' logs.
        """
        missing = 0
        handled, told = -1, -1
        while not self._over.wait(cluster.UNSTARTED_S):
            before, missing = missing, self.tasks - self._desk.served()
            if missing > 0 and missing != before:
                log.warning(
                    "%s: %d of %d tasks do not run: there is no slot for them, or they do not "
                    "reach this driver (Spark's UI tells); they hold no ranges",
                    self.name,
                    missing,
                    self.tasks,
                    extra=LogEvent.LAUNCH_UNSTARTED.extra(),
                )
            reports = self.progress()
            last, handled = handled, sum(report.records for report in reports)
            failures = sum(report.failures for report in reports)
            stands_still = order.until_caught_up and handled == last
            if stands_still and failures != told:
                group = str(order.config["group.id"])
                log.warning(
                    "%s: no record was processed for %.0f s, and it has not caught up; handlers "
                    "have failed %s. `coop-consumer status %s` shows what waits, and why",
                    self.name,
                    cluster.UNSTARTED_S,
                    counted(failures, "time"),
                    group,
                    extra=LogEvent.LAUNCH_STANDS_STILL.extra(group=group),
                )
            told = failures if stands_still else -1

    def progress(self) -> list[Report]:
        """The last report of every attempt of a task; each reports twice a second. Any thread."""
        self._refuse_fork("progress()")
        return self._desk.reports()

    def stop(self) -> None:
        """Let all tasks finish what runs, commit and leave; returns at once. Any thread."""
        self._refuse_fork("stop()")
        self._desk.stop()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the job has ended. False: it has not within `timeout_s`.

        Raises:
            Exception: What Spark says failed: a task did `spark.task.maxFailures` times.
        """
        self._refuse_fork("wait()")
        if not self._over.wait(timeout_s):
            return False
        if self._error is not None:
            raise self._error
        return True

    def results(self) -> DataFrame:
        """A row for each attempt of each task, once the job has ended; waits for that.

        `repeats` are records that came again because the attempt had not committed them. An attempt
        whose `ended` is empty was killed. Its row is its last report, so its `repeats` may be half
        a second old.
        """
        self.wait()
        rows = [asdict(report) for report in self.progress()]
        for row in rows:
            row["repeats"] = row.pop("uncommitted")
        return self._spark.createDataFrame(rows, SCHEMA)

    def __enter__(self) -> Self:
        """Nothing: it runs."""
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        """Stop, and wait for the end; an error of the block is not hidden by one of the job."""
        if self._is_fork:
            return
        self.stop()
        try:
            self.wait()
        except Exception as own_error:
            if error is None:
                raise
            extra = LogEvent.LAUNCH_FAILED.extra(error=own_error)
            told = "launch %s has ended by an error, too. What is not committed comes again"
            log.exception(told, self.name, extra=extra)
