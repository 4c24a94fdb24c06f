"""The data source's writers: a batch's rows travel to the driver, and are one transaction there.

In: rows in tasks, a batch's number on the driver. Out: the batch's records, once. Spark tells the
tasks of a data source neither the batch nor its number of parts. If tasks wrote parts, a batch that
comes again and is cut differently could not be recognised. But Spark promises one call for a batch,
on the driver, with the results of all tasks. This is for output that fits there
(`spark.driver.maxResultSize`); for more there is `kafka_writer(writers=8)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from coop_consumer.config.setting import shown
from coop_consumer.errors import BatchConflictError, ConfigError, MisuseError
from coop_consumer.plain_text import counted
from streams_adapter.sinks.columns import OutputRecord, check_columns, records_of, rows_of
from streams_adapter.sinks.protocol import Planner, Sink, write_part
from streams_adapter.sinks.writer import QUERY_ID, checked_sink
from streams_adapter.table_notes import without_notes

_CLIENT = "kafka."
_NUMBER = re.compile(r"[0-9]{1,18}")
_KNOWN = "Known are topic, name, firstBatch, and what begins with kafka."
_ELSEWHERE = {
    "includeheaders": "Leave it out: headers are written if there is a column headers",
    "subscribe": "To write, say topic; subscribe is an option of the source",
}
"""What Spark's Kafka sink and our source know."""
_STREAM, _BATCH = "writeStream", "write"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write, from Spark's options: `topic`, `name`, `firstBatch`, and `kafka.…`."""

    sink: Sink
    topic: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, away_s: float = 0.0) -> SinkOptions:
        """Read the options, their names in any case; asks the broker for `topic`.

        Args:
            options: As Spark has them.
            away_s: How long no broker may answer.

        Raises:
            ConfigError: For the first that is unknown or makes no sense.
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        given = {name.lower(): value for name, value in without_notes(options).items()}
        clients = {
            name.removeprefix(_CLIENT): given.pop(name)
            for name in list(given)
            if name.startswith(_CLIENT)
        }
        topic, name, first = (given.pop(option, None) for option in ("topic", "name", "firstbatch"))
        given.pop("checkpointlocation", None)  # Spark's own
        for other in given:
            raise ConfigError(other, "is no option of this sink", _ELSEWHERE.get(other, _KNOWN))
        if not name:
            raise ConfigError(
                "name", "is missing: the marks of what is written are named so", "Give one"
            )
        if first is not None and not _NUMBER.fullmatch(first):
            raise ConfigError("firstBatch", f"={shown(first)} is no batch number", "Give digits")
        sink = checked_sink(clients, topic, name, int(first or 0), "format()", away_s=away_s)
        return cls(sink, topic)


@dataclass(frozen=True, slots=True)
class Rows(WriterCommitMessage):
    """What a task made."""

    query: str
    records: tuple[OutputRecord, ...]


class StreamWriter(DataSourceStreamArrowWriter):
    """For `writeStream`: return it from `DataSource.streamWriter`.

    Args:
        options: Of the sink.
        schema: Of the rows.

    Raises:
        MisuseError: For columns that are none of a record's.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options.topic, _STREAM)
        self._options, self._names = options, schema.names

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Rows:
        """Make records; runs in a task."""
        return _rows(iterator, self._names, self._options.topic, _STREAM)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Write them, unless that is done; runs on the driver.

        Raises:
            BatchConflictError: The batch must not be written.
            CoopConsumerError: Kafka refuses; nothing is written.
        """
        found = [it for it in messages if isinstance(it, Rows)]
        if found:
            query = next((it.query for it in found if it.query), "")
            _publish(self._options.sink, query, batchId, found)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: nothing was written."""


class BatchWriter(DataSourceArrowWriter):
    """For `write`: return it from `DataSource.writer`. All of a job's rows, or none of them.

    Each job writes: two that are the same write twice.

    Args:
        options: Of the sink.
        schema: Of the rows.
        overwrite: Whether what is there should go: Kafka cannot do that.

    Raises:
        MisuseError: For columns that are none of a record's, and mode("overwrite").
    """

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise MisuseError(
                _BATCH, 'mode("overwrite") would delete what is there', 'Say mode("append")'
            )
        check_columns(schema, options.topic, _BATCH)
        self._options, self._names = options, schema.names
        self._job = f"job-{uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Rows:
        """Make records; runs in a task."""
        return _rows(iterator, self._names, self._options.topic, _BATCH)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write them; runs on the driver.

        Raises:
            CoopConsumerError: Kafka refuses; nothing is written.
        """
        _publish(self._options.sink, self._job, 0, [it for it in messages if isinstance(it, Rows)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: nothing was written."""


def _rows(
    batches: Iterator[pa.RecordBatch], names: Sequence[str], topic: str | None, call: str
) -> Rows:
    context = TaskContext.get()
    query = context.getLocalProperty(QUERY_ID) if context is not None else None
    return Rows(query or "", tuple(records_of(rows_of(batches), names, topic, call)))


def _publish(sink: Sink, query: str, batch: int, found: Sequence[Rows]) -> None:
    planner = Planner(sink)
    try:
        plan, _ = planner.plan(query, batch, 1)
        if plan.parts != 1:
            raise BatchConflictError(
                sink.name,
                batch,
                f"it was begun in {counted(plan.parts, 'part')}",
                f"Finish it with kafka_writer(writers={plan.parts})",
            )
        write_part(sink, plan, 0, (record for rows in found for record in rows.records))
    finally:
        planner.close()
