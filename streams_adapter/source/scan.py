"""The tasks of a scan: which partition, which of its key ranges, which offsets; and what they read.

In: offsets to read of each partition, what the query wants of them. Out: one `ScanTask` a key
range, ordered so that the first tasks to run are of different partitions; on an executor, record
batches.
"""

from __future__ import annotations

import logging
import secrets
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from assignors import WHOLE, KeyRange, TopicPartition
from assignors.key_hash import key_hash
from coop_consumer.core.placement import PARTITIONERS
from coop_consumer.errors import DataLossError, TopicMissingError
from coop_consumer.kafka.fetcher import bytes_of
from coop_consumer.kafka.patience import AWAY_S
from coop_consumer.kafka.slice_reader import read_slice
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.log_format import json_if_asked
from offsets import OffsetRange
from streams_adapter.source.errors import OffsetsGoneError
from streams_adapter.source.options import KEY_RANGES_MAX, SourceOptions
from streams_adapter.source.pushdown import Wanted
from streams_adapter.source.rows import Columns
from streams_adapter.source.share import SharedFetch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScanTask(InputPartition):
    """One task's part of a scan. It is small: a scan may have a hundred thousand of them.

    Attributes:
        scan: Names the scan; its tasks on one executor find each other by it.
        tp: The partition.
        offsets: What to read of it.
        parts: Into how many key ranges the partition is cut.
        asked: Which of the parts this scan reads: the bit of each is set.
        number: Which of those that are read is this task's, from 0.
        keys: If given, only records with these keys are wanted; all of them lie in its range.
    """

    scan: str
    tp: TopicPartition
    offsets: OffsetRange
    parts: int
    asked: int = field(repr=False)
    number: int
    keys: frozenset[bytes] | None = field(default=None, repr=False)

    @property
    def key_ranges(self) -> tuple[KeyRange, ...]:
        """All key ranges of the partition that this scan reads, ascending. O(parts)."""
        parts = WHOLE.parts(self.parts)
        return tuple(it for number, it in enumerate(parts) if self.asked >> number & 1)


