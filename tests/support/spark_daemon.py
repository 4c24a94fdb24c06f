"""The daemon whose forks are the Pythons of Spark's executors, with what most of them import.

In: as a program, `python -m tests.support.spark_daemon pyspark.worker`, which an executor starts.
Out: what `pyspark.daemon` does. Otherwise each of a hundred Pythons would import for a second of
processor time. Pythons of the driver, and of programs that tests start, import for themselves.
"""

from __future__ import annotations

from importlib import import_module

from pyspark.daemon import manager

IMPORTED = (
    "coop_consumer.member.member",
    "pandas",
    "pyarrow",
    "streams_adapter.sinks.writer",
    "streams_adapter.slice_task",
    "streams_adapter.source.batch",
    "streams_adapter.task",
)

if __name__ == "__main__":
    for name in IMPORTED:
        import_module(name)
    manager()
