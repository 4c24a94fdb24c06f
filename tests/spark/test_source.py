"""The data source on real executors: every record once, each key in order, by more tasks than
partitions; streams that stop and go on; and what is refused."""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from streams_adapter import register
from streams_adapter.source.meeting import meeting_place
from tests.support.job import Job
from tests.support.journal import WAIT_S, lost, out_of_order, repeated
from tests.support.noting import NotingWriter, is_ours, jvm_of, noted
from tests.support.sinking import HeldSink
from tests.support.stock import eventually, keys_of
from tests.support.streaming import run_to_end

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(300)]

MakeJob = Callable[..., Job]
Place = tuple[int, int]


def options_of(job: Job, options: dict[str, object]) -> dict[str, str]:
    servers = str(job.client["bootstrap.servers"])
    said = {"kafka.bootstrap.servers": servers, "subscribe": job.topic, "keyRanges": 4, **options}
    return {name: str(value) for name, value in said.items() if value is not None}


def batch(spark: SparkSession, job: Job, **options: object) -> DataFrame:
    return spark.read.format("keyrange").options(**options_of(job, options)).load()


class Stream:
    """A query that collects its batches; started again, it goes on from its checkpoint.

    Attributes:
        batches: The rows of each.
        during: Is called within each batch, with its number.
    """

    def __init__(self, spark: SparkSession, job: Job, folder: Path, **options: object) -> None:
        self.batches: list[list[Row]] = []
        self.during: Callable[[int], object] = lambda _: None
        self._spark, self._job, self._folder = spark, job, folder
        self._options: dict[str, object] = {"startingOffsets": "earliest", **options}

    def run(self, **options: object) -> None:
        """Read what is there now."""
        run_to_end(self._once(options), 2 * WAIT_S)

    def start(self, **options: object) -> StreamingQuery:
        return self._once(options).start()

    def _once(self, options: dict[str, object]) -> DataStreamWriter:
        return self._writer(options).trigger(availableNow=True)

    @contextmanager
    def running(self, **options: object) -> Iterator[StreamingQuery]:
        """With the default trigger, for a block: a batch follows the other."""
        query = self._writer(options).start()
        try:
            yield query
        finally:
            query.stop()

    def _writer(self, options: dict[str, object]) -> DataStreamWriter:
        asked = options_of(self._job, {**self._options, **options})
        df = self._spark.readStream.format("keyrange").options(**asked).load()
        to_us = df.writeStream.foreachBatch(self._take)
        return to_us.option("checkpointLocation", str(self._folder))

    def _take(self, df: DataFrame, number: int) -> None:
        self.batches.append(df.collect())
        self.during(number)

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.batches for row in rows]


def places_of(rows: list[Row]) -> list[Place]:
    return [(row.partition, row.offset) for row in rows]


def assert_in_order(rows: list[Row]) -> None:
    """Within each task, and so within each key."""
    by_key: dict[bytes, list[Place]] = {}
    for row in rows:
        by_key.setdefault(bytes(row.key), []).append((row.partition, row.offset))
    assert all(one < other for places in by_key.values() for one, other in pairwise(places))


def test_a_topic_is_read_once_by_more_tasks_than_partitions(
    spark: SparkSession, job: MakeJob
) -> None:
    orders = job(3)
    written = orders.produce(keys_of(3_000, 300))
    df = batch(spark, orders)
    assert df.rdd.getNumPartitions() == 12
    rows = df.collect()
    assert sorted(places_of(rows)) == sorted(written)
    assert_in_order(rows)
    for row in rows:
        assert row.key_range.lo <= row.key_hash <= row.key_range.hi
        assert (row.topic, bytes(row.value), row.timestampType) == (orders.topic, b"value", 0)
    assert len({(row.partition, row.key_range) for row in rows}) == 12
    young = df.agg(fn.min("timestamp").alias("at")).collect()[0].at
    assert abs(young.timestamp() - rows[0].timestamp.timestamp()) < WAIT_S
    assert batch(spark, orders, keyRanges="auto").rdd.getNumPartitions() == 18  # 16 cores


