"""Planned jobs: what a group has left to do, as slices of keys that Spark's tasks process once.

In: a session, a group's configuration, topics. Out: a `Plan`: one slice for each task, and their
commit once the action that consumed them has succeeded. No task joins the group. A plan commits
the same records as a member, so that members and plans go on with each other's work.

The driver knows by an accumulator which slices succeeded: each task adds the slices that it has
read to their end. Spark takes these of an attempt only if that attempt succeeded, and before its
job ends (`DAGScheduler.handleTaskCompletion`), whether the job then fails or not. They are a set:
a second attempt of a task, or a late one, adds nothing that is not true.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self
from weakref import WeakKeyDictionary

from pyspark import RDD

from assignors import TopicPartition
from coop_consumer import forks
from coop_consumer.admin.planned import Finished, Measured, Pending, PlannedGroup
from coop_consumer.config import Config, Settings, TopicNames, checked_topics
from coop_consumer.errors import ConfigError, ExitCode, FatalError, MisuseError
from coop_consumer.kafka.patience import patiently
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted
from coop_consumer.status.history import done_within
from streams_adapter.cluster import check_connect, check_executors, check_idle_is_kept
from streams_adapter.cutting import (
    checked_ranges,
    checked_until,
    cut,
    records_left,
    shares,
)
from streams_adapter.slice_task import Numbers, tried
from streams_adapter.slices import Slice
from streams_adapter.slots import slots_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_CALL = "plan()"
_SLICES_A_SLOT = 2
"""Tasks that end early leave room for others."""
_PLANS: WeakKeyDictionary[RDD[Slice], Plan] = WeakKeyDictionary()
"""Of RDDs as `Plan.rdd` made them."""
_LOCAL = re.compile(r"local(?:\[[^,\]]*(?:,\s*(\d+)\s*)?\])?")


@dataclass(eq=False)
class SlicesFailedError(FatalError):
    """Slices of a plan could not be processed; those that could are committed.

    `slices` are the failed ones, `reason` is what the first of them failed with.
    """

    slices: tuple[str, ...]
    planned: int
    reason: str

    exit_code = ExitCode.STOPPED

    def __str__(self) -> str:
        return (
            f"{len(self.slices)} of {counted(self.planned, 'slice')} failed, the first is "
            f"{self.slices[0]}: {self.reason}\nThe others are committed. Correct the cause and "
            "plan anew: it plans just what is missing."
        )


def plan(
    spark: SparkSession,
    config: Settings | Mapping[str, object],
    topics: TopicNames | None = None,
    *,
    ranges: int | None = None,
    until: Mapping[str, Mapping[int, int]] | Mapping[TopicPartition, int] | None = None,
) -> Plan:
    """See what a group has left to do, and cut it into slices. Changes nothing.

    Args:
        spark: A classic session; its driver is this process.
        config: One dict of dotted names, as for members; `group.id` names the group.
        topics: What to process, by name; by default what the setting `topics` says.
        ranges: Into how many key ranges to cut each partition; by default as many as make slices of
            about equal bytes, twice as many in all as the session can run tasks. A key that has
            more than its part of the bytes is a slice by itself, or with few others.
        until: Where to end: the first offset that is not to be processed, for each partition, as
            {topic: {partition: offset}} or {TopicPartition: offset}. A partition that is not named
            ends where its records end now.

    Raises:
        GroupInUseError: The group has members: they are at it already.
        ConfigError: For a bad setting.
        TopicMissingError, PartitionMissingError: As they say.
        DataLossError: Some of what is left is gone, and `on.data.loss` is "stop".
        MisuseError: For a group that works with exactly once, for other arguments that cannot be
            meant, a session without a driver here,
            executors without this library.
        AuthorizationError, BrokerUnreachableError: As they say.

    Example::

        with plan(spark, config, ["orders"]) as planned:
            planned.rdd.mapPartitions(to_rows).toDF().write.parquet(path)
    """
    check_connect(spark, _CALL, "RDDs, which slices travel by")
    checked_ranges(ranges)
    ends = checked_until(until)
    parsed = Config.from_dict(config)
    if topics is None and not parsed.topic_names:
        raise ConfigError(
            "topics", "is missing: there is nothing to plan", "Set it, or name them here"
        )
    names = checked_topics(parsed.topic_names if topics is None else topics)
    context = spark.sparkContext
    with PlannedGroup(parsed) as group:
        pendings = group.look(names, ends)
        _check_sharing(pendings, ranges)
        sizes = group.measure(pendings)
    check_executors(context, _CALL)
    wanted = _SLICES_A_SLOT * slots_of(context)
    slices = sliced(parsed, pendings, sizes, ranges=ranges, wanted=wanted)
    log.info(
        "group %s: %d slices of %d partitions planned, about %d bytes",
        parsed.group_id,
        len(slices),
        len({piece.tp for piece in slices}),
        sum(piece.bytes for piece in slices),
        extra=LogEvent.PLAN_MADE.extra(group=parsed.group_id),
    )
    return Plan(context, parsed, pendings, slices)


def _check_sharing(pendings: Iterable[Pending], ranges: int | None) -> None:
    for it in pendings:
        if it.whole_because and (ranges or 1) > 1:
            raise MisuseError(
                _CALL,
                f"ranges={ranges}, but {it.tp} cannot be shared: {it.whole_because}",
                "Leave ranges out, or choose 1",
            )


def sliced(
    config: Config,
    pendings: Iterable[Pending],
    sizes: Mapping[TopicPartition, Measured],
    *,
    ranges: int | None,
    wanted: int,
) -> tuple[Slice, ...]:
    """The slices of a plan: the largest first, as the last task to start decides when a job ends.

    Args:
        config: For whoever reads them.
        pendings: What is left.
        sizes: Of each partition with something left: the bytes of an offset, and its heavy hashes.
        ranges: How many slices each partition gets; None: by its bytes.
        wanted: About how many slices there shall be in all, then.
    """
    left = {it.tp: (it, it.offsets) for it in pendings if it.offsets is not None}
    records = {tp: records_left(it.done, offsets) for tp, (it, offsets) in left.items()}
    counts = dict.fromkeys(left, ranges) if ranges else {}
    if ranges is None:
        weights = {tp: records[tp] * sizes[tp].bytes_each for tp in left}
        counts = dict(shares(weights, records, wanted))
    found = []
    for tp, (it, offsets) in left.items():
        count, (bytes_each, heavy) = 1 if it.whole_because else counts[tp] or 1, sizes[tp]
        for key_range in cut(it.done, offsets, count, heavy):
            pieces = [
                replace(piece, range=common)
                for piece in it.done
                if (common := piece.range.intersection(key_range)) is not None
            ]
            known = [done_within(piece, offsets) for piece in pieces]
            own = records_left(pieces, offsets, heavy)
            found.append(
                Slice(
                    number=0,
                    topic=tp.topic,
                    partition=tp.partition,
                    key_range=key_range,
                    offsets=offsets,
                    done=tuple(fact for fact in known if fact.next_offset),
                    bytes=round(own * bytes_each),
                    config=config,
                )
            )
    found.sort(key=lambda piece: (-piece.bytes, piece.tp, piece.key_range))
    return tuple(replace(piece, number=number) for number, piece in enumerate(found))


class Plan:
    """What a group had left to do when it was looked at; made by `plan`.

    As a context it commits all slices when the block ends, and none if the block raises.

    Attributes:
        slices: What there is to do, the largest first.
    """

    def __init__(
        self,
        context: SparkContext,
        config: Config,
        pendings: tuple[Pending, ...],
        slices: tuple[Slice, ...],
    ) -> None:
        self.slices = slices
        self._context = context
        self._config = config
        self._pendings = pendings
        self._writer = f"spark-plan-{secrets.token_hex(8)}"
        self._read = context.accumulator(frozenset(), Numbers())
        self._committed: set[int] = set()
        self._is_fork = False
        forks.watch(self)

    def shut_in_fork(self) -> None:
        """Only the parent knows what tasks have read, so only the parent commits."""
        self._is_fork = True

    @property
    def rdd(self) -> RDD[Slice]:
        """The slices, one in each partition of the RDD."""
        read = self._read
        made = self._bare().map(lambda piece: replace(piece, noting=read))
        _PLANS[made] = self
        return made

    def _bare(self) -> RDD[Slice]:
        if not self.slices:
            return self._context.emptyRDD()
        return self._context.parallelize(self.slices, len(self.slices))

    def commit(self, slices: Iterable[Slice] | None = None) -> None:
        """Tell that slices are done, and move the committed offsets. Again does no harm.

        Args:
            slices: Which, on the caller's word; by default all of the plan, if tasks that succeeded
                have read all of them to their ends, or they are committed already.

        Raises:
            MisuseError: They have not: nothing is committed.
            GroupJoinedError: The group has members meanwhile.
            PlanOutdatedError: Somebody has reset the group meanwhile.
            ProgressTopicError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        if self._is_fork:
            raise forks.misuse("Plan.commit()", "this plan")
        if slices is None:
            slices = self.slices
            known = self._read.value | self._committed
            unread = [piece for piece in slices if piece.number not in known]
            if unread:
                raise MisuseError(
                    "Plan.commit()",
                    f"{len(unread)} of {len(self.slices)} slices were not read to their end by a "
                    f"task that succeeded; the first is {unread[0]}",
                    "Run an action over all of them first (transformations alone do nothing), or "
                    "name the slices that are done",
                )
        finished: dict[TopicPartition, list[Finished]] = {}
        for piece in (chosen := list(slices)):
            done = Finished(piece.key_range, piece.offsets, piece.done)
            finished.setdefault(piece.tp, []).append(done)
        patiently(lambda: self._tell(finished), f"commit of group {self._config.group_id}")
        self._committed.update(piece.number for piece in chosen)

    def _tell(self, finished: Mapping[TopicPartition, list[Finished]]) -> None:
        with PlannedGroup(self._config) as group:
            group.commit(self._writer, self._pendings, finished)

    def __enter__(self) -> Self:
        """Nothing: what is planned is planned."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Commit, unless the block raised."""
        if kind is None and not self._is_fork:
            self.commit()

    def __repr__(self) -> str:
        partitions = len({piece.tp for piece in self.slices})
        size = sum(piece.bytes for piece in self.slices)
        return (
            f"Plan({self._config.group_id}: {counted(len(self.slices), 'slice')} of "
            f"{counted(partitions, 'partition')}, "
            f"about {size:,} bytes)"
        )


