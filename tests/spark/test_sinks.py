"""Sinks on real executors and a real broker: once, whatever falls; topics cleaned of repeats."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from coop_consumer.config import Config
from coop_consumer.errors import (
    BatchConflictError,
    MisuseError,
    PublisherFencedError,
    TopicMissingError,
)
from coop_consumer.kafka.publish import marks_of
from streams_adapter.sinks import cleaner, cleanup, kafka_writer
from streams_adapter.sinks.marks import BatchPlan
from streams_adapter.sinks.protocol import Sink as SinkOfTasks
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S
from tests.support.readable import is_readable
from tests.support.stock import produce, records_of
from tests.support.streaming import run_to_end

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
WRITTEN_MS = int(time.time() * 1000)
"""The records' time. Not any number: retention takes what is older than a week, now and then."""
Read = Callable[..., list[Message]]
Sink = Callable[[DataFrame, int], None]


@pytest.fixture
def config(bootstrap: str) -> dict[str, object]:
    return {"bootstrap.servers": bootstrap}


@pytest.fixture
def read(bootstrap: str) -> Read:
    """What readers of transactions see of a topic."""

    def messages(topic: str, partitions: int = 1) -> list[Message]:
        settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
        return [it for number in range(partitions) for it in records_of(settings, topic, number)]

    return messages


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Values "0" to count - 1, ten keys."""
    number = sql.col("id").cast("string")
    return spark.range(0, count, 1, 2).select(
        number.alias("value"), (sql.col("id") % 10).cast("string").alias("key")
    )


def values_of(messages: list[Message]) -> list[int]:
    return sorted(int(it.value() or b"-1") for it in messages)


# -- what is written


def test_all_columns_arrive(
    spark: SparkSession, config: dict[str, object], topic: MakeTopic, group_id: str, read: Read
) -> None:
    first, second = topic(3), topic()
    columns = "topic string, partition int, key string, value string"
    batch = spark.createDataFrame(
        [(first, 2, "k", "é", [("h", b"\x01")]), (second, None, None, None, None)],
        f"{columns}, headers array<struct<key:string,value:binary>>",
    ).coalesce(1)
    kafka_writer(config, name=group_id)(batch, 0)
    [one] = read(first, 3)
    [two] = read(second)
    assert (one.partition(), one.key(), one.value()) == (2, b"k", "é".encode())
    assert one.headers() == [("h", b"\x01")]
    assert (two.key(), two.value(), two.headers()) == (None, None, None)


def test_records_lie_where_java_s_producers_put_their_keys(
    spark: SparkSession, config: dict[str, object], topic: MakeTopic, group_id: str, read: Read
) -> None:
    name = topic(3)
    batch = spark.createDataFrame([("N14228", "a")], "key string, value string").coalesce(1)
    kafka_writer(config, name, name=group_id)(batch, 0)
    assert [it.partition() for it in read(name, 3)] == [2]


def test_rows_of_a_topic_that_takes_small_batches_are_written_whatever_else_they_name(
    spark: SparkSession, config: dict[str, object], topic: MakeTopic, group_id: str, read: Read
) -> None:
    """librdkafka gathers up to 1 MB of small records, and all were refused together."""
    small, large = topic(config={"max.message.bytes": "2000"}), topic()
    value = sql.concat(sql.lit("x" * 500), sql.col("id").cast("string"))
    names = sql.when(sql.col("id") % 2 == 0, small).otherwise(large)
    batch = spark.range(40).select(value.alias("value"), names.alias("topic"))
    kafka_writer(config, name=group_id)(batch, 0)
    assert (len(read(small)), len(read(large))) == (20, 20)


def test_what_cannot_be_written_is_refused_before_anything_runs(
    spark: SparkSession, config: dict[str, object], topic: MakeTopic, group_id: str, read: Read
) -> None:
    name = topic()
    with pytest.raises(MisuseError, match="column id is none"):
        kafka_writer(config, name, name=group_id)(spark.range(3), 0)
    options = {"kafka.bootstrap.servers": str(config["bootstrap.servers"]), "name": group_id}
    sink = rows(spark, 3).write.format("keyrange").options(**options)
    with pytest.raises(PySparkException, match="neither a topic is named"):
        sink.mode("append").save()
    with pytest.raises(TopicMissingError, match=r"nowhere: .* Nothing is written"):
        kafka_writer(config, "nowhere", name=group_id)
    assert read(name) == []


def test_a_batch_job_writes_all_its_rows(
    spark: SparkSession, config: dict[str, object], topic: MakeTopic, group_id: str, read: Read
) -> None:
    name = topic(2)
    options = {"kafka.bootstrap.servers": str(config["bootstrap.servers"]), "name": group_id}
    sink = rows(spark, 100).write.format("keyrange").options(**options).option("topic", name)
    for times in (1, 2):  # two jobs are not one batch
        sink.mode("append").save()
        assert Counter(values_of(read(name, 2))) == dict.fromkeys(range(100), times)


# -- batches that come again


@pytest.fixture(params=[1, 3])
def writers(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def sinks(bootstrap: str, group_id: str, writers: int) -> Callable[[str], Sink]:
    """Makes one that writes to a topic, of one name."""
    config = {"bootstrap.servers": bootstrap}
    return lambda topic: kafka_writer(config, topic, name=group_id, writers=writers)


def test_a_batch_that_comes_again_is_not_written_again(
    spark: SparkSession, sinks: Callable[[str], Sink], topic: MakeTopic, read: Read
) -> None:
    name = topic(2)

    def sink() -> Sink:
        return sinks(name)

    former = sink()
    former(rows(spark, 100), 0)
    sink()(rows(spark, 100).repartition(3), 0)  # as a driver does that was started anew
    assert values_of(read(name, 2)) == list(range(100))
    sink()(rows(spark, 100), 1)
    with pytest.raises(BatchConflictError, match="batch 1 is written already"):
        sink()(rows(spark, 100), 0)
    with pytest.raises(PublisherFencedError, match="another writer of this name took over"):
        former(rows(spark, 100), 2)
    assert Counter(values_of(read(name, 2))) == dict.fromkeys(range(100), 2)


def with_bad_row(batch: DataFrame) -> DataFrame:
    """The writer of one of its parts cannot write one of its rows."""
    return batch.withColumn("partition", sql.expr("if(value = '57', -1, null)"))


def test_a_batch_begun_in_parts_is_finished_in_the_same_parts(
    spark: SparkSession, config: dict[str, object], topic: MakeTopic, group_id: str, read: Read
) -> None:
    name = topic(2)

    def write(batch: DataFrame, writers: int) -> None:
        kafka_writer(config, name, name=group_id, writers=writers)(batch, 0)

    with pytest.raises(PySparkException, match="a row has partition -1"):
        write(with_bad_row(rows(spark, 100)), 3)
    some = values_of(read(name, 2))
    assert 0 < len(some) < 100
    changed = rows(spark, 100).withColumn("value", sql.expr("concat('1', value)"))
    with pytest.raises(BatchConflictError, match="Make the query deterministic"):
        write(changed, 3)
    assert values_of(read(name, 2)) == some, "nothing is written of what does not fit"
    write(rows(spark, 100).repartition(3), 1)
    assert values_of(read(name, 2)) == list(range(100))


class Gate:
    """Where a query of the driver that is to be killed tells, and waits for leave."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path
        self._reached, self._left = -1, -1  # batches
        for name in ("told", "leave"):
            os.mkfifo(path / name)
        self._told, self._leave = (
            os.open(path / name, os.O_RDWR | os.O_NONBLOCK) for name in ("told", "leave")
        )

    def wait(self, driver: subprocess.Popen[bytes]) -> int:
        """For a batch to be written; its number. One that had leave has it again."""
        for _ in range(int(3 * WAIT_S)):
            if is_readable(self._told, 1.0):
                self._reached = int(os.read(self._told, 100))
                if self._reached != self._left:
                    return self._reached
                self.let_go()  # its query ended before it was committed, and began again
            assert driver.poll() is None, "the driver has ended"
        raise TimeoutError("no batch was written")

    def let_go(self) -> None:
        """Let Spark commit it."""
        self._left = self._reached
        os.write(self._leave, b"\n")

    @property
    def committed(self) -> set[str]:
        """The batches that Spark knows to be written."""
        return {it.name for it in (self.path / "checkpoint/commits").glob("[0-9]*")}

    def close(self) -> None:
        for descriptor in (self._told, self._leave):
            os.close(descriptor)


