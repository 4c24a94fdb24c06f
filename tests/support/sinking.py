"""A driver to be killed, and a sink that waits for it.

As a program the module is the driver: `python -m tests.support.sinking <JSON>` runs two streaming
queries of one topic into a topic each, one by `foreachBatch` and one by a data source. When a sink
has written a batch, it reports the batch, and waits before Spark commits it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from streams_adapter import KeyRangeSource, kafka_writer, register
from streams_adapter.sinks import SinkOptions, StreamWriter
from tests.support import jvm
from tests.support.streaming import was_too_slow


class HeldWriter(StreamWriter):
    """Reports that a batch is written, and waits until it may return."""

    def __init__(self, options: SinkOptions, schema: StructType, gate: Path) -> None:
        super().__init__(options, schema)
        self._gate = gate

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        hold(self._gate, batchId)


class HeldSink(KeyRangeSource):
    """The format "held"."""

    @classmethod
    def name(cls) -> str:
        return "held"

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceStreamWriter:
        options = dict(self.options)
        gate = Path(options.pop("gate"))
        return HeldWriter(SinkOptions.parse(options), schema, gate)


def hold(gate: Path, batch: int) -> None:
    """Report through one named pipe, and wait at another; the test has both open."""
    with (gate / "told").open("w") as told:
        told.write(f"{batch}\n")
    with (gate / "leave").open() as leave:
        leave.readline()


def records(spark: SparkSession, order: dict[str, Any]) -> DataFrame:
    """A stream of the source's records, 40 a batch."""
    options = {"kafka.bootstrap.servers": order["bootstrap"], "subscribe": order["source"]}
    stream = spark.readStream.format("keyrange").options(**options, startingOffsets="earliest")
    return stream.options(keyRanges=2, maxOffsetsPerTrigger=40).load().select("key", "value")


def main(order: dict[str, Any]) -> None:
    """Run the queries until they have taken all records that there are.

    Args:
        order: `bootstrap`, `source`, `shuffle`, `writers`, and by name of each sink, which is its
            topic's, the path of its `gate`, where its checkpoint is, too.
    """
    spark = (
        SparkSession.builder.master("local[2]")
        .config(map=jvm.SETTINGS)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.python.worker.faulthandler.enabled", "true")  # tells where one dies
        .config("spark.sql.shuffle.partitions", order["shuffle"])
        .getOrCreate()
    )
    register(spark)
    spark.dataSource.register(HeldSink)
    by_function, by_format = order["gates"].items()

    def stream(gate: str) -> DataStreamWriter:
        return (
            records(spark, order)
            .writeStream.option("checkpointLocation", f"{gate}/checkpoint")
            .trigger(availableNow=True)
        )

    name, gate = by_function
    config = {"bootstrap.servers": order["bootstrap"]}
    write = kafka_writer(config, name, name=name, writers=order["writers"])
    first = stream(gate).foreachBatch(held(write, Path(gate)))
    name, gate = by_format
    options = {"kafka.bootstrap.servers": order["bootstrap"], "topic": name, "name": name}
    second = stream(gate).format("held").options(**options, gate=gate)
    running = {first.start(): first, second.start(): second}
    while running:
        with suppress(StreamingQueryException):
            spark.streams.awaitAnyTermination()
        spark.streams.resetTerminated()
        for query in [it for it in running if not it.isActive]:
            writer, failure = running.pop(query), query.exception()
            if failure is None:
                continue
            if not was_too_slow(failure):
                raise failure
            running[writer.start()] = writer


def held(write: Callable[[DataFrame, int], None], gate: Path) -> Callable[[DataFrame, int], None]:
    """The same sink, which waits after each batch."""

    def write_and_hold(batch: DataFrame, batch_id: int) -> None:
        write(batch, batch_id)
        hold(gate, batch_id)

    return write_and_hold


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