def ranges_for(slots: int | Callable[[], int], partitions: int) -> int:
    """Into how many key ranges each partition is split, so that all slots have a task.

    >>> ranges_for(16, 3), ranges_for(lambda: 2, 6)
    (6, 1)
    """
    count = slots() if callable(slots) else slots
    return min(max(1, -(-count // max(1, partitions))), KEY_RANGES_MAX)


def tasks_of(
    wanted_offsets: Mapping[TopicPartition, tuple[int, int]],
    key_ranges: Mapping[str, int],
    partitions: Mapping[str, int],
    options: SourceOptions,
    wanted: Wanted,
) -> list[ScanTask]:
    """All tasks of a scan; none for partitions and ranges without a wanted record.

    Args:
        wanted_offsets: For each partition the first offset, and the one behind the last.
        key_ranges: Into how many each partition of a topic is split.
        partitions: How many a topic has, seen no earlier than the last offsets.
        options: Tell how producers choose partitions.
        wanted: What the query's filters leave.
    """
    scan = secrets.token_hex(8)
    found = []
    lookups: dict[tuple[int, int], _Lookup] = {}
    for tp, (begin, end) in wanted_offsets.items():
        first, last = max(begin, wanted.first), min(end - 1, wanted.last)
        if wanted.partitions is not None and tp.partition not in wanted.partitions:
            continue
        if first > last:
            continue
        parts, offsets = key_ranges[tp.topic], OffsetRange(first, last)
        if wanted.keys is None:
            asked = (1 << parts) - 1
            found += [ScanTask(scan, tp, offsets, parts, asked, i) for i in range(parts)]
            continue
        of_topic = (parts, partitions[tp.topic])
        if of_topic not in lookups:
            lookups[of_topic] = _lookup(wanted.keys, *of_topic, options)
        mine = sorted(lookups[of_topic].get(tp.partition, {}).items())
        asked = sum(1 << part for part, _ in mine)
        found += [
            ScanTask(scan, tp, offsets, parts, asked, i, keys) for i, (_, keys) in enumerate(mine)
        ]
    return sorted(found, key=lambda task: (task.number, task.tp))


_Lookup: TypeAlias = Mapping[int, Mapping[int, frozenset[bytes]]]
"""By partition and key range: the keys whose records can lie there."""


def _lookup(keys: frozenset[bytes], parts: int, partitions: int, options: SourceOptions) -> _Lookup:
    """Where keys can lie. O(keys), times the counts of partitions if the partitioner is known."""
    los = [it.lo for it in WHOLE.parts(parts)]
    found: defaultdict[int, defaultdict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    counts = _counts_had(partitions, options.partition_counts)
    for key in keys:
        part = bisect_right(los, key_hash(key)) - 1
        if options.partitioner is None:
            found[0][part].append(key)
            continue
        place = PARTITIONERS[options.partitioner](key, _HASHES)
        for partition in {place % count for count in counts}:
            found[partition][part].append(key)
    frozen = {
        partition: {part: frozenset(some) for part, some in by_part.items()}
        for partition, by_part in found.items()
    }
    if options.partitioner is None:
        return dict.fromkeys(range(partitions), frozen.get(0, {}))
    return frozen


_HASHES = 1 << 32
"""Partitioners take the rest of a hash of 32 bits: of so many partitions it is the hash itself."""


def _counts_had(now: int, said: frozenset[int]) -> frozenset[int]:
    """How many partitions a topic may have had when a record was written.

    Kafka does not remember the counts, and a record stays where the count of its time put it. A
    topic only grows. Above the counts that the user has listed any count up to today's is possible.
    A list with larger counts, and without today's, is of another topic.

    >>> [sorted(_counts_had(now, frozenset({3, 6}))) for now in (3, 6, 8, 4)]
    [[3], [3, 6], [3, 6, 7, 8], [1, 2, 3, 4]]
    >>> sorted(_counts_had(3, frozenset()))
    [1, 2, 3]
    """
    listed = {count for count in said if count <= now}
    if now not in listed and listed != said:
        listed = set()
    return frozenset(listed | {*range(max(listed, default=0) + 1, now + 1)})


def read_task(
    task: InputPartition, options: SourceOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The records of a task, ascending by offset.

    Args:
        task: As planned. Where none was, Spark makes one of its own: that has none.
        options: What is read.
        columns: Which columns, in which order.

    Raises:
        OffsetsGoneError: Some are gone, and the query is to fail then.
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    if not isinstance(task, ScanTask):
        return iter(())
    json_if_asked()
    made = Columns(columns, task.tp, task.key_ranges, task.keys)
    # The fetching task knows its own keys only, so each task takes its keys out of its files.
    shared = Columns(made.with_key, task.tp, task.key_ranges)

    def alone(offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        for messages, _ in _read(options, task.tp, offsets, lambda: False):
            if messages:
                yield made.of(messages, task.number)

    if task.asked.bit_count() == 1:
        found = alone(task.offsets)
    else:
        found = SharedFetch(
            (task.scan, str(task.tp)),
            task.offsets,
            task.number,
            fetch=lambda offsets, is_over: _read(options, task.tp, offsets, is_over),
            split=shared.split,
            own=made.own,
            bytes_of=bytes_of,
            alone=alone,
        ).batches()
    return (batch for batch in found if batch.num_rows)


def _read(
    options: SourceOptions, tp: TopicPartition, offsets: OffsetRange, is_over: Callable[[], bool]
) -> Iterator[tuple[list[Any], int]]:
    """The slice, without what is gone, if the user says so."""
    next_offset = offsets.first
    while next_offset <= offsets.last:
        try:
            left = OffsetRange(next_offset, offsets.last)
            for messages, reached in read_slice(
                options.config, tp, left, is_over=is_over, patience_s=AWAY_S
            ):
                next_offset = reached
                yield messages, reached
            if is_over():
                return
        except DataLossError as error:
            gone = OffsetsGoneError(tp.topic, tp.partition, error.first, error.last)
            if options.fail_on_data_loss:
                raise gone from error
            extra = LogEvent.SPARK_DATA_LOST.extra(tp=tp, offset=error.first, error=gone)
            log.warning("%s; it is false, and the query goes on behind them", gone, extra=extra)
            next_offset = error.last + 1
            yield [], next_offset
        except TopicMissingError as error:  # deleted since the query was planned
            gone = OffsetsGoneError(tp.topic, tp.partition, next_offset, offsets.last)
            if options.fail_on_data_loss:
                raise gone from error
            extra = LogEvent.SPARK_DATA_LOST.extra(tp=tp, offset=next_offset, error=gone)
            log.warning("%s; it is false, and the query goes on without them", gone, extra=extra)
            next_offset = offsets.last + 1
            yield [], next_offset