@pytest.mark.parametrize("what", ["fetcher", "executor"])
def test_whoever_falls_while_tasks_share_a_fetch_every_record_comes_once(
    spark: SparkSession, job: MakeJob, what: str
) -> None:
    orders = job(2)
    written = orders.produce(keys_of(120_000, 500))
    df = batch(spark, orders, keyRanges=3).select("partition", "offset", "key")
    with ThreadPoolExecutor(1) as thread:
        rows = thread.submit(df.collect)
        while (fetcher := holder_of_a_lock()) is None:
            assert not rows.done(), "nobody was seen to fetch"
        os.kill(fetcher if what == "fetcher" else jvm_of(fetcher), signal.SIGKILL)
    assert sorted(places_of(rows.result())) == sorted(written)
    assert_in_order(rows.result())


def holder_of_a_lock() -> int | None:
    """A process of our session that fetches for those who share."""
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            path, pid = Path(os.readlink(descriptor)), int(descriptor.parts[2])
            if path.name == "lock" and meeting_place().name in path.parts and is_ours(pid):
                return pid
    return None


def test_nothing_is_left_of_a_shared_fetch_that_was_broken_off(
    spark: SparkSession, job: MakeJob
) -> None:
    orders = job(1)
    orders.produce(keys_of(30_000, 500))
    assert len(batch(spark, orders, keyRanges=8).select("value").take(5)) == 5

    def left() -> list[Path]:
        places = Path(spark.conf.get("spark.local.dir")).glob(f"**/{meeting_place().name}")
        return [path for place in places for path in place.rglob("*") if path.is_file()]

    eventually(lambda: not left())


def test_one_load_may_be_scanned_again_and_again_with_other_filters(
    spark: SparkSession, job: MakeJob
) -> None:
    orders = job(3)
    written = orders.produce(keys_of(300, 30))
    df, (key, other) = batch(spark, orders), (name.encode() for name in keys_of(2, 2))
    one, two = df.where(fn.col("key") == key), df.where(fn.col("key") == other)
    assert one.count() == 10
    assert df.count() == 300
    assert sorted(bytes(row.key) for row in one.union(two).collect()) == [key] * 10 + [other] * 10
    assert (two.count(), one.count(), df.count()) == (10, 10, 300)
    assert sorted(places_of(df.union(df).collect())) == sorted(2 * written)


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    register(spark, push_filters=True)
    yield
    register(spark)


@pytest.mark.usefixtures("pushing")
def test_filters_read_only_what_can_hold_it(spark: SparkSession, job: MakeJob) -> None:
    """Each `load()` is in one query only."""
    orders = job(3)
    orders.produce(keys_of(300, 30))
    key, other = (name.encode() for name in keys_of(2, 2))
    one = batch(spark, orders).where(fn.col("key") == key)
    assert one.rdd.getNumPartitions() == 3
    assert [bytes(row.key) for row in one.collect()] == [key] * 10
    assert batch(spark, orders).where(fn.col("key").isin(key, other)).count() == 20
    always = {"partitioner": "consistent", "partitionCounts": "[3]"}
    there = batch(spark, orders, **always).where(fn.col("key") == key)
    assert (there.rdd.getNumPartitions(), there.count()) == (1, 10)
    some = batch(spark, orders).where("partition = 1 and offset >= 5 and offset < 8")
    assert sorted(places_of(some.collect())) == [(1, 5), (1, 6), (1, 7)]
    assert some.rdd.getNumPartitions() == 4


