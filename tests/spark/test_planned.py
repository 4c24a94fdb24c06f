"""Planned jobs on real executors: each record once, in order; commits of just what succeeded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coop_consumer.errors import ConfigError, MisuseError, TopicMissingError
from coop_consumer.status.errors import GroupInUseError
from streams_adapter import Plan, Slice, SlicesFailedError, for_each_key_range, plan
from tests.support.job import Job
from tests.support.stock import keys_of

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(300)]

MakeJob = Callable[..., Job]
Place = tuple[int, int]


def planned_for(spark: SparkSession, orders: Job, **arguments: object) -> Plan:
    return plan(spark, orders.settings, [orders.topic], **arguments)  # type: ignore[arg-type]


def rows_of(pieces: Iterable[Slice]) -> Iterator[tuple[int, int, int, bytes]]:
    for piece in pieces:
        for record in piece.records():
            assert record.value == b"value"
            yield piece.number, record.partition, record.offset, record.key or b""


class Noted:
    """Notes the records of a slice in a file of its own; fails at some offsets of partition 0."""

    def __init__(self, folder: Path, *poison: int) -> None:
        self.folder = folder
        self.poison = poison

    def __call__(self, piece: Slice) -> None:
        rows = []
        for record in piece.records():
            if record.partition == 0 and record.offset in self.poison:
                raise ValueError(f"poison at {record.offset}")
            rows.append(f"{record.partition} {record.offset}\n")
        name = f"{piece.partition}-{piece.key_range.lo}-{piece.offsets.first}"
        (self.folder / name).write_text("".join(rows))

    @property
    def places(self) -> list[Place]:
        lines = [line for path in self.folder.iterdir() for line in path.read_text().splitlines()]
        return sorted((int(line.split()[0]), int(line.split()[1])) for line in lines)


def test_each_record_comes_once_and_each_key_in_order(spark: SparkSession, job: MakeJob) -> None:
    orders = job(2)
    places = orders.produce(keys_of(2_000, 100))
    with planned_for(spark, orders, ranges=4) as planned:
        assert len(planned.slices) == planned.rdd.getNumPartitions() == 8
        assert sum(piece.bytes for piece in planned.slices) == pytest.approx(2_000 * 11, rel=0.1)
        rows = planned.rdd.mapPartitions(rows_of).collect()
    assert sorted((partition, offset) for _, partition, offset, _ in rows) == sorted(places)
    by_key: dict[tuple[int, bytes], list[tuple[int, int]]] = defaultdict(list)
    for number, partition, offset, key in rows:
        by_key[partition, key].append((number, offset))
    assert all(len({number for number, _ in found}) == 1 for found in by_key.values())
    assert all(found == sorted(found) for found in by_key.values())
    orders.wait_for_lag(0)
    assert planned_for(spark, orders).slices == ()


def test_bytes_decide_where_nobody_else_does(spark: SparkSession, job: MakeJob) -> None:
    orders = job(2)
    orders.produce(keys_of(900, 90), 0)
    orders.produce(keys_of(300, 30), 1)
    planned = planned_for(spark, orders)
    slots = 2 * spark.sparkContext.defaultParallelism
    counts = [sum(piece.partition == number for piece in planned.slices) for number in (0, 1)]
    assert counts == [round(slots * 3 / 4), round(slots / 4)]


def test_an_action_that_fails_or_never_runs_commits_nothing(
    spark: SparkSession, job: MakeJob
) -> None:
    orders = job()
    orders.produce(keys_of(60, 12))

    def fails(_: Slice) -> None:
        raise ValueError("no room on disk")

    def run_to_failure() -> None:
        with planned_for(spark, orders, ranges=1) as planned:
            assert planned.rdd.mapPartitions(rows_of).count() == 60
            planned.rdd.foreach(fails)

    def run_nothing() -> None:
        with planned_for(spark, orders, ranges=2) as planned:
            planned.rdd.mapPartitions(rows_of)

    with pytest.raises(Exception, match="no room on disk"):
        run_to_failure()
    with pytest.raises(MisuseError, match="2 of 2 slices were not read to their end"):
        run_nothing()
    assert orders.committed() == {}
    assert planned_for(spark, orders, ranges=1).slices[0].offsets.size == 60


def test_a_poisoned_slice_leaves_the_others_committed_and_a_new_plan_does_just_that_one(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders = job()
    places = orders.produce(keys_of(600, 60))
    first = planned_for(spark, orders, ranges=6)
    worker = Noted(tmp_path, 7)
    with pytest.raises(SlicesFailedError, match=r"(?s)1 of 6 slices failed.*poison at 7") as raised:
        for_each_key_range(first, worker)
    [poisoned] = [piece for piece in first.slices if str(piece) in raised.value.slices]
    done = worker.places
    assert 400 < len(done) < 600
    with planned_for(spark, orders, ranges=1) as second:
        assert [piece.key_range for piece in second.slices] == [poisoned.key_range]
        for_each_key_range(second, Noted(tmp_path))
    assert worker.places == sorted(places)
    assert orders.run_to_end().places == []
    orders.wait_for_lag(0)


def test_members_go_on_where_a_plan_ended_and_a_plan_where_they_did(
    spark: SparkSession, job: MakeJob, tmp_path: Path
) -> None:
    orders = job()
    orders.produce(keys_of(200, 20))
    half = planned_for(spark, orders, ranges=2, until={orders.topic: {0: 120}})
    worker = Noted(tmp_path)
    only = half.slices[0]
    rows = half.rdd.filter(lambda piece: piece.number == 0).mapPartitions(rows_of).collect()
    half.commit([only])
    visit = orders.run_to_end()
    assert sorted([offset for _, _, offset, _ in rows] + visit.offsets) == list(range(200))
    orders.produce(keys_of(50, 20))
    for_each_key_range(planned_for(spark, orders, ranges=2).rdd, worker)
    assert worker.places == [(0, offset) for offset in range(200, 250)]


def stops_early(piece: Slice) -> None:
    next(piece.records())


def test_what_was_not_read_to_its_end_is_not_committed(spark: SparkSession, job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(60, 12))
    with pytest.raises(SlicesFailedError, match="returned before it had read all records"):
        for_each_key_range(planned_for(spark, orders, ranges=2), stops_early)
    assert orders.committed() == {}


def test_what_is_no_plan_is_not_processed(spark: SparkSession, job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(60, 12))
    planned = planned_for(spark, orders, ranges=2)
    for wrong in (planned.rdd.map(lambda piece: piece), spark.range(3), planned.slices, None):
        with pytest.raises(MisuseError, match=r"is no plan.*what plan\(\) returns"):
            for_each_key_range(wrong, stops_early)  # type: ignore[arg-type]
    assert orders.committed() == {}


def test_what_cannot_be_planned_is_refused(spark: SparkSession, job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(10, 5))
    with pytest.raises(MisuseError, match="ranges=0"):
        planned_for(spark, orders, ranges=0)
    with pytest.raises(TopicMissingError):
        plan(spark, orders.settings, ["missing"])
    with pytest.raises(ConfigError, match="topics is missing"):
        plan(spark, orders.settings)
    with pytest.raises(MisuseError, match="records end at 10"):
        planned_for(spark, orders, until={orders.topic: {0: 11}})
    ordered = {**orders.settings, "ordering": "partition"}
    with pytest.raises(MisuseError, match=r"cannot be shared.*Leave ranges out"):
        plan(spark, ordered, [orders.topic], ranges=2)
    with orders.running() as pool:
        pool.wait_for_ranges()
        with pytest.raises(GroupInUseError, match="has 1 member "):
            planned_for(spark, orders)
