"""The stream reader: `spark.readStream.format("keyrange")`, in micro-batches.

In: what the checkpoint says was reached, what the brokers hold now, limits. Out: how far the next
batch goes, its tasks, their rows. Spark ends a batch before it begins the next, so a key's records
of batch n are done before those of batch n + 1 begin, whichever tasks read them (I4).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from assignors import TopicPartition
from coop_consumer.errors import ConfigError, TopicMissingError
from coop_consumer.kafka.patience import AWAY_S, LEADERLESS_S
from coop_consumer.kafka.topics import TopicFacts
from coop_consumer.log_events import LogEvent
from streams_adapter.source.errors import (
    CheckpointMismatchError,
    OffsetsGoneError,
    TopicGoneError,
    TopicMadeAgainError,
)
from streams_adapter.source.options import SourceOptions
from streams_adapter.source.places import Extent, Places, read_of
from streams_adapter.source.progress import StreamReached, TopicReached, shared_out
from streams_adapter.source.pushdown import Wanted
from streams_adapter.source.scan import ranges_for, read_task, tasks_of

log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's reader. Spark keeps one in a process beside the driver, and sends copies along.

    Args:
        options: What to read.
        schema: The columns.
        slots: How many tasks the cluster runs at once, for `keyRanges=auto`; or who knows.

    Raises:
        ConfigError: A group is to be told of keys that were never read; or an end is given.
    """

    def __init__(
        self, options: SourceOptions, schema: StructType, slots: int | Callable[[], int]
    ) -> None:
        if options.keys is not None and options.group is not None:
            raise ConfigError(
                "group.id",
                "is given beside keys: the group would be told that all other keys are done, too",
                "Leave one of them out",
            )
        if options.ends_by is not None:
            raise ConfigError(
                options.ends_by,
                "is for batches: a stream has no end",
                "Leave it out, or read a batch (spark.read); trigger(availableNow=True) ends a "
                "stream at what is there",
            )
        self._options, self._columns, self._slots = options, schema.fieldNames(), slots
        self._places: Places | None = None
        self._target: StreamReached | None = None
        self._batch_s = -math.inf  # a first batch waits for nothing, as with Spark's own source
        self._mirrored: StreamReached | None = None
        self._missing: set[str] = set()
        self._initial: StreamReached | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Clients stay where they are, and tasks have keys of their own."""
        return {**self.__dict__, "_places": None, "_options": replace(self._options, keys=None)}

    # ---- on the driver -------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        """Where a query without a checkpoint begins.

        Raises:
            ConfigError, OffsetsGoneError, TopicMissingError: As they say.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        facts, extents = self._look(begins=True)
        self._initial = self._reached(facts, self._asked().starts(extents, "latest"))
        self._mirrored = self._initial
        return self._initial.as_json()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any], limit: ReadLimit
    ) -> dict[str, Any]:
        """Where the next batch ends; `start`, if there is to be none yet.

        Raises:
            CheckpointMismatchError: `start` is of another query.
            GroupInUseError: The group, which is to hear how far the stream is, has members.
            OffsetsGoneError, TopicGoneError, TopicMissingError: As they say.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        before = StreamReached.from_json(start)
        facts, extents = self._look()
        self._check(before, facts)
        self._mirror(before)
        begins = self._begins(before, facts, extents)
        pending = {
            tp: max(0, self._end(tp, facts, extent, begins[tp]) - begins[tp])
            for tp, extent in extents.items()
        }
        most = self._most(limit, sum(pending.values()))
        # Report a loss at once, if need be in a batch without records. The end of a log that was
        # cut off moves on, and records that come until the report would count as lost, too.
        absent = {topic: it for topic, it in before.topics.items() if topic in self._missing}
        is_lost = any(
            begins.get(tp) != at for tp, at in before.places() if tp.topic not in absent
        ) or any(_is_another(before, facts[topic], topic) for topic in facts)
        if not is_lost and (most == 0 or not any(pending.values())):
            return start
        taken = shared_out(pending, most)
        self._batch_s = time.monotonic()
        reached = self._reached(facts, {tp: begins[tp] + taken[tp] for tp in extents})
        began = before.topics if before == self._initial else None
        return StreamReached({**absent, **reached.topics}, began).as_json()

    def _end(
        self, tp: TopicPartition, facts: Mapping[str, TopicFacts], extent: Extent, begin: int
    ) -> int:
        """How far a partition may be read now."""
        target = self._target
        if target is None:
            return extent.end
        if tp.topic not in target.topics or _is_another(target, facts[tp.topic], tp.topic):
            return begin  # it was made since
        known = target.offset(tp)
        return begin if known is None else min(known, extent.end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the options say."""
        if self._options.offsets_max is not None:
            return ReadMaxRows(self._options.offsets_max)
        if self._options.offsets_min is not None:
            return ReadMinRows(self._options.offsets_min)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """What the brokers hold, for the query's progress; with what transactions hold back."""
        facts, extents = self._look()
        try:
            ends = self._asked().log_ends(extents)
        except TopicMissingError:  # just now; the next batch sees to it
            ends = {tp: it.end for tp, it in extents.items()}
        return self._reached(facts, ends).as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the query read up to the present ends, and no further."""
        facts, extents = self._look()
        self._target = self._reached(facts, {tp: it.end for tp, it in extents.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch; the same ones if Spark repeats it.

        Raises:
            CheckpointMismatchError: It is of another query.
            OffsetsGoneError, TopicGoneError, TopicMissingError: As they say.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        after = StreamReached.from_json(end)
        before = after.before(StreamReached.from_json(start))
        facts, extents = self._look()
        self._check(after, facts)
        begins = self._begins(before, facts, extents)
        wanted = {}
        for tp, offset in after.places():
            if tp not in begins:
                continue  # its topic is missing, or was made again with fewer partitions
            if _is_another(after, facts[tp.topic], tp.topic):
                self._miss(TopicMadeAgainError(tp.topic, tp.partition, begins[tp], offset))
                continue
            log_end = extents[tp].end
            if offset > log_end and not self._asked().holds(tp, offset, extents[tp]):
                self._miss(OffsetsGoneError(tp.topic, tp.partition, log_end, offset - 1))
                offset = log_end  # noqa: PLW2901 - what is left
            wanted[tp] = (begins[tp], offset)
        return tasks_of(
            wanted,
            {topic: it.key_ranges for topic, it in after.topics.items()},
            {topic: it.partitions for topic, it in facts.items()},
            self._options,
            Wanted(keys=self._options.keys),
        )

    def commit(self, end: dict[str, Any]) -> None:
        """A batch is done. Spark says so when it has begun the next, if ever: see `latestOffset`.

        Raises:
            GroupInUseError: The group has members.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        self._mirror(StreamReached.from_json(end))

    def _mirror(self, reached: StreamReached) -> None:
        """Commit for the group, if there is one, what is done.

        A question for the next batch proves that the batch before is done. Spark asks after that
        batch has ended; after a crash, when it has been repeated.
        """
        if self._options.group is None or reached == self._mirrored:
            return
        there = self._asked().topics(missing_ok=not self._options.fail_on_data_loss)
        told = {
            tp: at
            for tp, at in reached.places()
            if tp.topic in there and not _is_another(reached, there[tp.topic], tp.topic)
        }
        try:
            self._asked().mirror(told)
        except TopicMissingError as error:  # deleted meanwhile
            if self._options.fail_on_data_loss:
                raise
            extra = LogEvent.SPARK_GROUP_NOT_TOLD.extra(error=error)
            log.warning("%s; the group is not told of it", error, extra=extra)
        self._mirrored = reached

    def _asked(self) -> Places:
        if self._places is None:
            self._places = Places(self._options)
        return self._places

    def _look(
        self, *, begins: bool = False
    ) -> tuple[dict[str, TopicFacts], dict[TopicPartition, Extent]]:
        """What is there now.

        Args:
            begins: The query has no checkpoint: whatever the user names must exist.
        """
        places, again = self._asked(), not begins
        until_s = time.monotonic() + LEADERLESS_S
        while True:
            facts = places.topics(missing_ok=again and not self._options.fail_on_data_loss)
            try:
                extents = places.extents(read_of(facts, self._options, fewer=again))
            except TopicMissingError:  # deleted, or made again with fewer partitions, just now
                if time.monotonic() > until_s:
                    raise
            else:
                break
        places.away_s = AWAY_S  # it has been planned, and runs
        self._report_missing(facts)
        return facts, extents

    def _report_missing(self, facts: Mapping[str, TopicFacts]) -> None:
        missing = {*(self._options.topics or ())} - {*facts}
        for topic in sorted(missing - self._missing):
            log.warning(
                "topic %s: does not exist (any more); the query goes on without it, and reads it "
                "from its first record once it was made again (failOnDataLoss=false)",
                topic,
                extra=LogEvent.SPARK_TOPIC_MISSING.extra(topic=topic),
            )
        self._missing = missing

    def _reached(
        self, facts: Mapping[str, TopicFacts], offsets: Mapping[TopicPartition, int]
    ) -> StreamReached:
        ranges = self._options.key_ranges or ranges_for(self._slots, len(offsets))
        return StreamReached(
            {
                topic: TopicReached(
                    it.id.hex(),
                    {tp.partition: at for tp, at in offsets.items() if tp.topic == topic},
                    ranges,
                )
                for topic, it in facts.items()
            }
        )

    def _check(self, reached: StreamReached, facts: Mapping[str, TopicFacts]) -> None:
        """A checkpoint is gone on with by the query that made it."""
        named = {*(self._options.topics or facts)}
        others = sorted({*reached.topics} - named)
        if self._options.pattern is not None:
            for topic in others:
                self._miss(TopicGoneError(topic, self._options.pattern))
        elif others:
            raise CheckpointMismatchError(
                f"is of topic {', '.join(others)}, this query reads {', '.join(sorted(named))}",
                "Subscribe to the same topics, or begin with a new checkpoint",
            )
        new = sorted(named - {*reached.topics})
        if new and reached.topics and self._options.topics is not None:
            raise CheckpointMismatchError(
                f"knows no topic {', '.join(new)}, only {', '.join(sorted(reached.topics))}",
                "Subscribe to the same topics (subscribePattern may find new ones), or begin with "
                "a new checkpoint",
            )
        only = self._options.partitions
        read = {partition for it in reached.topics.values() for partition in it.offsets}
        if only is not None and read - only:
            raise CheckpointMismatchError(
                f"is of partitions {sorted(read)}, this query reads {sorted(only)}",
                "Read at least the same partitions, or begin with a new checkpoint",
            )
        for topic, it in reached.topics.items():
            asked = self._options.key_ranges
            if asked is not None and it.key_ranges != asked:
                raise CheckpointMismatchError(
                    f"splits partitions of {topic} into {it.key_ranges}, this query into {asked}",
                    f"Set keyRanges={it.key_ranges} or auto, or begin with a new checkpoint",
                )

    def _begins(
        self,
        before: StreamReached,
        facts: Mapping[str, TopicFacts],
        extents: Mapping[TopicPartition, Extent],
    ) -> dict[TopicPartition, int]:
        """Where a batch begins; at the first record of what was not there before."""
        others = {topic for topic, it in facts.items() if _is_another(before, it, topic)}
        for topic in sorted(others):
            partition, known = min(before.topics[topic].offsets.items(), default=(0, 0))
            self._miss(TopicMadeAgainError(topic, partition, known, known))
        found = {}
        for tp, extent in extents.items():
            known_at = before.offset(tp)
            if known_at is None or tp.topic in others:
                found[tp] = extent.begin
            elif not self._asked().holds(tp, known_at, extent):
                found[tp] = self._behind(tp, known_at, extent)
            else:
                found[tp] = known_at
        return found

    def _behind(self, tp: TopicPartition, known: int, extent: Extent) -> int:
        if known < extent.begin:
            first, last, goes_on = known, extent.begin - 1, extent.begin
        else:  # cut off; what was read is not read again
            first, last, goes_on = extent.end, known - 1, extent.end
        self._miss(OffsetsGoneError(tp.topic, tp.partition, first, last))
        return goes_on

    def _miss(self, loss: OffsetsGoneError | TopicGoneError) -> None:
        if self._options.fail_on_data_loss:
            raise loss
        extra = LogEvent.SPARK_DATA_LOST.extra(error=loss)
        log.warning("%s; it is false, and the query goes on", loss, extra=extra)

    def _most(self, limit: ReadLimit, pending: int) -> int | None:
        """How many records the next batch may have; 0: there is to be none yet; None: all."""
        if isinstance(limit, ReadAllAvailable):
            return None
        least = self._options.offsets_min
        waited_ms = 1_000 * (time.monotonic() - self._batch_s)
        # A query that reads up to the present ends never gets more records by waiting.
        if (
            least is not None
            and pending < least
            and waited_ms < self._options.delay_ms
            and self._target is None
        ):
            return 0
        return limit.max_rows if isinstance(limit, ReadMaxRows) else None

    # ---- on an executor ------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task.

        Raises:
            OffsetsGoneError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        return read_task(partition, self._options, self._columns)


def _is_another(reached: StreamReached, now: TopicFacts, topic: str) -> bool:
    """Whether a topic is not the one that was read, but was made again under its name."""
    known = reached.topics.get(topic)
    return known is not None and known.id != now.id.hex()
