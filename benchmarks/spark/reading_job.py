"""One system's session: started, warmed, and then a query for each line that comes in.

In: the system, where the broker is, the topic. Out: "ready", and a
line of JSON a query. It runs in an environment that may have nothing but Spark.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

STEPPED = "records long, bytes long"


def main() -> None:
    """Serve."""
    system, bootstrap, topic = sys.argv[1:]
    is_ours = system.startswith("ours")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = (
        SparkSession.builder.master("local[2]")
        .appName(system)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "12")
    )
    spark = made.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if is_ours:
        from streams_adapter import register  # noqa: PLC0415 - only some environments have it

        register(spark)
    _measured(spark, system, bootstrap, topic)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(_measured(spark, system, bootstrap, topic)), flush=True)


def _measured(spark: SparkSession, system: str, bootstrap: str, topic: str) -> dict[str, float]:
    began_s = time.perf_counter()
    [row] = _query(spark, system, bootstrap, topic).collect()
    seconds = time.perf_counter() - began_s
    return {"seconds": seconds, "records": row["records"], "bytes": row["bytes"]}


def _query(spark: SparkSession, system: str, bootstrap: str, topic: str) -> DataFrame:
    asked = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    if not system.startswith("ours"):
        asked |= {"startingOffsets": "earliest", "endingOffsets": "latest"}
        records = spark.read.format("kafka").options(**asked).load()
        if system == "connector":
            return _summed(records)
        return _stepped(records.select("key", "value").repartition("key"))
    ranges = system.split("-")[1]
    # Spark asks its own connector for the columns of a query alone; ours is told them by a schema.
    source = spark.read.format("keyrange").options(keyRanges=ranges, **asked)
    if system.endswith("-step"):
        return _stepped(source.schema("key binary, value binary").load())
    return _summed(source.schema("value binary").load())


def _summed(records: DataFrame) -> DataFrame:
    return records.agg(fn.count("*").alias("records"), fn.sum(fn.length("value")).alias("bytes"))


def _stepped(records: DataFrame) -> DataFrame:
    found = records.mapInArrow(_step, STEPPED)
    return found.agg(fn.sum("records").alias("records"), fn.sum("bytes").alias("bytes"))


def _step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        size = sum(map(len, batch.column("value").to_pylist()))
        yield pa.RecordBatch.from_pydict({"records": [batch.num_rows], "bytes": [size]})


if __name__ == "__main__":
    main()
