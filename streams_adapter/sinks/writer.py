"""The sink for `foreachBatch`: a dataframe's rows in Kafka, each batch once.

In: a batch and its number. Out: its records, written by `writers` tasks, each in one transaction;
`protocol` says what holds when. Rows are cut into parts by their key, not by Spark's partitions. So
a batch that comes again is cut as before, also after other shuffles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from coop_consumer.config import Config, Settings, sendable
from coop_consumer.config.patterns import KAFKA_NAME
from coop_consumer.config.setting import shown
from coop_consumer.errors import ConfigError, MisuseError
from coop_consumer.kafka.own_topics import for_batches_of, for_batches_of_any
from coop_consumer.kafka.patience import patiently
from coop_consumer.kafka.topics import Topics
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.log_format import json_if_asked
from coop_consumer.plain_text import counted
from streams_adapter.cluster import check_connect, use_own_python
from streams_adapter.sinks.columns import OutputRecord, check_columns, records_of
from streams_adapter.sinks.marks import BatchPlan, Written, check_same
from streams_adapter.sinks.protocol import Planner, Sink, sum_up, write_part, written_parts

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, Row

log = logging.getLogger(__name__)

WRITERS_MAX = 1_000
QUERY_ID = "sql.streaming.queryId"
"""A task's, and a stream's thread's, local property: the query's id, kept in its checkpoint."""

_CALL = "kafka_writer()"
_ON_CONNECT = (
    'Write with writeStream.format("keyrange"), whose rows travel by way of the driver, or use a '
    "classic session"
)


def kafka_writer(
    config: Settings | Mapping[str, object],
    topic: str | None = None,
    *,
    name: str,
    writers: int = 1,
    first_batch: int = 0,
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that writes each batch to Kafka exactly once.

    Columns as in Spark's Kafka sink: `value` (string or binary; null is a tombstone), and if they
    are there `key`, `topic`, `partition` (int; null: by the key, as Java's producers choose it),
    `headers` (array<struct<key:string,value:binary>>). Consumers have to read committed.

    Args:
        config: One dict of dotted names; no group is needed.
        topic: Where all rows go; None: the column `topic` says.
        name: Of the sink; its marks and transactions are named so. One for each query, and for
            each of several sinks in a query; it must be no consumer group's.
        writers: Tasks that write a batch. With 1 the batch is one transaction, seen as a whole or
            not at all, and it may come again changed. With more, readers see it come in parts, and
            it has to come again with the same rows; if it does not, it is refused.
        first_batch: The first that the sink sees, where a query has run without it before.

    Raises:
        ConfigError: For a bad setting.
        MisuseError: For a name or number that cannot be.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: `topic` cannot be used.

    The function raises `MisuseError` for columns that are none of a record's, `BatchConflictError`
    for a batch that could come to be doubled or lost, and what Spark makes of errors of its tasks.

    Example::

        write = kafka_writer({"bootstrap.servers": "b:9092"}, "totals", name="totals-of-orders")
        totals.writeStream.foreachBatch(write).option("checkpointLocation", path).start()
    """
    if type(writers) is not int or not 1 <= writers <= WRITERS_MAX:
        raise MisuseError(
            _CALL, f"writers={shown(writers)}", f"Choose a whole number from 1 to {WRITERS_MAX}"
        )
    sink = checked_sink(config, topic, name, first_batch, _CALL)
    planner = Planner(sink)

    def write(batch: DataFrame, batch_id: int) -> None:
        check_connect(
            batch.sparkSession, _CALL, "RDDs, by which parts of a batch are written", _ON_CONNECT
        )
        check_columns(batch.schema, topic, _CALL)
        context = batch.sparkSession.sparkContext
        use_own_python(context)
        query = context.getLocalProperty(QUERY_ID) or ""
        plan, is_begun = planner.plan(query, batch_id, writers)
        # Not mapInArrow, which wants pandas to be installed.
        parts, read = _cut(batch, plan.parts).rdd, partial(records_of, names=batch.columns)
        records = partial(read, topic=topic, call=_CALL)
        if is_begun and plan.parts > 1 and _is_whole(sink, plan, parts, records):
            return

        def task(part: int, rows: Iterable[Row]) -> Iterator[tuple[Written, bool]]:
            json_if_asked()
            yield write_part(sink, plan, part, records(rows))

        found = parts.mapPartitionsWithIndex(task).collect()
        log.info(
            "sink %s, batch %d: %s, %d of %s written before",
            name,
            batch_id,
            counted(sum(written.rows for written, _ in found), "row"),
            sum(skipped for _, skipped in found),
            counted(plan.parts, "part"),
            extra=LogEvent.SINK_BATCH_WRITTEN.extra(),
        )

    return write


