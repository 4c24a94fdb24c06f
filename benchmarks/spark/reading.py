"""A topic read by Spark: our data source beside Spark's own Kafka connector.

`python -m benchmarks spark-read`. A million records of 100 bytes in three partitions; each system
counts them and sums up their lengths, on two cores (`local[2]`). Each is a process of its own: the
connector's jars exist for Spark 4.0, so it has an environment with that. Sessions are started and
warmed by one query before; timed is a query from its planning to its result. Beside it stands the
CPU time of the session, JVM and Pythons, without the broker. Systems take turns. Spark ends Pythons
that are idle for a minute: where a turn of all takes longer, CPU time has their start in it.

    connector          spark.read.format("kafka"), one task a partition
    connector-by-key   the same, repartition("key"), and a step in Python (mapInArrow)
    ours-1             one key range a partition
    ours-4             four, so 12 tasks, a key's records in one of them as after repartition("key")
    ours-4-step        and a step in Python
"""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.bench import Broker
from benchmarks.rows import JsonRow
from benchmarks.spark.jobs import in_turns
from benchmarks.topics import produced

RECORDS, KEYS = 1_000_000, 100_000
OURS = ("ours-1", "ours-4", "ours-4-step")
SYSTEMS = ("connector", "connector-by-key", *OURS)


def spark_read(broker: Broker, runs: int) -> list[JsonRow]:
    """A row for each system."""
    topic = produced(broker.bootstrap, RECORDS, KEYS, b"x" * 100)
    answers, missing = in_turns("reading_job.py", SYSTEMS, broker.bootstrap, topic, runs)
    return [
        {
            "case": "spark-read",
            "system": system,
            "runs": runs,
            "figures": _figures(system, found, missing.get(system, "")),
        }
        for system, found in answers.items()
    ]


def _figures(system: str, found: list[dict[str, Any]], missing: str) -> dict[str, object]:
    for answer in found:
        assert answer["records"] == RECORDS, f"{system} found {answer}"
        assert answer["bytes"] == 100 * RECORDS, f"{system} found {answer}"
    if not found:
        return {
            "median_s": None,
            "fastest_s": None,
            "slowest_s": None,
            "cpu_s": None,
            "missing": missing,
        }
    seconds = [float(answer["seconds"]) for answer in found]
    return {
        "median_s": round(median(seconds), 2),
        "fastest_s": round(min(seconds), 2),
        "slowest_s": round(max(seconds), 2),
        "cpu_s": round(median(float(answer["cpu_s"]) for answer in found), 2),
        "missing": "",
    }
