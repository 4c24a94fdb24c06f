"""One system's session of `spark-work`: started, and then a run for each line that comes in.

In: the system, where the broker is, the topic.
Out: "ready", and a line of JSON a run. It runs in an environment that may have nothing but Spark.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from tempfile import mkdtemp
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

WORK_S = 0.002
TASKS, THREADS = 6, 4
RANGES = 8
MASTERS = {"connector": "local[3]", "source": "local-cluster[2,12,1024]"}
LAUNCHED = "local-cluster[2,3,1024]"


class Notes:
    """Where and when each record was at work: a file for each task, read by the driver."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, ...]] = []

    def work(self, partition: int, offset: int, key: bytes) -> None:
        """Be at a record for two milliseconds. Any thread."""
        began_s = time.time()
        time.sleep(WORK_S)
        number = int(key.removeprefix(b"key-"))
        self._rows.append((partition, offset, number, began_s, time.time()))

    def write(self, folder: str) -> None:
        """Leave them in a folder."""
        with Path(folder, uuid4().hex).open("wb") as file:
            array("d", chain.from_iterable(self._rows)).tofile(file)


def main() -> None:
    """Serve."""
    system, bootstrap, topic = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = (
        SparkSession.builder.master(MASTERS.get(system, LAUNCHED))
        .appName(system)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
    )
    spark = made.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print("ready", flush=True)
    for _ in sys.stdin:
        folder = mkdtemp(prefix="spark-work-")
        run = _launched if system == "launched" else _mapped
        run(spark, system, bootstrap, topic, folder)
        print(json.dumps(judged(Path(folder))), flush=True)


def _launched(spark: SparkSession, _: str, bootstrap: str, topic: str, folder: str) -> None:
    from coop_consumer import Record, Worker  # noqa: PLC0415 - only some environments have it
    from streams_adapter import launch_workers  # noqa: PLC0415

    class Sleeper(Worker):
        def setup(self, _: object) -> None:
            self.notes = Notes()

        def process(self, record: Record) -> None:
            assert record.key is not None
            self.notes.work(record.partition, record.offset, record.key)

        def teardown(self) -> None:
            self.notes.write(folder)

    config = {
        "bootstrap.servers": bootstrap,
        "group.id": uuid4().hex,
        "on.failure": "stop",  # what fails here is a defect of ours
    }
    launch_workers(
        spark, Sleeper, config, [topic], tasks=TASKS, threads_per_task=THREADS, until="caught_up"
    ).wait()


def _mapped(spark: SparkSession, system: str, bootstrap: str, topic: str, folder: str) -> None:
    asked = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    if system == "connector":
        asked |= {"startingOffsets": "earliest", "endingOffsets": "latest"}
        records = spark.read.format("kafka").options(**asked).load()
    else:
        from streams_adapter import register  # noqa: PLC0415 - only some environments have it

        register(spark)
        records = spark.read.format("keyrange").options(keyRanges=RANGES, **asked).load()

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        notes, count = Notes(), 0
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("partition", "offset", "key"))
            for place in zip(*columns, strict=True):
                notes.work(*place)
            count += batch.num_rows
        notes.write(folder)
        yield pa.RecordBatch.from_pydict({"records": [count]})

    records.select("partition", "offset", "key").mapInArrow(step, "records long").collect()


def judged(folder: Path) -> dict[str, float]:
    """How long it took, from the first record's beginning on; and whether keys were in order."""
    rows: list[tuple[float, ...]] = []
    for path in folder.iterdir():
        notes = array("d", path.read_bytes())
        rows += zip(*(notes[column::5] for column in range(5)), strict=True)
        path.unlink()
    folder.rmdir()
    rows.sort()
    last: dict[float, float] = {}
    out_of_order = 0
    for _, _, key, began_s, ended_s in rows:
        out_of_order += began_s < last.get(key, 0.0)
        last[key] = ended_s
    return {
        "seconds": max(row[4] for row in rows) - min(row[3] for row in rows),
        "records": len({row[:2] for row in rows}),
        "repeated": len(rows) - len({row[:2] for row in rows}),
        "out_of_order": out_of_order,
    }


if __name__ == "__main__":
    main()
