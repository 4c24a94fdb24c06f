"""Sessions on which no worker may be launched: refused on the driver, before any task starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from coop_consumer.errors import MisuseError
from streams_adapter.cluster import context_of


def session(**settings: str) -> Any:
    conf = {name.replace("_", "."): value for name, value in settings.items()}
    return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))


def test_a_twin_of_a_task_would_fence_it() -> None:
    with pytest.raises(MisuseError, match=r"spark\.speculation=true"):
        context_of(session(spark_speculation="true"), 1)


def test_a_connect_session_has_no_driver_here() -> None:
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(MisuseError, match="Spark Connect"):
        context_of(cast("Any", connect()), 1)
