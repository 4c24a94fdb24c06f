"""Two milliseconds of work a record on Spark: many tasks a partition beside one.

`python -m benchmarks spark-work`. 480,000 records, 80,000 keys, three partitions; each system is a
process of its own, with executors for as many tasks as it uses. Timed is from the beginning of the
first record's work to the end of the last one's. Order and repeats are judged in every run. So many
keys, since the fullest range ends a job: of 10,000 keys it has 12 % more than its share.

    launched    6 tasks of 4 threads, by launch_workers: 24 records at a time
    source      our data source, 8 key ranges a partition: 24 tasks
    connector   Spark's own Kafka source (with Spark 4.0, for which its jars are): 3 tasks
"""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.bench import Broker
from benchmarks.rows import JsonRow
from benchmarks.spark.jobs import in_turns
from benchmarks.topics import VALUE, produced

RECORDS, KEYS, WORK_S = 480_000, 80_000, 0.002
OURS = ("launched", "source")
AT_A_TIME = {"launched": 24, "source": 24, "connector": 3}


def spark_work(broker: Broker, runs: int) -> list[JsonRow]:
    """A row for each system."""
    topic = produced(broker.bootstrap, RECORDS, KEYS, VALUE)
    answers, missing = in_turns("working_job.py", [*AT_A_TIME], broker.bootstrap, topic, runs)
    return [
        {
            "case": "spark-work",
            "system": system,
            "keeps_order": True,
            "runs": runs,
            "figures": _figures(AT_A_TIME[system], found, missing.get(system, "")),
        }
        for system, found in answers.items()
    ]


def _figures(at_a_time: int, found: list[dict[str, Any]], missing: str) -> dict[str, object]:
    ideal_s = RECORDS * WORK_S / AT_A_TIME["launched"]
    seconds = [it["seconds"] for it in found]
    return {
        "at_a_time": at_a_time,
        "ideal_s": ideal_s,
        "median_s": round(median(seconds), 1) if found else None,
        "slowest_s": round(max(seconds), 1) if found else None,
        "cpu_s": round(median(it["cpu_s"] for it in found), 1) if found else None,
        "of_ideal": round(median(seconds) / ideal_s, 3) if found else None,
        "lost": sum(RECORDS - it["records"] for it in found),
        "repeated": sum(it["repeated"] for it in found),
        "out_of_order": sum(it["out_of_order"] for it in found),
        "missing": missing,
    }