@contextmanager
def driver(order: dict[str, object]) -> Iterator[subprocess.Popen[bytes]]:
    """A Spark application of its own; it is killed at the end, with its JVM."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.sinking", json.dumps(order)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)


def planned(bootstrap: str, name: str) -> BatchPlan:
    """What a sink has planned last."""
    config = Config.from_dict({"bootstrap.servers": bootstrap, "group.id": name})
    place = SinkOfTasks(config, name).place
    return BatchPlan.parse(marks_of(config, name, [place])[place][1])


def test_a_driver_killed_between_write_and_commit_repeats_nothing(
    bootstrap: str, topic: MakeTopic, read: Read, tmp_path: Path
) -> None:
    source = topic()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(120):
        producer.produce(source, b"%d" % number, b"%d" % (number % 10))
    assert producer.flush(WAIT_S) == 0
    gates = {topic(2): Gate(tmp_path / way) for way in ("function", "format")}
    order: dict[str, object] = {
        "bootstrap": bootstrap,
        "source": source,
        "gates": {name: str(gate.path) for name, gate in gates.items()},
        "writers": 2,
        "shuffle": "3",
    }
    with driver(order) as first:
        for gate in gates.values():
            assert gate.wait(first) == 0
            gate.let_go()
        for gate in gates.values():
            assert gate.wait(first) == 1
    for name, gate in gates.items():
        assert gate.committed == {"0"}, "Spark knows nothing of batch 1"
        assert len(values_of(read(name, 2))) == 80, "which is written"
        metadata = json.loads((gate.path / "checkpoint/metadata").read_text())
        assert planned(bootstrap, name).query == metadata["id"], "the checkpoint's, not the run's"
    with driver({**order, "writers": 1, "shuffle": "2"}) as second:
        for batch in (1, 2):
            for gate in gates.values():
                assert gate.wait(second) == batch
                gate.let_go()
        assert second.wait(2 * WAIT_S) == 0
    for name, gate in gates.items():
        assert gate.committed == {"0", "1", "2"}
        assert values_of(read(name, 2)) == list(range(120))
        gate.close()


# -- cleaning


def write_outputs(
    bootstrap: str, topic: str, outputs: list[tuple[int, int, int]], value: bytes = b"v"
) -> None:
    """Records that say what they came of: (partition to lie in, source partition and offset)."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for partition, source, offset in outputs:
        headers: list[tuple[str, str | bytes | None]] = [
            ("source.partition", str(source).encode()),
            ("source.offset", str(offset).encode()),
        ]
        key = f"{source}-{offset % 7}".encode()
        producer.produce(
            topic, value, key, partition, timestamp=WRITTEN_MS + offset, headers=headers
        )
    assert producer.flush(WAIT_S) == 0