def checked_sink(
    config: Settings | Mapping[str, object],
    topic: str | None,
    name: str,
    first_batch: int,
    call: str,
    *,
    away_s: float = 0.0,
) -> Sink:
    """A sink, of arguments that can be; `away_s`: how long no broker may answer.

    Raises:
        ConfigError, MisuseError, TopicMissingError, AuthorizationError, BrokerUnreachableError:
            They cannot.
    """
    _check_name(call, name)
    if type(first_batch) is not int or first_batch < 0:
        raise MisuseError(
            call, f"first_batch={shown(first_batch)}", "Choose a whole number from 0 on"
        )
    if config.get("group.id", name) != name:
        raise ConfigError(
            "group.id", "is the sink's name: its marks are offsets of that group", "Leave it out"
        )
    parsed = Config.from_dict({**config, "group.id": name}, both_clients=False)
    if topic is not None:
        _check_topic(call, topic)
        parsed.refuse_output(topic)
        topics = Topics(parsed)
        what = f"sink {name}: topic {topic}"
        parsed = patiently(lambda: _looked_at(parsed, topics, topic), what, away_s=away_s)
    else:
        parsed = for_batches_of_any(parsed)
    return Sink(parsed, name, first_batch, rows_name_topics=topic is None)


def _check_name(call: str, name: object) -> None:
    if not isinstance(name, str):
        raise MisuseError(call, f"name is {shown(name)}", "Give the sink a name that stays")
    if not name.strip():
        raise MisuseError(call, "name is empty", "Give the sink a name that stays")


def _check_topic(call: str, topic: object) -> None:
    if not isinstance(topic, str) or not sendable(topic):
        raise MisuseError(
            call, f"no topic can be called {shown(topic)}", f"A name has {KAFKA_NAME.words}"
        )


def _looked_at(config: Config, topics: Topics, topic: str) -> Config:
    topics.describe([topic], verb="written")
    return for_batches_of(config, topics, topic)


def _cut(batch: DataFrame, parts: int) -> DataFrame:
    """By key: Spark's hash is the same everywhere, and no optimizer changes a number it is given.

    Rows of a key that one task made stay in their order.
    """
    if parts == 1:
        return batch.repartition(1)
    by = [batch[name].cast("binary") for name in ("key", "value") if name in batch.columns]
    return batch.repartition(parts, sql.coalesce(*by))


def _is_whole(
    sink: Sink,
    plan: BatchPlan,
    parts: RDD[Row],
    records: Callable[[Iterable[Row]], Iterator[OutputRecord]],
) -> bool:
    """Whether a batch that has come again is written; before anything of it is written.

    Raises:
        BatchConflictError: It is not what it was.
    """

    def task(part: int, rows: Iterable[Row]) -> Iterator[tuple[int, Written]]:
        yield part, sum_up(plan, records(rows))

    before = written_parts(sink, plan)
    again = dict(parts.mapPartitionsWithIndex(task).collect()) if before else {}
    nothing = Written(plan.query, plan.batch, 0, 0)
    for part, was in before.items():
        check_same(sink.name, part, was, again.get(part, nothing))
    return len(before) == plan.parts
