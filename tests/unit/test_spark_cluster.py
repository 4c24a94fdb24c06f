"""Sessions on which no worker may be launched: refused on the driver, before any task starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError

from coop_consumer import Config, Worker
from coop_consumer.errors import MisuseError
from streams_adapter import (
    Plan,
    cleanup,
    cluster,
    for_each_key_range,
    kafka_writer,
    launch_workers,
    plan,
    register,
)
from streams_adapter.cluster import context_of
from streams_adapter.format import KeyRangeSource
from streams_adapter.sinks import writer
from tests.support.stock import eventually


def session(settings: dict[str, str] | None = None, slots: int = 16) -> Any:
    scheduler = SimpleNamespace(
        resourceProfileManager=lambda: SimpleNamespace(defaultResourceProfile=lambda: None),
        maxNumConcurrentTasks=lambda _: slots,
    )
    context = SimpleNamespace(
        getConf=lambda: settings or {}, _jsc=SimpleNamespace(sc=lambda: scheduler)
    )
    return SimpleNamespace(sparkContext=context)


def test_a_twin_of_a_task_would_fence_it() -> None:
    with pytest.raises(MisuseError, match=r"spark\.speculation=true"):
        context_of(session({"spark.speculation": "true"}), 1, 0)


KILLS_IDLE = {
    "spark.python.worker.killOnIdleTimeout": "true",
    "spark.python.worker.idleTimeoutSeconds": "10s",
}
KILLS_NEIGHBOURS = {
    "spark.excludeOnFailure.enabled": "true",
    "spark.excludeOnFailure.killExcludedExecutors": "true",
}


@pytest.mark.parametrize("settings", [KILLS_IDLE, KILLS_NEIGHBOURS])
def test_settings_that_end_healthy_members_are_refused(settings: dict[str, str]) -> None:
    [name] = [it for it in settings if "kill" in it]
    with pytest.raises(MisuseError, match=rf"{name}=true.*healthy.*Set {name}=false"):
        context_of(session(settings), 1, 0)
    for needed in settings:  # none does anything alone
        alone = {it: value for it, value in settings.items() if it != needed}
        assert context_of(session(alone), 1, 0)
    nulls = {it: "0s" if value == "10s" else "false" for it, value in settings.items()}
    assert context_of(session(settings | nulls), 1, 0)


def test_a_slice_that_takes_long_is_not_idle() -> None:
    config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})
    context: Any = SimpleNamespace(getConf=lambda: KILLS_IDLE, accumulator=lambda *_: None)
    with pytest.raises(MisuseError, match=r"killOnIdleTimeout=true.*a slice gives nothing"):
        for_each_key_range(Plan(context, config, (), ()), lambda _: None)


def test_a_twin_of_a_task_would_process_its_slice_beside_it() -> None:
    config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})
    context: Any = SimpleNamespace(
        getConf=lambda: {"spark.speculation": "TRUE"}, accumulator=lambda *_: None
    )
    with pytest.raises(MisuseError, match=r"processed twice.*Set spark\.speculation=false"):
        for_each_key_range(Plan(context, config, (), ()), lambda _: None)


def test_a_connect_session_has_no_driver_here(monkeypatch: pytest.MonkeyPatch) -> None:
    home = "pyspark.sql.connect.session"
    path = Path(pyspark.__file__).parents[1] / f"{home.replace('.', '/')}.py"
    assert "\nclass SparkSession" in path.read_text(), "it needs packages that are not here"
    connect = cast("Any", type("SparkSession", (), {"__module__": home})())
    config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    monkeypatch.setattr(writer, "checked_sink", lambda *_: None)
    write = kafka_writer(config, "t", name="n")
    batch = cast("Any", SimpleNamespace(sparkSession=connect))
    for call, lacks in (
        (lambda: write(batch, 0), r'RDDs.*writeStream\.format\("keyrange"\)'),
        (lambda: launch_workers(connect, Worker, config, ["t"]), "driver here.*classic session"),
        (lambda: plan(connect, config, ["t"]), "RDDs.*classic session"),
        (lambda: cleanup(connect, {"bootstrap.servers": "127.0.0.1:1"}, "t", "u"), "RDDs"),
    ):
        with pytest.raises(MisuseError, match=f"a Spark Connect session has no {lacks}"):
            call()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tasks": "16"}, "tasks=16. .*whole number from 1 on"),
        ({"tasks": True}, "tasks=True"),
        ({"tasks": 2.5}, r"tasks=2\.5"),
        ({"threads_per_task": "8"}, "threads_per_task=8. .*whole number from 1 on"),
        ({"control_port": 70_000}, "control_port=70000. .*whole number from 0 to 65535"),
        ({"control_port": "7100"}, "control_port=7100"),
    ],
)
def test_numbers_of_a_launch_are_numbers(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(MisuseError, match=said):
        launch_workers(session(), Worker, {}, ["t"], **arguments)


class ConnectSession:
    """As much of one as the format needs; tasks of its server run here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings: dict[str, str] = {}
        self.registered: list[type[KeyRangeSource]] = []
        self.conf = SimpleNamespace(set=self.settings.__setitem__)
        self.dataSource = SimpleNamespace(register=self.registered.append)
        functions = SimpleNamespace(udf=lambda run, _: lambda _: run)
        monkeypatch.setitem(sys.modules, "pyspark.sql.functions", functions)

    def range(self, tasks: int) -> Any:
        return SimpleNamespace(select=lambda run: self._rows(run, tasks))

    def _rows(self, run: Any, tasks: int) -> Any:
        return SimpleNamespace(collect=lambda: [[run(task)] for task in range(tasks)])