@pytest.mark.usefixtures("pushing")
def test_a_time_reads_only_the_partitions_that_have_records_since(
    spark: SparkSession, job: MakeJob
) -> None:
    orders = job(2)
    then_ms = int(time.time() * 1_000)
    producer = Producer(orders.client)
    for offset in range(10):
        for partition, at_ms in enumerate((then_ms - 60_000, then_ms)):
            producer.produce(orders.topic, b"v", b"k", partition, timestamp=at_ms + offset)
    assert producer.flush(WAIT_S) == 0

    def found(condition: Callable[[Column, Column], Column]) -> tuple[int, list[Place]]:
        """How many tasks, and what they give."""
        df = batch(spark, orders)
        at = fn.timestamp_millis(fn.lit(then_ms + 5))
        some = df.where(condition(fn.col("timestamp"), at))
        return some.rdd.getNumPartitions(), sorted(places_of(some.collect()))

    since = [(1, offset) for offset in range(5, 10)]
    assert found(lambda it, at: it >= at) == (4, since)
    assert found(lambda it, at: it > at) == (4, since[1:])
    assert found(lambda it, at: it == at) == (4, since[:1])
    before = [(0, offset) for offset in range(10)] + [(1, offset) for offset in range(5)]
    assert found(lambda it, at: it < at) == (8, before), "an upper bound is no bound of offsets"
    later = fn.expr("INTERVAL 1 DAY")
    assert found(lambda it, at: it > at + later)[1] == []


def test_sessions_that_nobody_registered_it_in_know_the_format_by_sql_too(
    spark: SparkSession, job: MakeJob
) -> None:
    orders = job(1)
    orders.produce(keys_of(30, 3))
    other = spark.newSession()
    assert batch(other, orders).count() == 30
    said = ", ".join(f"`{name}` '{value}'" for name, value in options_of(orders, {}).items())
    other.sql(f"CREATE TEMPORARY VIEW a_view USING keyrange OPTIONS ({said})")
    found = other.sql("SELECT count(*) AS records, count(DISTINCT key) AS keys FROM a_view")
    assert tuple(found.collect()[0]) == (30, 3)
    columns = "(key BINARY, offset BIGINT)"
    other.sql(f"CREATE TABLE a_table {columns} USING keyrange OPTIONS ({said})")
    try:
        with pytest.raises(PySparkException, match=r"Spark 4\.3 keeps those of CREATE TABLE"):
            other.sql("SELECT * FROM a_table").collect()
        said = said.replace("` '", "` = '")
        found = other.sql(f"SELECT max(offset) AS last FROM a_table WITH ({said})")  # noqa: S608
        assert found.collect()[0].last == 29
    finally:
        other.sql("DROP TABLE a_table")


def test_keys_and_partitions_that_are_asked_for_are_all_that_is_read(
    spark: SparkSession, job: MakeJob
) -> None:
    orders = job(3)
    written = orders.produce(keys_of(300, 30))
    key, other = keys_of(2, 2)
    df = batch(spark, orders, keys=json.dumps([key, other]))
    assert df.rdd.getNumPartitions() == 6
    assert sorted(row.key.decode() for row in df.collect()) == [key] * 10 + [other] * 10
    assert df.where(fn.col("key") == key.encode()).count() == 10
    one = batch(spark, orders, partitions="[1]", keyRanges="auto")
    assert one.rdd.getNumPartitions() == 16
    assert sorted(places_of(one.collect())) == sorted(it for it in written if it[0] == 1)


def test_columns_and_offsets_as_asked(spark: SparkSession, job: MakeJob) -> None:
    orders = job(1)
    orders.produce(keys_of(50, 5))
    asked = options_of(
        orders,
        {
            "startingOffsets": f'{{"{orders.topic}": {{"0": 10}}}}',
            "endingOffsets": f'{{"{orders.topic}": {{"0": 20}}}}',
        },
    )
    reader = spark.read.format("keyrange").options(**asked).schema("offset long, key binary")
    rows = reader.load().collect()
    assert sorted(row.offset for row in rows) == [*range(10, 20)]
    assert rows[0].__fields__ == ["offset", "key"]


