"""Workers launched on real executors: all records, in order, whatever falls; and clear refusals."""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from coop_consumer.errors import (
    BrokerUnreachableError,
    ConfigError,
    FencedError,
    MisuseError,
    TopicMissingError,
)
from coop_consumer.kafka.topics import Topics
from offsets import LoadRecord
from streams_adapter import cluster, launch, launch_workers
from streams_adapter.control import Desk
from streams_adapter.task import LaunchOrder, run_task
from tests.integration.test_exactly_once import ONCE, assert_once, visible
from tests.support.brokers import MakeTopic
from tests.support.counting import counts, written
from tests.support.job import Job
from tests.support.journal import WAIT_S, lost, out_of_order, repeated
from tests.support.noting import (
    Noting,
    NotingAndSending,
    Refusing,
    ReportingOften,
    Tallying,
    jvm_of,
    noted,
)
from tests.support.sending import places_of
from tests.support.stock import eventually, keys_of

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(300)]

TASKS = 12
MakeJob = Callable[..., Job]


def test_a_backlog_is_shared_by_more_tasks_than_partitions(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders = job(3)
    places = orders.produce(keys_of(3_000, 300))
    worker = Noting(tmp_path, 0.01)
    launch = launch_workers(
        spark,
        worker,
        orders.settings,
        [orders.topic],
        tasks=TASKS,
        threads_per_task=2,
        until="caught_up",
    )
    assert launch.wait(4 * WAIT_S)
    rows = noted(tmp_path)
    assert lost(rows, set(places)) == set()
    assert out_of_order(rows) == []
    assert repeated(rows) == 0
    results = launch.results().collect()
    assert [row.task for row in results] == list(range(TASKS))
    assert {row.ended for row in results} == {"drained"}
    assert sum(row.records for row in results) == len(places)
    assert [row.repeats for row in results] == [0] * TASKS
    assert {row.member for row in results} == {f"{launch.name}-{n}" for n in range(TASKS)}
    orders.wait_for_lag(0)


@pytest.mark.parametrize("barrier", [False, True])
def test_all_tasks_hold_ranges_at_once_until_stop_drains_them(
    spark: SparkSession, job: MakeJob, tmp_path: Path, *, barrier: bool
) -> None:
    orders = job(3)
    places = orders.produce(keys_of(400, 40))
    worker = Noting(tmp_path)
    with launch_workers(
        spark, worker, orders.settings, [orders.topic], tasks=TASKS, barrier=barrier
    ) as launch:
        eventually(lambda: len(noted(tmp_path)), lambda count: count == len(places))
        held = eventually(
            lambda: [report.ranges for report in launch.progress()],
            lambda found: len(found) == TASKS and all(found),
        )
        assert not launch.wait(0)
    shares = Counter(text.partition("[")[0] for ranges in held for text in ranges)
    assert len(shares) == 3
    assert min(shares.values()) >= 2, "partitions are split"
    assert [report.ended for report in launch.progress()] == ["drained"] * TASKS
    assert lost(noted(tmp_path), set(places)) == set()
    orders.wait_for_lag(0)
    orders.wait_until_empty()


def test_tasks_report_their_load_like_any_member_until_they_leave(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders, keys = job(1), keys_of(400, 400)

    def told() -> dict[str, LoadRecord]:
        found = orders.log.store(orders.log.number_of(orders.topic, 0)).loads
        return {name: record for name, (_, record) in found.items()}

    def told_at_work() -> dict[str, LoadRecord]:
        orders.produce(keys)  # so that no task has nothing to do
        return told()

    def tell_of_all(found: dict[str, LoadRecord]) -> bool:
        """Whether all are at work, and what they say they have is the partition."""
        costs = [
            part.weight / (record.handler_us * 10**6)
            for record in found.values()
            for part in record.partitions
            if record.handler_us
        ]
        is_at_work = all(it.busy and it.finished for it in found.values())
        return len(costs) == 4 and is_at_work and 0.9 < sum(costs) < 1.1

    with launch_workers(
        spark,
        ReportingOften(tmp_path, 0.01),
        orders.settings,
        [orders.topic],
        tasks=4,
        threads_per_task=2,
    ) as launch:
        orders.produce(keys)
        eventually(lambda: noted(tmp_path))  # from then on there is a progress topic
        found = eventually(told_at_work, tell_of_all)
        assert found.keys() == {f"{launch.name}-{number}" for number in range(4)}
        for record in found.values():
            assert (record.workers, record.capacity) == (2, 2)
            assert record.handler_us >= 10_000
    eventually(told, lambda found: not found)


def test_a_connection_that_breaks_costs_no_member(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders = job(1)
    with launch_workers(
        spark, Noting(tmp_path), orders.settings, [orders.topic], tasks=4
    ) as launch:
        eventually(launch.progress, lambda found: sum(bool(it.ranges) for it in found) == 4)
        lines = list(launch._desk._lines)
        for line in lines:
            line._sock.shutdown(socket.SHUT_RDWR)  # type: ignore[attr-defined] # in socketserver
        eventually(lambda: launch._desk._lines, lambda now: len(now) == 4 and now.isdisjoint(lines))
        places = orders.produce(keys_of(40, 4))
        eventually(lambda: len(noted(tmp_path)), lambda count: count == len(places))
        assert [report.ended for report in launch.progress()] == [""] * 4
    assert [report.ended for report in launch.progress()] == ["drained"] * 4


@pytest.mark.parametrize("what", ["python", "executor"])
def test_what_a_killed_task_held_is_taken_back_by_the_next_attempt(
    spark: SparkSession, job: MakeJob, tmp_path: Path, what: str
) -> None:
    orders = job(3)
    places = orders.produce(keys_of(2_400, 240))
    worker = Noting(tmp_path, 0.02)
    launch = launch_workers(
        spark,
        worker,
        orders.settings,
        [orders.topic],
        tasks=6,
        threads_per_task=4,
    )
    # A task that starts late finds nothing left to do, and notes no row.
    rows = eventually(lambda: noted(tmp_path), lambda found: len({it.member for it in found}) > 1)
    victim = rows[-1]
    os.kill(victim.run if what == "python" else jvm_of(victim.run), signal.SIGKILL)
    eventually(
        launch.progress,
        lambda found: any(it.member == victim.member and it.attempt and it.ranges for it in found),
    )
    places += orders.produce(keys_of(240, 240))
    eventually(lambda: noted(tmp_path), lambda found: not lost(found, set(places)))
    launch.stop()
    rows = noted(tmp_path)
    assert lost(rows, set(places)) == set()
    assert out_of_order(rows) == []
    results = launch.results().collect()
    killed = [row for row in results if not row.ended]
    assert len(killed) == 1 or what == "executor"
    assert repeated(rows) <= len(killed) * (4 + 256)
    assert sum(row.repeats for row in results if row.ended) == 0
    assert all(0 <= row.repeats <= row.records for row in killed)
    attempts = [row for row in results if row.member == victim.member]
    assert [(row.attempt, row.ended) for row in attempts] == [(0, ""), (1, "drained")]
    assert {row.run for row in rows if row.member == victim.member} > {victim.run}


def test_an_attempt_that_lives_on_is_fenced_by_the_next(job: MakeJob, tmp_path: Path) -> None:
    """As if Spark had lost sight of its executor; both run here, where Spark would start them."""
    orders = job(2)
    places = orders.produce(keys_of(800, 80))
    desk = Desk("127.0.0.1", "127.0.0.1", 0, "secret")
    order = LaunchOrder(
        name=f"app-{orders.group}",
        worker=Noting(tmp_path, 0.01),
        config=orders.settings,
        topics=(orders.topic,),
        threads=2,
        until_caught_up=True,
        desk=desk.address,
    )
    heir = replace(order, worker=Noting(tmp_path, 0.01))
    with closing(desk), ThreadPoolExecutor(2) as executor:
        zombie = executor.submit(lambda: list(run_task(order, 0)))
        eventually(lambda: noted(tmp_path))
        last = executor.submit(lambda: list(run_task(heir, 0)))
        with pytest.raises(FencedError):
            zombie.result(WAIT_S)
        [report] = last.result(WAIT_S)
    assert report.ended == "drained"
    assert lost(noted(tmp_path), set(places)) == set()
    orders.wait_for_lag(0)


def test_with_exactly_once_outputs_of_tasks_are_visible_once_whatever_is_killed(
    spark: SparkSession, job: MakeJob, topic: MakeTopic, tmp_path: Path
) -> None:
    totals = topic(1)
    orders = job(2, **ONCE, **{"output.topics": totals})
    places = orders.produce(keys_of(1_200, 120))
    launch = launch_workers(
        spark,
        NotingAndSending(tmp_path, 0.05),
        orders.settings,
        [orders.topic],
        tasks=4,
        threads_per_task=2,
        until="caught_up",
    )
    # All four may never be seen at work: a task that starts late finds nothing left to do.
    rows = eventually(lambda: noted(tmp_path), lambda found: len({it.member for it in found}) > 1)
    os.kill(rows[-1].run, signal.SIGKILL)
    assert launch.wait(4 * WAIT_S)
    assert sum(not row.ended for row in launch.results().collect()) == 1, "one was killed"
    assert_once(places_of(visible(orders, totals)), places)


def test_keyed_state_of_a_killed_task_is_where_its_ranges_are(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders, keys = job(2), keys_of(1_200, 120)
    orders.produce(keys)
    launch = launch_workers(
        spark,
        Tallying(tmp_path, 0.02),
        orders.settings,
        [orders.topic],
        tasks=4,
        threads_per_task=2,
        until="caught_up",
    )
    # As above: not all of them may ever be seen at work.
    rows = eventually(lambda: noted(tmp_path), lambda found: len({it.member for it in found}) > 1)
    os.kill(rows[-1].run, signal.SIGKILL)
    assert launch.wait(4 * WAIT_S)
    assert counts(written(orders)) == Counter(keys)


def test_stores_of_a_launch_are_found_by_the_next(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders, keys = job(2, **{"state.dir": str(tmp_path / "state")}), keys_of(200, 20)
    orders.produce(keys)

    def stores_of_a_launch(entries: int) -> set[Path]:
        with launch_workers(
            spark, Tallying(tmp_path), orders.settings, [orders.topic], tasks=4
        ) as it:
            eventually(it.progress, lambda told: sum(bool(row.ranges) for row in told) == 4)
            eventually(lambda: sum(counts(written(orders)).values()), lambda n: n == entries)
        return set((tmp_path / "state").glob("*/*"))

    first = stores_of_a_launch(200)
    assert len(first) == 4
    orders.produce(keys)
    assert stores_of_a_launch(400) == first


def test_a_second_launch_is_refused_the_slots_of_the_first(
    spark: SparkSession, job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, others = job(1), job(1)
    eventually(lambda: cluster._slots(spark.sparkContext, 16), lambda slots: slots == 16)
    monkeypatch.setattr(cluster, "SLOTS_WAIT_S", 0.0)
    worker = Noting(tmp_path)
    with launch_workers(spark, worker, orders.settings, [orders.topic], tasks=12) as launch:
        eventually(launch._desk.served, lambda count: count == 12)
        with pytest.raises(MisuseError, match=r"16 slots, 12 of them held by other launches"):
            launch_workers(spark, worker, others.settings, [others.topic], tasks=5)
    launch_workers(
        spark, worker, others.settings, [others.topic], tasks=5, until="caught_up"
    ).wait()


def test_tasks_that_wait_for_a_slot_are_told_of(
    spark: SparkSession,
    job: MakeJob,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever has them: here the launch itself, as if other jobs' were not known."""
    orders = job(1)
    eventually(lambda: cluster._slots(spark.sparkContext, 16), lambda slots: slots == 16)
    monkeypatch.setattr(cluster, "_slots", lambda _, wanted: wanted)
    monkeypatch.setattr(cluster, "UNSTARTED_S", 0.2)
    with launch_workers(spark, Noting(tmp_path), orders.settings, [orders.topic], tasks=18):
        eventually(lambda: "2 of 18 tasks do not run" in caplog.text)


def test_a_launch_that_waits_for_a_parked_record_says_so(
    spark: SparkSession,
    job: MakeJob,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    orders = job(1, **{"max.attempts": 1})
    orders.produce(keys_of(40, 4))
    monkeypatch.setattr(cluster, "UNSTARTED_S", 1.0)
    with launch_workers(
        spark, Refusing, orders.settings, [orders.topic], tasks=2, until="caught_up"
    ) as waiting:
        eventually(lambda: sum(it.records for it in waiting.progress()), lambda count: count == 30)
        eventually(lambda: "handlers have failed 1 time." in caplog.text)
    assert f"coop-consumer status {orders.group}" in caplog.text


def test_as_many_threads_as_an_executor_has_cores(
    spark: SparkSession, job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, orders_of_config = job(), job(workers=3)
    monkeypatch.setattr(launch, "Launch", lambda *given, **_: given)

    def threads(it: Job, **given: int) -> int | None:
        made: Any = launch_workers(
            spark, Noting(tmp_path), it.settings, [it.topic], tasks=1, **given
        )
        _, _, order, _, desk = made
        desk.close()
        assert isinstance(order, LaunchOrder)
        return order.threads

    assert threads(orders) == 8
    assert threads(orders_of_config) == 3
    assert threads(orders_of_config, threads_per_task=2) == 2


def test_executors_without_the_named_python_are_told_of(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python")
    with pytest.raises(
        MisuseError, match=r"lack this Python: Cannot run program .*/no/such/python"
    ):
        cluster.check_packages(spark.sparkContext, 1)


def test_what_cannot_work_is_refused_before_anything_starts(
    spark: SparkSession, job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "SLOTS_WAIT_S", 0.0)
    orders, worker = job(), Noting(tmp_path)

    def launched(**changes: object) -> object:
        given = {"config": orders.settings, "topics": [orders.topic], "worker": worker, **changes}
        return launch_workers(spark, **given)  # type: ignore[arg-type]

    eventually(lambda: cluster._slots(spark.sparkContext, 16), lambda slots: slots == 16)
    with pytest.raises(MisuseError, match=r"has 16 slots.*tasks=16"):
        launched(tasks=17)
    with pytest.raises(MisuseError, match="tasks=0"):
        launched(tasks=0)
    with pytest.raises(MisuseError, match="until='done'"):
        launched(until="done")
    with pytest.raises(ConfigError, match="each task's own"):
        launched(config={**orders.settings, "group.instance.id": "a"})
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        launched(config={"group.id": "g", "bootstrap.server": "x"})
    with pytest.raises(MisuseError, match="does not derive from"):
        launched(worker=object())
    with pytest.raises(MisuseError, match="threads_per_task=0"):
        launched(threads_per_task=0)
    with pytest.raises(ConfigError, match="ordering"):
        launched(worker=Tallying(tmp_path), config={**orders.settings, "ordering": "none"})
    with pytest.raises(TopicMissingError, match="no-such-topic"):
        launched(topics=[orders.topic, "no-such-topic"])
    monkeypatch.setattr(Topics.check_broker, "__defaults__", (0.1,))
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1\b"):
        launched(config={**orders.settings, "bootstrap.servers": "127.0.0.1:1"})