ConnectSession.__module__ = "pyspark.sql.connect.session"


def test_a_connect_session_reads_the_format_if_its_server_has_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = ConnectSession(monkeypatch)
    register(cast("Any", connect))
    register(cast("Any", connect), push_filters=True)
    assert [(it.name(), it.push_filters) for it in connect.registered] == [
        ("keyrange", False),
        ("keyrange", True),
    ]
    assert connect.settings == {"spark.sql.python.filterPushdown.enabled": "true"}
    monkeypatch.setattr(cluster, "_probe", lambda _: lambda _: ("server", "no coop-consumer"))
    with pytest.raises(MisuseError, match="the executor on server has no coop-consumer"):
        register(cast("Any", connect))
    assert len(connect.registered) == 2


@pytest.mark.parametrize(
    ("tasks", "held", "said"),
    [
        (17, 0, "has 16 slots: .*Choose tasks=16"),
        (8, 12, "has 16 slots, 12 of them held by other launches.*Choose tasks=4"),
        (1, 16, "16 of them held.*Stop another launch"),
    ],
)
def test_slots_of_other_launches_are_not_free(
    monkeypatch: pytest.MonkeyPatch, tasks: int, held: int, said: str
) -> None:
    monkeypatch.setattr(cluster, "SLOTS_WAIT_S", 0.0)
    with pytest.raises(MisuseError, match=said):
        context_of(session(), tasks, held)
    assert context_of(session(), 16 - held, held)


GROWS = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "3",
    "spark.executor.cores": "4",
    "spark.task.cpus": "2",
}


def test_a_cluster_that_grows_has_slots_up_to_its_bound() -> None:
    assert context_of(session(GROWS), 6, 0)
    with pytest.raises(MisuseError, match="has 6 slots"):
        context_of(session(GROWS), 5, 2)


@pytest.mark.parametrize("unknown", ["dynamicAllocation.maxExecutors", "executor.cores"])
def test_a_cluster_without_a_known_bound_is_believed(unknown: str) -> None:
    conf = {name: value for name, value in GROWS.items() if name != f"spark.{unknown}"}
    assert context_of(session(conf), 500, 0)


# -- executors' Python -----------------------------------------------------------------------------


def context(*found: tuple[str, str], error: str = "") -> Any:
    """Of executors that answer so, or whose tasks fail so."""

    def collect() -> list[tuple[str, str]]:
        if error:
            raise RuntimeError(f"Job aborted due to stage failure: {error}\n\tat org.apache...")
        return list(found)

    mapped = SimpleNamespace(collect=collect)
    return SimpleNamespace(
        parallelize=lambda *_: SimpleNamespace(map=lambda _: mapped),
        defaultParallelism=3,
        getConf=dict,
        applicationId=f"app-{uuid4().hex}",
    )


