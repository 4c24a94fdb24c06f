"""A topic read by Spark: our data source beside Spark's own Kafka connector.

`python -m benchmarks spark-read`. A million records of 100 bytes in three partitions; each system
counts them and sums up their lengths, on two cores (`local[2]`). Each is a process of its own: the
connector's jars exist for Spark 4.0, so it has an environment with that. Sessions are started and
warmed by one query before; timed is a query from its planning to its result. Systems take turns.

    connector          spark.read.format("kafka"), one task a partition
    connector-by-key   the same, repartition("key"), and a step in Python (mapInArrow)
    ours-1             one key range a partition
    ours-4             four, so 12 tasks, a key's records in one of them as after repartition("key")
    ours-4-step        and a step in Python
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.peers.environments import environment
from benchmarks.peers.errors import PeerMissingError
from benchmarks.rows import JsonRow
from benchmarks.topics import produced

RECORDS, KEYS = 1_000_000, 100_000
SPARK = "4.0.0"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}"
SYSTEMS = ("connector", "connector-by-key", "ours-1", "ours-4", "ours-4-step")
_JOB = Path(__file__).with_name("reading_job.py")
_WAIT_S = 300.0


def spark_read(bootstrap: str, runs: int) -> list[JsonRow]:
    """A row for each system."""
    topic = produced(bootstrap, RECORDS, KEYS, b"x" * 100)
    seconds: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        jobs = {}
        for system in SYSTEMS:
            try:
                jobs[system] = stack.enter_context(_job(system, bootstrap, topic))
            except PeerMissingError as error:
                missing[system] = str(error)
        for _ in range(runs):
            for system, job in jobs.items():
                seconds.setdefault(system, []).append(_one(job, system))
    return [
        {
            "case": "spark-read",
            "system": system,
            "runs": runs,
            "figures": _figures(seconds.get(system, []), missing.get(system, "")),
        }
        for system in SYSTEMS
    ]


def _figures(seconds: list[float], missing: str) -> dict[str, object]:
    if not seconds:
        return {"median_s": None, "fastest_s": None, "slowest_s": None, "missing": missing}
    return {
        "median_s": round(median(seconds), 2),
        "fastest_s": min(seconds),
        "slowest_s": max(seconds),
        "missing": "",
    }


@contextmanager
def _job(system: str, bootstrap: str, topic: str) -> Iterator[subprocess.Popen[str]]:
    """A session that waits for lines, and answers each with a query's result."""
    python = sys.executable
    if system.startswith("connector"):
        packages = (f"pyspark=={SPARK}", "pyarrow>=15,<22", "pandas<3", "numpy")
        python = str(environment(f"pyspark-{SPARK}", sys.executable, packages))
    words = [python, str(_JOB), system, bootstrap, topic, CONNECTOR]
    process = subprocess.Popen(  # noqa: S603 - the command is ours
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            _, told = process.communicate(timeout=_WAIT_S)
            raise PeerMissingError.from_output("its session does not start", told)
        yield process
    finally:
        process.kill()
        process.communicate()


def _one(job: subprocess.Popen[str], system: str) -> float:
    assert job.stdin is not None
    assert job.stdout is not None
    job.stdin.write("go\n")
    job.stdin.flush()
    answer = json.loads(job.stdout.readline())
    assert answer["records"] == RECORDS, f"{system} found {answer}"
    assert answer["bytes"] == 100 * RECORDS, f"{system} found {answer}"
    return round(float(answer["seconds"]), 2)
