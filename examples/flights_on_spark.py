"""A pipeline on Spark: a year of real flights through 12 tasks on 3 partitions, to a topic and SQL.

    make demo-spark
    python examples/flights_on_spark.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker; by default the script starts one, and ends it
--records N             how many flights, in time order; all 336,776 by default
--tasks N               members, each a Spark task; the cluster has a slot for each
--threads N             flights that a task handles at a time
--latency-ms MS         how long each flight sleeps, in place of a remote call

The script starts a standalone Spark cluster on this machine (a master and two workers). Then it
follows every aircraft from leg to leg, and finds the delays that the leg before has caused:

1. Workers, which Spark launches as tasks, keep state for each key, and write legs to a topic.
2. Spark reads that topic as a DataFrame, writes it as Parquet, and queries it in SQL.
3. Structured streaming does the same alone: flights as a stream, Spark's own state, Parquet.

Both results are compared with a computation in one thread. The last line is JSON. Needs Java 17
and: pip install '.[demo,spark,state]'.
"""

import argparse
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from coop_consumer import Context, Record, Worker
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.broker.java import REQUIRED_MAJOR, probe_version
from coop_consumer.broker.process import GuardedProcess
from coop_consumer.demo.aircraft import Leg, legs_in_one_thread, next_leg
from coop_consumer.demo.check import judge, read_legs
from coop_consumer.demo.flights import read_flights
from coop_consumer.demo.kafka import PARTITIONS, DemoBroker
from coop_consumer.demo.topics import FlightTopics, clients_of
from streams_adapter import launch_workers, register

HOST, CLUSTER_WORKERS = "127.0.0.1", 2
LOG_SHOWN = 2_000
LEG = (
    "partition int, offset long, row int, previous int, turnaround_min int, inherited boolean, "
    "landed int, late boolean"
)
LONGEST = """
WITH legs AS (
  SELECT *, row_number() OVER (PARTITION BY aircraft ORDER BY row)
          - row_number() OVER (PARTITION BY aircraft, inherited ORDER BY row) AS run
  FROM legs WHERE aircraft NOT LIKE 'flight %')
SELECT aircraft, count(*) AS delays_in_a_row FROM legs
WHERE inherited GROUP BY aircraft, run ORDER BY delays_in_a_row DESC, aircraft LIMIT 3
"""


class DelayChains(Worker):
    """Makes each flight's leg from the aircraft's last one, which is its state.

    Args:
        legs: The topic to write to.
        latency_s: How long each flight sleeps.
    """

    keyed_state = True

    def __init__(self, legs: str, latency_s: float) -> None:
        self.legs, self.latency_s = legs, latency_s
        self.outputs = (legs,)

    def setup(self, context: Context) -> None:
        """Called once, on the executor."""
        self.context, self.state = context, context.state

    def process(self, record: Record) -> None:
        """Send the leg, and put it into the state; both are in Kafka before the flight is done.

        No call here waits for a broker. After a crash the leg may be in its topic twice. It is
        never missing.
        """
        assert record.value is not None, "a flight has a value"
        time.sleep(self.latency_s)
        last = None
        if record.key is not None:
            changed_by = self.state.changed_by(record)
            if changed_by is not None and changed_by >= record.offset:
                return  # before a crash a later flight was handled, so this flight's leg is there
            state = self.state.get(record)
            last = None if state is None else Leg.decode(state)
        leg = next_leg(last, record.value, record.partition, record.offset)
        key, partition = leg.key(record.key), leg.partition
        self.context.send(record, self.legs, key, leg.encode(), partition=partition)
        if record.key is not None:
            self.state.put(record, leg.encode())