def test_executors_as_the_driver_are_fine() -> None:
    ours = version("coop-consumer")
    cluster.check_packages(context(("a", ours), ("b", ours), ("a", ours)), 3)


def test_who_has_looked_at_all_slots_needs_no_slot_to_look_again() -> None:
    """A launch may hold all of them by then: a second look would wait until it ends."""
    ours = version("coop-consumer")
    seen = context(("a", ours))
    cluster.check_packages(seen, 2)  # not all of three
    seen.parallelize = context(("a", "0.0.9")).parallelize
    with pytest.raises(MisuseError, match=r"has 0\.0\.9"):
        cluster.check_executors(seen, "plan()")
    seen.parallelize = context(("a", ours)).parallelize
    cluster.check_packages(seen, 3)
    del seen.parallelize
    cluster.check_executors(seen, "plan()")


@pytest.mark.parametrize(
    ("found", "needed"),
    [("0.0.9", ()), ("no rocksdict (No module named 'rocksdict')", ("rocksdict",))],
)
def test_an_executor_that_lacks_something_is_named(found: str, needed: tuple[str, ...]) -> None:
    ours = version("coop-consumer")
    wanted = " with ".join([f"coop-consumer {ours}", *needed])
    with pytest.raises(MisuseError) as raised:
        cluster.check_packages(context(("a", ours), ("b", found)), 2, needed=needed)
    assert f"the executor on b has {found}, and {wanted} is needed" in str(raised.value)


def test_a_python_of_another_version_is_told_in_spark_s_words() -> None:
    versions = {"worker_version": "3.10", "driver_version": "3.13"}
    mismatch = PySparkRuntimeError(errorClass="PYTHON_VERSION_MISMATCH", messageParameters=versions)
    with pytest.raises(MisuseError, match=r"PYTHON_VERSION_MISMATCH.*3\.10.*3\.13.*PYSPARK_PYTHON"):
        cluster.check_packages(context(error=f"pyspark.errors...: {mismatch}"), 2)


def test_another_failure_of_the_look_is_not_renamed() -> None:
    with pytest.raises(RuntimeError, match="No space left"):
        cluster.check_packages(context(error="java.io.IOException: No space left"), 2)


def test_what_looks_tells_what_it_lacks() -> None:
    ours = version("coop-consumer")
    assert cluster._probe(("json",))(0) == (socket.gethostname(), ours)
    assert cluster._probe(("json", "no_such"))(0)[1].startswith("no no_such (No module named")


def test_what_looks_runs_where_the_library_is_not_installed() -> None:
    """-S: an editable library is not found then, and Spark's, by its folder, is."""
    lines = (
        "import pickle, sys",
        "print(pickle.load(sys.stdin.buffer)(0)[1])",
    )
    told = subprocess.run(
        [sys.executable, "-S", "-c", "\n".join(lines)],
        input=cloudpickle.dumps(cluster._probe(())),
        env={**os.environ, "PYTHONPATH": str(Path(pyspark.__file__).parents[1])},
        cwd="/",
        capture_output=True,
        check=True,
    )
    assert told.stdout.decode().startswith("no coop-consumer (No module named 'streams_adapter'")


def test_a_look_that_waits_for_a_slot_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster, "UNSTARTED_S", 0.0)
    with cluster.told_if_slow("still waits"):
        eventually(lambda: "still waits" in caplog.text)


def test_executors_of_several_sizes_count_as_the_smallest() -> None:
    def executors(*cores: int) -> Any:
        listed = SimpleNamespace(
            size=lambda: len(cores),
            apply=lambda at: SimpleNamespace(totalCores=lambda: cores[at]),
        )
        store = SimpleNamespace(executorList=lambda _: listed)
        scheduler = SimpleNamespace(statusStore=lambda: store)
        return SimpleNamespace(
            _jsc=SimpleNamespace(sc=lambda: scheduler),
            getConf=lambda: {"spark.executor.cores": "3"},
        )

    assert cluster.executor_cores(executors(0, 8, 4)) == 4
    assert cluster.executor_cores(executors(0)) == 3