def origins(messages: list[Message]) -> list[tuple[int | None, int, int]]:
    found = []
    for message in messages:
        named = dict(message.headers() or ())  # type: ignore[arg-type]
        found.append(
            (
                message.partition(),
                int(named["source.partition"]),
                int(named["source.offset"]),
            )
        )
    return found


def test_a_cleaned_topic_has_each_output_once_and_in_order(
    spark: SparkSession, bootstrap: str, config: dict[str, object], topic: MakeTopic, read: Read
) -> None:
    source, target = topic(2), topic(2)
    clean = [(number, number, offset) for number in range(2) for offset in range(50)]
    write_outputs(bootstrap, source, [*clean[:30], *clean[20:70], *clean[:5]])
    [one, two] = cleanup(spark, config, source, target)
    assert (one.read, one.copied, one.repeats) == (65, 50, 15)
    assert (two.read, two.copied, two.repeats) == (20, 20, 0)
    write_outputs(bootstrap, source, [*clean[60:], *clean[:1]])
    cleaner(config, source, target)(spark.range(1), 3)
    [one, two] = cleanup(spark, config, source, target)
    assert (one.read, two.read) == (0, 0), "it goes on where it stopped"
    copies = read(target, 2)
    assert origins(copies) == clean
    assert [it.timestamp()[1] for it in copies] == [WRITTEN_MS + offset for _, _, offset in clean]
    assert copies[9].key() == b"0-2"
    assert copies[9].value() == b"v"


def test_a_stream_of_any_rows_has_a_topic_cleaned(
    spark: SparkSession, config: dict[str, object], topic: MakeTopic, read: Read, tmp_path: Path
) -> None:
    source, target, bootstrap = topic(), topic(), str(config["bootstrap.servers"])
    clean = [(0, 0, offset) for offset in range(40)]
    asked = {"kafka.bootstrap.servers": bootstrap, "subscribe": source}
    stream = spark.readStream.format("keyrange").options(**asked, startingOffsets="earliest").load()
    query = stream.writeStream.foreachBatch(cleaner(config, source, target))
    ready = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    for outputs in (clean[:30], clean[20:]):
        write_outputs(bootstrap, source, outputs)
        run_to_end(ready, WAIT_S)
    assert origins(read(target)) == clean
    [found] = cleanup(spark, config, source, target)
    assert found.read == 0, "the streams have been there"


def test_a_cleaning_whose_places_are_forgotten_copies_nothing_again(
    spark: SparkSession, bootstrap: str, config: dict[str, object], topic: MakeTopic, read: Read
) -> None:
    source, target = topic(), topic()
    clean = [(0, 0, offset) for offset in range(40)]
    write_outputs(bootstrap, source, [*clean[:20], *clean[:30]])
    cleanup(spark, config, source, target, name=f"{target}-1")
    write_outputs(bootstrap, source, clean)
    [found] = cleanup(spark, config, source, target, name=f"{target}-2")
    assert (found.read, found.copied) == (90, 10)
    assert origins(read(target)) == clean


def test_a_cleaning_that_cannot_be_right_is_refused(
    spark: SparkSession, bootstrap: str, config: dict[str, object], topic: MakeTopic, read: Read
) -> None:
    source, target = topic(2), topic(2)
    with pytest.raises(MisuseError, match="is source and target"):
        cleanup(spark, config, source, source)
    with pytest.raises(MisuseError, match="with 2 partitions"):
        cleanup(spark, config, source, topic())
    with pytest.raises(MisuseError, match="is compacted"):
        cleanup(spark, config, source, topic(2, config={"cleanup.policy": "compact"}))
    produce({"bootstrap.servers": bootstrap}, source, ["a"], 1)
    with pytest.raises(PySparkException, match=f"{source}-1 offset 0 has not the headers"):
        cleanup(spark, config, source, target)
    cleanup(spark, config, source, target, unidentified="copy")
    assert [it.key() for it in read(target, 2)] == [b"a"]
