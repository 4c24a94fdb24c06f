"""The batch reader: `spark.read.format("keyrange")`.

In: options, the columns that are asked for, filters. Out: tasks, planned once; and their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from assignors import TopicPartition
from coop_consumer.errors import ConfigError
from streams_adapter.source.options import SourceOptions
from streams_adapter.source.places import Places, read_of
from streams_adapter.source.pushdown import Wanted
from streams_adapter.source.scan import ranges_for, read_task, tasks_of


class BatchReader(DataSourceReader):
    """Reads from a start to an end, both fixed when the query is planned.

    Spark plans a `load()` once, at its first action (with filters: at each query that has some).
    All of its later actions read up to the same end; only a new `load()` sees newer records.

    Args:
        options: What to read.
        schema: The columns.
        slots: How many tasks the cluster runs at once, for `keyRanges=auto`; or who knows.
    """

    def __init__(
        self, options: SourceOptions, schema: StructType, slots: int | Callable[[], int]
    ) -> None:
        self._options, self._columns, self._slots = options, schema.fieldNames(), slots
        self._wanted = Wanted(keys=options.keys)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks have keys of their own."""
        return {**self.__dict__, "_options": replace(self._options, keys=None), "_wanted": Wanted()}

    def partitions(self) -> list[InputPartition]:
        """The tasks.

        Raises:
            ConfigError, OffsetsGoneError, TopicMissingError: As they say.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        options, places = self._options, Places(self._options)
        facts = places.topics()
        if not facts:
            raise ConfigError(
                "subscribePattern", f"={options.pattern} matches no topic", "Correct it"
            )
        extents = places.extents(read_of(facts, options))
        starts = places.starts(extents, "earliest")
        ends = places.ends(extents)
        _check_order(options, starts, ends)
        if self._wanted.since_ms is not None:
            for tp, at in places.since(self._wanted.since_ms, extents).items():
                starts[tp] = max(starts[tp], ends[tp] if at is None else at)
        if self._wanted.keys is not None and options.partitioner is not None:
            facts = places.topics()  # seen after the ends: keys of a larger topic are among them
        ranges = options.key_ranges or ranges_for(self._slots, len(extents))
        return [
            *tasks_of(
                {tp: (starts[tp], ends[tp]) for tp in extents},
                dict.fromkeys(facts, ranges),
                {topic: it.partitions for topic, it in facts.items()},
                options,
                self._wanted,
            )
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. On an executor.

        Raises:
            OffsetsGoneError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        return read_task(partition, self._options, self._columns)


class FilteredBatchReader(BatchReader):
    """Reads less where a query's filters allow it.

    Spark refuses a reader that could, in a session that does not push filters.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow what is read; Spark asks all of the filters again."""
        self._wanted = self._wanted.narrowed(filters)
        return filters


def _check_order(
    options: SourceOptions, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> None:
    """A start that the user has named lies before the end; where a group is, nobody has named."""
    if options.starting in (None, "group"):
        return
    for tp, start in starts.items():
        if start > ends[tp]:
            raise ConfigError(
                "startingOffsets",
                f"begins at {start} in {tp}, endingOffsets ends at {ends[tp]}, before that",
                "Choose a start that is not behind the end",
            )
