"""One Spark application for these tests: two executor JVMs on this machine, eight slots each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from streams_adapter import register
from tests.support import jvm
from tests.support.brokers import MakeTopic
from tests.support.job import Job

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="package")
def environment() -> Iterator[None]:
    """What PySpark asks for, and what no other test of this process should see."""
    with pytest.MonkeyPatch.context() as patch:
        # An editable installation is not seen by PySpark, which looks for modules in folders.
        patch.setenv("PYTHONPATH", str(ROOT / "streams_adapter" / "for_pyspark"))
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)  # whose modules the JVM looks for
        yield


@pytest.fixture(scope="package")
def spark(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = (
        SparkSession.builder.master("local-cluster[2,8,1024]")
        .appName("tests")
        .config(map=jvm.SETTINGS)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.python.worker.faulthandler.enabled", "true")  # tells where one dies
        .config("spark.executorEnv.PYTHONPATH", str(ROOT))  # workers of tests are modules
        .config("spark.python.daemon.module", "tests.support.spark_daemon")
        .config("spark.task.maxFailures", "8")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.local.dir", str(tmp_path_factory.mktemp("local")))
        .getOrCreate()
    )
    register(session)
    yield session
    session.stop()


@pytest.fixture
def job(bootstrap: str, admin: AdminClient, topic: MakeTopic) -> Callable[..., Job]:
    """As for integration tests."""

    def make(partitions: int = 1, **settings: object) -> Job:
        name, group = topic(partitions), f"spark-{uuid4().hex[:8]}"
        return Job({"bootstrap.servers": bootstrap}, admin, group, name, partitions, settings)

    return make