def follow(
    key: tuple[bytes | None], batches: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """The same for Spark's streaming: one aircraft's flights of a micro-batch, in any order."""
    flights = pd.concat(list(batches)).sort_values(["partition", "offset"])
    last = Leg.decode(bytes(state.get[0])) if state.exists else None
    legs = []
    for flight in flights.itertuples():
        leg = next_leg(last, flight.value, flight.partition, flight.offset)
        legs.append({"aircraft": leg.key(key[0]).decode(), **asdict(leg)})
        if key[0] is not None:  # without a key the aircraft is unknown, and has no leg before
            last = leg
    if last is not None:
        state.update((last.encode(),))
    yield pd.DataFrame(legs, dtype=object)


@contextmanager
def standalone_cluster(tasks: int) -> Iterator[str]:
    """Run Spark's own cluster manager, a master and workers, with so many slots; yields its URL."""
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    deploy = "org.apache.spark.deploy"
    with socket.create_server((HOST, 0)) as reserved:
        port = reserved.getsockname()[1]
    url = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="flights-on-spark-")))

        def start(name: str, *arguments: object) -> GuardedProcess:
            command = [program, f"{deploy}.{name}", "--host", HOST, "--webui-port", "0"]
            # It ends with this script, also by a kill -9.
            daemon = GuardedProcess.start([*map(str, [*command, *arguments])], folder / "log")
            stack.callback(daemon.wait)
            stack.callback(daemon.terminate)
            return daemon

        master = start("master.Master", "--port", port)
        wait_for(port, master, folder / "log")
        slots = -(-tasks // CLUSTER_WORKERS)
        for number in range(CLUSTER_WORKERS):
            work = folder / f"worker-{number}"
            start("worker.Worker", "--cores", slots, "--memory", "2g", "--work-dir", work, url)
        yield url


def wait_for(port: int, daemon: GuardedProcess, log: Path, timeout_s: float = 60.0) -> None:
    """Return when the daemon listens."""
    until_s = time.monotonic() + timeout_s
    with socket.socket() as probe:
        while probe.connect_ex((HOST, port)):
            code = daemon.exit_code()
            if code is not None or time.monotonic() > until_s:
                ended = "" if code is None else f", exit code {code}"
                said = log.read_text()[-LOG_SHOWN:]
                raise RuntimeError(f"nobody listens at {HOST}:{port}{ended}; its log ends:\n{said}")
            time.sleep(0.1)


def check_java() -> None:
    """See that Spark will find a Java: that of JAVA_HOME, or without it the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    major = None if java is None else probe_version(Path(java))
    if major is None or major < REQUIRED_MAJOR:
        found = f"{java} is {f'Java {major}' if major else 'none'}" if java else "there is none"
        sys.exit(
            f"Spark needs Java {REQUIRED_MAJOR} or newer, and {found}. Install one, and set "
            "JAVA_HOME to its folder."
        )


def open_session(url: str) -> SparkSession:
    """An application with all slots of the cluster."""
    spark = (
        SparkSession.builder.master(url)
        .appName("flights")
        .config("spark.driver.host", HOST)
        .config("spark.executor.memory", "1g")
        .config("spark.sql.shuffle.partitions", 4)  # fits a machine of two cores
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def chains_by_workers(
    spark: SparkSession, broker: DemoBroker, topics: FlightTopics, options: argparse.Namespace
) -> DataFrame:
    """Let the group catch up; returns what each task has done."""
    worker = DelayChains(topics.legs, options.latency_ms / 1000)
    # Many processes may share few cores here, and then a heartbeat waits for its turn.
    config = {**broker.clients, "group.id": topics.flights, "session.timeout.ms": 45_000}
    launch = launch_workers(
        spark,
        worker,
        config,
        [topics.flights],
        tasks=options.tasks,
        threads_per_task=options.threads,
        until="caught_up",
    )
    while not launch.wait(2):
        say(f"{sum(task.records for task in launch.progress()):,} flights handled")
    return launch.results()


def read_topic(spark: SparkSession, broker: DemoBroker, topic: str) -> DataFrame:
    """A topic as it is now."""
    return spark.read.format("keyrange").options(**source(broker, topic), keyRanges=4).load()


def source(broker: DemoBroker, topic: str) -> dict[str, str]:
    """Options of the data source."""
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}


def legs_of(topic: DataFrame) -> DataFrame:
    """Values as columns."""
    leg = fn.from_json(fn.col("value").cast("string"), LEG).alias("leg")
    return topic.select(fn.col("key").cast("string").alias("aircraft"), leg).select(
        "aircraft", "leg.*"
    )


def chains_by_streaming(
    spark: SparkSession, broker: DemoBroker, topic: str, records: int, folder: Path
) -> None:
    """Write legs as Parquet, in four micro-batches with a checkpoint."""
    flights = (
        spark.readStream.format("keyrange")
        .options(**source(broker, topic), startingOffsets="earliest")
        .option("maxOffsetsPerTrigger", -(-records // 4))
        .load()
        .select("key", "value", "partition", "offset")
    )
    legs = flights.groupBy("key").applyInPandasWithState(
        follow, f"aircraft string, {LEG}", "last binary", "append", GroupStateTimeout.NoTimeout
    )
    query = (
        legs.writeStream.format("parquet")
        .option("path", str(folder / "streamed"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def wrong_rows(legs: DataFrame, expected: Sequence[Leg]) -> int:
    """How many legs differ from the computation in one thread, are missing, or too many."""
    facts = ("row", "previous", "turnaround_min", "inherited", "landed", "late")
    found = [tuple(row) for row in legs.select(*facts).orderBy("row").collect()]
    wanted = [leg.facts() for leg in expected]
    wrong = sum(one != other for one, other in zip(found, wanted, strict=False))
    return wrong + abs(len(found) - len(wanted))


def seconds_of(topic: DataFrame) -> float:
    """Seconds from the first record of a topic to its last."""
    at = fn.col("timestamp").cast("double")
    [(first, last)] = topic.agg(fn.min(at), fn.max(at)).collect()
    return float(last - first)


def say(text: str) -> None:
    """Print for people, to stderr: stdout has the line of JSON."""
    print(text, file=sys.stderr, flush=True)


def run(options: argparse.Namespace, bootstrap: str, folder: Path) -> dict[str, Any]:
    """Run the whole pipeline; returns its figures."""
    broker = DemoBroker(bootstrap)
    name = f"flights-on-spark-{int(time.time())}"
    topics = FlightTopics(name, f"{name}.legs")
    flights = read_flights(options.records)
    expected = legs_in_one_thread(flights)
    broker.create_flights(topics.flights)
    broker.create_legs(topics.legs)
    broker.produce(topics.flights, flights)
    say(f"{len(flights):,} flights are in {topics.flights}, {PARTITIONS} partitions")

    with standalone_cluster(options.tasks) as url:
        spark = open_session(url)
        try:
            tasks = chains_by_workers(spark, broker, topics, options)
            tasks.select("task", "host", "records", "ranges", "seconds").show(99, truncate=60)
            written = read_topic(spark, broker, topics.legs)
            seconds = seconds_of(written.select("timestamp"))
            legs_of(written).write.parquet(str(folder / "legs"))
            legs = spark.read.parquet(str(folder / "legs"))
            legs.createOrReplaceTempView("legs")
            spark.sql("SELECT count(*), count_if(late), count_if(inherited) FROM legs").show()
            spark.sql(LONGEST).show()
            verdict = judge(read_legs(clients_of(bootstrap), topics.legs), expected)
            began = time.monotonic()
            chains_by_streaming(spark, broker, topics.flights, len(flights), folder)
            streamed = spark.read.parquet(str(folder / "streamed"))
            return {
                "records": len(flights),
                "tasks": options.tasks,
                "partitions": PARTITIONS,
                "ranges": sum(len(row.ranges) for row in tasks.collect()),
                "seconds": round(seconds, 1),
                "ideal": round(
                    len(flights) * options.latency_ms / 1000 / options.tasks / options.threads, 1
                ),
                "lost": verdict.lost,
                "out_of_order": verdict.out_of_order,
                "repeated": verdict.repeated,
                "wrong_in_parquet": wrong_rows(legs.dropDuplicates(["row"]), expected),
                "streaming_seconds": round(time.monotonic() - began, 1),
                "wrong_by_streaming": wrong_rows(streamed, expected),
            }
        finally:
            spark.stop()


def main() -> None:
    """Parse the options, start what is needed, print the result; exit code 1 if it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap")
    parser.add_argument("--records", type=int)
    parser.add_argument("--tasks", type=int, default=12)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--latency-ms", type=float, default=5.0)
    options = parser.parse_args()
    check_java()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="flights-on-spark-")))
        bootstrap = options.bootstrap or stack.enter_context(EmbeddedBroker()).bootstrap_servers
        result = run(options, bootstrap, folder)
    print(json.dumps(result))
    wrong = ("lost", "out_of_order", "wrong_in_parquet", "wrong_by_streaming")
    sys.exit(any(result[name] for name in wrong))


if __name__ == "__main__":
    main()
