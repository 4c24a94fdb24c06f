"""The format `keyrange`: it joins the two wings, `source` that reads and `sinks` that write.

In: Spark's options, and a schema if the user has one. Out: the reader or writer that Spark asks
for. Options of a reader are checked when Spark asks for the schema, which is when `load()` is
called.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from coop_consumer.kafka.patience import AWAY_S
from streams_adapter.cluster import check_executors, check_server, is_connect
from streams_adapter.slots import SlotsAddress, slots_address
from streams_adapter.source.batch import BatchReader, FilteredBatchReader
from streams_adapter.source.options import SourceOptions
from streams_adapter.source.rows import SCHEMA, WITH_HEADERS, check_columns
from streams_adapter.source.stream import StreamReader

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_KEEPS_FILTERS = "setReadInfo"
"""A method of what all scans of a `load()` share, in a Spark that plans each of them by the filters
of the last one."""

_WRITTEN_LATER = (
    "SPARK_LOCAL_DIRS",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_PYTHON_RUNTIME",
)
"""What Spark writes into a format's environment when a streaming query begins."""


class KeyRangeSource(DataSource):
    """Kafka, by key ranges."""

    slots: int | SlotsAddress = os.cpu_count() or 1
    """How many tasks run at once; `register` has the driver asked, when a scan is planned."""
    push_filters = False
    """Whether Spark's filters narrow what a batch reads; `register` decides."""

    @classmethod
    def name(cls) -> str:
        """Of the format."""
        return "keyrange"

    def schema(self) -> StructType:
        """That of Spark's Kafka source, `key_hash` and `key_range`."""
        return WITH_HEADERS if SourceOptions.parse(self.options).with_headers else SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """For a batch; reads only the columns of `schema`."""
        made = FilteredBatchReader if self.push_filters else BatchReader
        return made(self._checked(schema), schema, self.slots)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For a stream; reads only the columns of `schema`."""
        return StreamReader(self._checked(schema), schema, self.slots)

    def _checked(self, schema: StructType) -> SourceOptions:
        options = SourceOptions.parse(self.options)
        check_columns(schema, with_headers=options.with_headers)
        # Spark sends this object along with every task from now on, and never asks it again.
        self.options = {k: v for k, v in self.options.items() if k.lower() != "keys"}
        return options

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For a batch: all of its rows, or none."""
        from streams_adapter.sinks import driver  # noqa: PLC0415 - whoever reads need not load it

        options = driver.SinkOptions.parse(self.options)
        return driver.BatchWriter(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        """For a stream: each micro-batch once. Spark asks anew for each: the query runs already."""
        from streams_adapter.sinks import driver  # noqa: PLC0415 - as above

        options = driver.SinkOptions.parse(self.options, away_s=AWAY_S)
        return driver.StreamWriter(options, schema)


def register(spark: SparkSession, *, push_filters: bool | None = None) -> None:
    """Make `format("keyrange")` known to a session.

    Executors run the driver's Python unless `PYSPARK_PYTHON` names another one, and
    `keyRanges=auto` goes by the tasks that this session can run at once.

    Args:
        spark: The session.
        push_filters: Whether filters on key, partition, offset and timestamp narrow what a batch
            reads. None: where that is safe. Spark up to 4.3 plans all scans of one `load()` by the
            filters of the last, so that others miss rows: it is not safe there. True: always. On
            such a Spark each `load()` must then be in one scan of one query: no second action, no
            union or join with itself. The options `keys` and `partitions` are safe everywhere.

    A session of Spark Connect may register it, too: the server's Python has to have this library.
    `keyRanges=auto` goes by the cores of the server's host then, and None pushes no filters.

    Raises:
        MisuseError: Executors lack this library.
    """
    if is_connect(spark):
        check_server(spark, "register()")
        if push_filters:
            spark.conf.set(_PUSHDOWN, "true")
        said: dict[str, object] = {"push_filters": bool(push_filters)}
        spark.dataSource.register(type("KeyRangeSource", (KeyRangeSource,), said))
        return
    context = spark.sparkContext
    check_executors(context, "register()")
    if push_filters is None:
        push_filters = _keeps_scans_apart(spark)
    if push_filters:
        spark.conf.set(_PUSHDOWN, "true")
    said = {"slots": slots_address(context), "push_filters": push_filters}
    source = type("KeyRangeSource", (KeyRangeSource,), said)
    with _named(context.environment, _WRITTEN_LATER):
        spark.dataSource.register(source)


def _keeps_scans_apart(spark: SparkSession) -> bool:
    """Whether each scan of a `load()` has what was planned by its own filters."""
    jvm: Any = spark._jvm
    try:
        provider = jvm.org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2()
    except TypeError:  # a Spark that has no such class: nobody here has seen it
        return False
    return _KEEPS_FILTERS not in dir(provider)


@contextmanager
def _named(environment: dict[str, str], names: Iterable[str]) -> Iterator[None]:
    """Add these names to a format's environment for the block; Spark writes their values.

    All queries of a format share one environment, a Java HashMap. If two queries that begin at once
    both add the names, the map counts an entry that it does not have, and no task that is sent with
    it can be read (OptionalDataException). If the names are there already, only their values are
    replaced.
    """
    added = [name for name in names if name not in environment]
    environment.update(dict.fromkeys(added, ""))
    try:
        yield
    finally:
        for name in added:
            del environment[name]