def test_headers_times_and_topics_by_pattern(spark: SparkSession, job: MakeJob) -> None:
    orders, returns = job(1), job(1)
    orders.produce(["a"])
    now_ms = int(time.time() * 1_000)
    producer = Producer(orders.client)
    headers: list[tuple[str, bytes | None]] = [("one", b"\x00\xff"), ("one", b""), ("two", None)]
    for number in range(3):
        at_ms = now_ms + (number + 1) * 60_000
        producer.produce(orders.topic, b"v", b"k", headers=headers, timestamp=at_ms)
    assert producer.flush(WAIT_S) == 0
    both: dict[str, object] = {
        "subscribe": None,
        "subscribePattern": f"{orders.topic}|{returns.topic}",
        "includeHeaders": "true",
        "startingTimestamp": now_ms + 120_000,
    }
    with pytest.raises(PySparkException, match=f"later than every record of {returns.topic}-0"):
        batch(spark, orders, **both).count()
    both["startingOffsetsByTimestampStrategy"] = "latest"
    rows = batch(spark, orders, **both).collect()
    assert [(row.topic, row.offset) for row in rows] == [(orders.topic, 2), (orders.topic, 3)]
    assert [(it.key, it.value) for it in rows[0].headers] == headers
    assert rows[0].timestamp.timestamp() == (now_ms + 120_000) / 1_000
    ending = batch(spark, orders, **both, endingTimestamp=now_ms + 180_000)
    assert [row.offset for row in ending.collect()] == [2]
    returns.produce(["b", "c"])
    del both["startingTimestamp"]
    rows = batch(spark, orders, **both).collect()
    assert sorted((row.topic, row.offset) for row in rows) == sorted(
        [(orders.topic, offset) for offset in range(4)] + [(returns.topic, 0), (returns.topic, 1)]
    )
    assert {row.headers is None for row in rows if row.offset < 1} == {True}


def test_a_stream_goes_on_where_it_stopped_and_keeps_order(
    spark: SparkSession, job: MakeJob, tmp_path: Path, admin: AdminClient
) -> None:
    orders = job(2)
    written = orders.produce(keys_of(600, 60))
    stream = Stream(spark, orders, tmp_path, maxOffsetsPerTrigger=250)
    stream.run()
    assert sorted(places_of(stream.rows)) == sorted(written)
    assert [len(rows) for rows in stream.batches] == [250, 250, 100]
    written += orders.produce(keys_of(100, 60))
    admin.create_partitions([NewPartitions(orders.topic, 3)])[orders.topic].result(WAIT_S)
    later = Job(orders.client, admin, orders.group, orders.topic, 3)
    written += later.produce(keys_of(50, 10), partition=2)
    stream.run(keyRanges="auto")
    assert sorted(places_of(stream.rows)) == sorted(written)
    assert_in_order([row for row in stream.rows if row.partition < 2])
    stream.run(keyRanges="auto")
    assert len(stream.rows) == len(written)