def for_each_key_range(planned: Plan | RDD[Slice], process: Callable[[Slice], object]) -> None:
    """Run a job that processes every slice, and commit those that were processed.

    A slice whose tries have all failed (`spark.task.maxFailures`) does not keep others from being
    processed and committed. After that the first failure is raised; a new plan has what is missing.

    Args:
        planned: The plan, or its `rdd` as it is.
        process: Is called on an executor, for one slice; reads `slice.records()` to its end. It
            may be called again for a slice, if Spark tries a task again.

    Raises:
        SlicesFailedError: Slices failed.
        MisuseError: The session would run a task twice at a time; or there is no plan.
        Exception: What Spark says failed otherwise, and what `Plan.commit` raises.
    """
    planned = _plan_of(planned)
    context = planned._context
    if context.getConf().get("spark.speculation", "false").lower() == "true":
        raise MisuseError(
            "for_each_key_range()",
            "spark.speculation=true would start a twin of a slow task, and its keys would be "
            "processed twice at a time",
            "Set spark.speculation=false for this application",
        )
    check_idle_is_kept(
        context, "for_each_key_range()", "a slice gives nothing to Spark until it is processed"
    )
    tries, done = _tries(context), context.accumulator(frozenset(), Numbers())

    def work(pieces: Iterable[Slice]) -> Iterator[tuple[int, str]]:
        for piece in pieces:
            reason = tried(piece, process, tries)
            if reason:
                yield piece.number, reason
            else:
                done.add(frozenset([piece.number]))

    failed: dict[int, str] = {}
    try:
        failed |= planned._bare().mapPartitions(work).collect()
    finally:
        processed = [piece for piece in planned.slices if piece.number in done.value]
        if processed or not planned.slices:
            planned.commit(processed)
    if failed:
        first = min(failed)
        named = tuple(str(planned.slices[number]) for number in sorted(failed))
        raise SlicesFailedError(named, len(planned.slices), failed[first])


def _plan_of(given: object) -> Plan:
    if isinstance(given, RDD):
        given = _PLANS.get(given, given)
    if isinstance(given, Plan):
        return given
    raise MisuseError(
        "for_each_key_range()",
        f"{type(given).__name__} is no plan: nobody knows which slices are in it",
        "Give it what plan() returns, or the rdd of that, as it is; to filter or map first, use "
        "the plan as a context",
    )


def _tries(context: SparkContext) -> int:
    """How often Spark tries a task before it gives up the job."""
    if local := _LOCAL.fullmatch(str(context.master)):
        return int(local[1] or 1)
    return int(context.getConf().get("spark.task.maxFailures", "4"))
