"""The tasks of a scan: which partition, which of its key ranges, which offsets; and what they read.

In: offsets to read of each partition, what the query wants of them. Out: one `ScanTask` a key
range, ordered so that the first tasks to run are of different partitions; on an executor, record
batches.
"""

from __future__ import annotations

import logging
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from assignors import WHOLE, KeyRange, TopicPartition
from assignors.key_hash import key_hash
from coop_consumer.core.placement import PARTITIONERS
from coop_consumer.errors import DataLossError
from coop_consumer.kafka.slice_reader import read_slice
from offsets import OffsetRange
from streams_adapter.source.errors import OffsetsGoneError
from streams_adapter.source.options import KEY_RANGES_MAX, SourceOptions
from streams_adapter.source.pushdown import Wanted
from streams_adapter.source.rows import Columns
from streams_adapter.source.share import SharedFetch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScanTask(InputPartition):
    """One task's part of a scan.

    Attributes:
        scan: Names the scan; its tasks on one executor find each other by it.
        tp: The partition.
        offsets: What to read of it.
        key_ranges: All key ranges of the partition that this scan reads, ascending.
        number: Which of them is this task's.
        keys: If given, only records with these keys are wanted.
    """

    scan: str
    tp: TopicPartition
    offsets: OffsetRange
    key_ranges: tuple[KeyRange, ...]
    number: int
    keys: frozenset[bytes] | None = field(default=None, repr=False)


def ranges_for(cores: int, partitions: int) -> int:
    """Into how many key ranges each partition is split, so that all cores have a task.

    >>> ranges_for(16, 3), ranges_for(2, 6)
    (6, 1)
    """
    return min(max(1, -(-cores // max(1, partitions))), KEY_RANGES_MAX)


def tasks_of(
    wanted_offsets: Mapping[TopicPartition, tuple[int, int]],
    key_ranges: Mapping[str, int],
    partitions: Mapping[str, int],
    options: SourceOptions,
    wanted: Wanted,
) -> list[ScanTask]:
    """All tasks of a scan; none for what nothing can be wanted of.

    Args:
        wanted_offsets: For each partition the first offset, and the one behind the last.
        key_ranges: Into how many each partition of a topic is split.
        partitions: How many a topic has.
        options: Tell how producers choose partitions.
        wanted: What the query's filters leave.
    """
    scan = secrets.token_hex(8)
    found = []
    for tp, (begin, end) in wanted_offsets.items():
        first, last = max(begin, wanted.first), min(end - 1, wanted.last)
        ranges = WHOLE.parts(key_ranges[tp.topic])
        keys = wanted.keys
        if keys is not None:
            keys = _keys_of(tp, keys, partitions[tp.topic], options.partitioner)
            los = [it.lo for it in ranges]
            numbers = sorted({bisect_right(los, key_hash(key)) - 1 for key in keys})
            ranges = tuple(ranges[number] for number in numbers)
        if wanted.partitions is not None and tp.partition not in wanted.partitions:
            continue
        if first <= last:
            offsets = OffsetRange(first, last)
            found += [ScanTask(scan, tp, offsets, ranges, i, keys) for i in range(len(ranges))]
    return sorted(found, key=lambda task: (task.number, task.tp))


def _keys_of(
    tp: TopicPartition, keys: frozenset[bytes], partitions: int, partitioner: str | None
) -> frozenset[bytes]:
    """Those that can lie in this partition."""
    if partitioner is None:
        return keys
    choose = PARTITIONERS[partitioner]
    return frozenset(key for key in keys if choose(key, partitions) == tp.partition)


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
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    if not isinstance(task, ScanTask):
        return iter(())
    made = Columns(columns, task.tp, task.key_ranges, task.keys)

    def alone(offsets: OffsetRange) -> Iterator[pa.RecordBatch]:
        for messages, _ in _read(options, task.tp, offsets, lambda: False):
            if messages:
                yield made.of(messages, task.number)

    if len(task.key_ranges) == 1:
        found = alone(task.offsets)
    else:
        found = SharedFetch(
            (task.scan, str(task.tp)),
            task.offsets,
            task.number,
            fetch=lambda offsets, is_over: _read(options, task.tp, offsets, is_over),
            split=made.split,
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
            for messages, reached in read_slice(options.config, tp, left, is_over=is_over):
                next_offset = reached
                yield messages, reached
            if is_over():
                return
        except DataLossError as error:
            gone = OffsetsGoneError(tp.topic, tp.partition, error.first, error.last)
            if options.fail_on_data_loss:
                raise gone from error
            log.warning("%s; it is false, and the query goes on behind them", gone)
            next_offset = error.last + 1
            yield [], next_offset