def test_a_batch_waits_for_enough_records_or_long_enough(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders = job(2)
    stream = Stream(spark, orders, tmp_path / "one", minOffsetsPerTrigger=50)
    orders.produce(keys_of(20, 10))
    with stream.running() as query:
        query.processAllAvailable()
        orders.produce(keys_of(20, 10))
        eventually(lambda: query.status["message"] == "Waiting for data to arrive")
        orders.produce(keys_of(40, 10))
        query.processAllAvailable()
    assert [len(rows) for rows in stream.batches] == [20, 60], "the first waits for nothing"
    hurried = Stream(spark, orders, tmp_path / "two", minOffsetsPerTrigger=500)
    with hurried.running(maxTriggerDelay="1ms") as query:
        query.processAllAvailable()
    assert [len(rows) for rows in hurried.batches] == [80]


def test_what_comes_while_all_that_is_available_is_read_waits_for_the_next_run(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders = job(2)
    there = orders.produce(keys_of(100, 10))
    stream = Stream(spark, orders, tmp_path, maxOffsetsPerTrigger=40)
    later: list[Place] = []
    stream.during = lambda number: later.extend(orders.produce(keys_of(10 * (number < 2), 10)))
    stream.run()
    assert sorted(places_of(stream.rows)) == sorted(there)
    assert [len(rows) for rows in stream.batches] == [40, 40, 20]
    stream.run()
    assert sorted(places_of(stream.rows)) == sorted(there + later)


def test_progress_tells_what_the_brokers_hold(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders = job(1)
    orders.produce(keys_of(30, 10))
    with Stream(spark, orders, tmp_path, maxOffsetsPerTrigger=20).running() as query:
        query.processAllAvailable()
        told = [it.sources[0] for it in query.recentProgress if it.numInputRows]

    def offset(said: str) -> int:
        return int(json.loads(said)["topics"][orders.topic]["offsets"]["0"])

    ends = [(offset(it.endOffset), offset(it.latestOffset)) for it in told]
    assert ends == [(20, 30), (30, 30)]


def test_a_key_is_done_in_one_batch_before_it_begins_in_the_next(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    """In time, as executors see it; and the split changes with a partition that is added."""
    orders = job(2)
    places = orders.produce(keys_of(600, 20))
    asked = options_of(orders, {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 150})
    asked["keyRanges"] = "auto"
    rows = spark.readStream.format("keyrange").options(**asked).load()
    query = (
        rows.writeStream.foreach(NotingWriter(tmp_path, 0.001))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        grown = [NewPartitions(orders.topic, 5)]
        orders.admin.create_partitions(grown)[orders.topic].result(WAIT_S)
        places += orders.produce(keys_of(600, 20), 0)
        query.processAllAvailable()
    finally:
        query.stop()
    found = noted(tmp_path)
    assert lost(found, set(places)) == set()
    assert repeated(found) == 0
    assert out_of_order(found) == []
    tasks = {batch: {row.member for row in found if row.run == batch} for batch in (0, 7)}
    assert len(tasks[0]) > len(tasks[7]) > 1, "partition 0 was split into fewer parts then"


def test_a_stream_adds_nothing_to_the_environment_that_streams_share(
    spark: SparkSession, job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that begin at once would break it: it is one map of Java's, without a lock."""
    monkeypatch.setattr("streams_adapter.format.KeyRangeSource", HeldSink)
    register(spark)

    def names() -> set[str]:
        formats = spark._jsparkSession.sessionState().dataSourceManager()
        return set(formats.lookupDataSource("held").dataSourceCls().envVars())

    before = names()
    orders = job()
    orders.produce(keys_of(10, 5))
    stream = spark.readStream.format("held").options(**options_of(orders, {})).load()
    to_nowhere = stream.writeStream.format("noop").trigger(availableNow=True)
    run_to_end(to_nowhere.option("checkpointLocation", str(tmp_path)), WAIT_S)
    assert names() == before
    assert "SPARK_LOCAL_DIRS" not in spark.sparkContext.environment


def test_a_stream_starts_from_its_group_and_tells_it_how_far_it_is(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders = job(2)
    orders.produce(keys_of(100, 10))
    Stream(spark, orders, tmp_path / "one", **{"group.id": orders.group}).run()
    orders.wait_for_lag(0)
    written = orders.produce(keys_of(40, 10))
    other = Stream(spark, orders, tmp_path / "two", startingOffsets=None)
    other.run(**{"group.id": orders.group})
    assert sorted(places_of(other.rows)) == sorted(written)
    orders.wait_for_lag(0)


def test_a_stream_tells_its_group_of_batches_that_are_done_while_nobody_is_there(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders = job(2)
    orders.produce(keys_of(100, 10))
    mirroring: dict[str, object] = {"group.id": orders.group, "maxOffsetsPerTrigger": 25}
    stream = Stream(spark, orders, tmp_path, **mirroring)
    told: list[int] = []

    def look(_: int) -> None:
        told.append(sum(offset for offset, _ in orders.committed().values()))

    stream.during = look
    stream.run()
    assert told == [0, 25, 50, 75], "never of the batch that runs"
    orders.produce(keys_of(50, 10))
    with orders.running() as pool:
        pool.wait_for_ranges()
        with pytest.raises(PySparkException, match="has 1 member "):
            stream.run()


def test_a_checkpoint_is_of_one_set_of_topics_and_one_split(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders, returns = job(1), job(1)
    orders.produce(keys_of(10, 5))
    stream = Stream(spark, orders, tmp_path)
    stream.run()
    orders.produce(keys_of(10, 5))
    with pytest.raises(PySparkException, match="into 4, this query into 8"):
        stream.run(keyRanges=8)
    with pytest.raises(PySparkException, match=f"is of topic {orders.topic}"):
        stream.run(subscribe=returns.topic)


def test_offsets_that_are_gone_end_a_query_or_are_left_out(
    spark: SparkSession, job: MakeJob, tmp_path: Path, admin: AdminClient
) -> None:
    orders = job(1)
    orders.produce(keys_of(100, 10))
    stream = Stream(spark, orders, tmp_path, maxOffsetsPerTrigger=20)
    stream.run()
    orders.produce(keys_of(100, 10))
    orders.delete_below(150)
    with pytest.raises(PySparkException, match=r"offsets \[100-149\]: not in the log"):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert sorted(row.offset for row in stream.rows[100:]) == [*range(150, 200)]
    orders.produce(keys_of(10, 10))
    orders.delete_below(210)
    stream.run(failOnDataLoss="false")  # a batch without records
    orders.produce(keys_of(10, 10))
    stream.run()
    assert sorted(row.offset for row in stream.rows[150:]) == [*range(210, 220)]
    with pytest.raises(PySparkException, match=r"offsets \[0-209\]: not in the log"):
        batch(spark, orders, startingOffsets=f'{{"{orders.topic}": {{"0": 0}}}}').count()


def test_a_first_batch_that_fell_begins_where_it_began(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    """Spark keeps where it ends, and asks anew where it begins."""
    orders = job(1)
    orders.produce(keys_of(100, 10))
    stream = Stream(spark, orders, tmp_path)
    stream.during = lambda _: 1 / 0
    with pytest.raises(PySparkException, match="division by zero"):
        stream.run()
    orders.produce(keys_of(50, 10))
    orders.delete_below(50)
    with pytest.raises(PySparkException, match=r"offsets \[0-49\]: not in the log"):
        stream.run()
    stream.during = lambda _: None
    stream.run(failOnDataLoss="false")
    assert [sorted(row.offset for row in rows) for rows in stream.batches[1:]] == [
        [*range(50, 100)],
        [*range(100, 150)],
    ]


def test_how_far_a_stream_has_come_can_be_moved_as_the_docs_say(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders = job(2)
    orders.produce(keys_of(100, 10))
    Stream(spark, orders, tmp_path / "one", maxOffsetsPerTrigger=60).run()
    told = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    [code] = re.findall(r"```python\n(import json\n.*?)```", told, re.DOTALL)
    (tmp_path / "code.py").write_text(code)
    reached = runpy.run_path(str(tmp_path / "code.py"))["reached"]
    later = orders.produce(keys_of(40, 10))
    moved = Stream(spark, orders, tmp_path / "two", startingOffsets=reached(str(tmp_path / "one")))
    moved.run()
    assert sorted(places_of(moved.rows)) == sorted(later)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"keyRange": "4"}, "keyrange is unknown.*keyRanges"),
        ({"subscribe": "no-such-topic"}, "topic no-such-topic: does not exist"),
        ({"subscribe": None, "subscribePattern": "no-such.*"}, "matches no topic"),
        ({"startingTimestamp": "4102444800000"}, "is later than every record"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "names other-0, which is not read"),
        ({"startingOffsets": "group"}, "=group needs a group"),
        ({"kafka.bootstrap.servers": "127.0.0.1:1"}, "no broker answered"),
    ],
)
def test_what_cannot_be_read_is_refused_before_any_task(
    spark: SparkSession, job: MakeJob, options: dict[str, object], text: str
) -> None:
    orders = job(1)
    orders.produce(["a"])
    with pytest.raises(PySparkException, match=f"(?s){text}"):
        batch(spark, orders, **options).count()
