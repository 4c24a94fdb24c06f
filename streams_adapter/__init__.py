"""Spark: workers as tasks, planned jobs, a data source, sinks.

The public surface; everything else is nobody's promise. Names load when first used: a task needs a
fraction of them, and every Python that Spark starts would load all.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from coop_consumer.errors import MisuseError
from coop_consumer.lazy_names import lazily

if TYPE_CHECKING:
    from streams_adapter.control import Report
    from streams_adapter.format import KeyRangeSource, register
    from streams_adapter.launch import SCHEMA, Launch, launch_workers
    from streams_adapter.planned import Plan, SlicesFailedError, for_each_key_range, plan
    from streams_adapter.sinks import Cleaned, cleaner, cleanup, kafka_writer
    from streams_adapter.slices import Slice, SliceRecord

_HOMES = {
    "SCHEMA": ".launch",
    "Cleaned": ".sinks",
    "KeyRangeSource": ".format",
    "Launch": ".launch",
    "Plan": ".planned",
    "Report": ".control",
    "Slice": ".slices",
    "SliceRecord": ".slices",
    "SlicesFailedError": ".planned",
    "cleaner": ".sinks",
    "cleanup": ".sinks",
    "for_each_key_range": ".planned",
    "kafka_writer": ".sinks",
    "launch_workers": ".launch",
    "plan": ".planned",
    "register": ".format",
}

__all__ = [
    "SCHEMA",
    "Cleaned",
    "KeyRangeSource",
    "Launch",
    "Plan",
    "Report",
    "Slice",
    "SliceRecord",
    "SlicesFailedError",
    "cleaner",
    "cleanup",
    "for_each_key_range",
    "kafka_writer",
    "launch_workers",
    "plan",
    "register",
]


SPARK_MIN = (4, 2)
"""Its data sources in Python have limits and filters from then on."""


@cache
def check_spark() -> None:
    """See that PySpark is there, and new enough.

    Raises:
        MisuseError: It is not.
    """
    needed, remedy = ".".join(map(str, SPARK_MIN)), "pip install 'coop-consumer[spark]'"
    try:
        # Its own word: a Spark that SPARK_HOME puts on the path has no metadata, or another one's.
        found = str(import_module("pyspark").__version__)
    except ImportError as error:
        raise MisuseError(
            __name__, f"pyspark {needed} is needed, and none is here ({error})", remedy
        ) from error
    if tuple(map(int, found.split(".")[:2])) < SPARK_MIN:
        raise MisuseError(__name__, f"pyspark {needed} is needed, this is {found}", remedy)


_load = lazily(__name__, _HOMES)


def __getattr__(name: str) -> object:
    """Load a public name from its home when it is first used.

    Raises:
        MisuseError: PySpark is missing, or too old.
    """
    if name in _HOMES:
        check_spark()
    return _load(name)
