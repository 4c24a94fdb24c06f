"""Which tasks a scan has, and what filters leave of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from assignors import WHOLE, TopicPartition, covers, key_hash, union
from coop_consumer.core.placement import PARTITIONERS
from offsets import OFFSET_MAX, OffsetRange
from streams_adapter.source.options import SourceOptions
from streams_adapter.source.pushdown import Wanted
from streams_adapter.source.scan import ScanTask, tasks_of

KEYS = [b"N14228", b"N39463", b"N619AA"]
OFFSETS = {TopicPartition("orders", p): (10, 20) for p in range(3)}


def tasks(want: Wanted, ranges: int = 4, **options: str) -> list[ScanTask]:
    needed = {"kafka.bootstrap.servers": "b:9092", "subscribe": "orders"}
    parsed = SourceOptions.parse({**needed, **options})
    return tasks_of(OFFSETS, {"orders": ranges}, {"orders": 3}, parsed, want)


def test_each_partition_is_covered_and_the_first_tasks_are_of_different_ones() -> None:
    found = tasks(Wanted())
    assert len(found) == 12
    assert len({task.scan for task in found}) == 1
    assert [task.tp.partition for task in found[:4]] == [0, 1, 2, 0]
    for tp in OFFSETS:
        mine = [task for task in found if task.tp == tp]
        assert covers(union(task.key_ranges[task.number] for task in mine), (WHOLE,))
        assert {task.offsets for task in mine} == {OffsetRange(10, 19)}


def test_keys_are_looked_for_only_in_their_ranges() -> None:
    found = tasks(Wanted(keys=frozenset(KEYS[:1])))
    assert len(found) == 3
    for task in found:
        assert key_hash(KEYS[0]) in task.key_ranges[task.number]
    assert tasks(Wanted(keys=frozenset())) == []


@pytest.mark.parametrize("name", PARTITIONERS)
def test_and_only_in_their_partition_if_the_partitioner_is_known(name: str) -> None:
    found = tasks(Wanted(keys=frozenset(KEYS)), partitioner=name)
    expected = {(PARTITIONERS[name](key, 3), key) for key in KEYS}
    assert {(task.tp.partition, key) for task in found for key in task.keys or ()} == expected


def test_offsets_and_partitions_narrow_it() -> None:
    want = Wanted(partitions=frozenset({1}), first=15, last=OFFSET_MAX)
    assert [(t.tp.partition, t.offsets) for t in tasks(want, 1)] == [(1, OffsetRange(15, 19))]
    assert tasks(Wanted(first=20)) == []
    assert tasks(Wanted(last=9)) == []


NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("key",), b"a")], Wanted(keys=frozenset({b"a"}))),
        ([EqualTo(("key",), bytearray(b"a"))], Wanted(keys=frozenset({b"a"}))),
        ([In(("key",), (b"a", None, b"b"))], Wanted(keys=frozenset({b"a", b"b"}))),
        (
            [In(("key",), (b"a", b"b")), EqualTo(("key",), b"b")],
            Wanted(keys=frozenset({b"b"})),
        ),
        ([EqualTo(("partition",), 1)], Wanted(partitions=frozenset({1}))),
        ([GreaterThan(("offset",), 4), LessThan(("offset",), 9)], Wanted(first=5, last=8)),
        ([GreaterThanOrEqual(("offset",), 4)], Wanted(first=4)),
        ([LessThanOrEqual(("offset",), 9)], Wanted(last=9)),
        ([In(("offset",), (7, 3))], Wanted(first=3, last=7)),
        ([GreaterThanOrEqual(("timestamp",), NOON)], Wanted(since_ms=1_357_041_600_000)),
    ],
)
def test_filters_narrow_what_is_wanted(filters: list[Filter], expected: Wanted) -> None:
    assert Wanted().narrowed(filters) == expected


@pytest.mark.parametrize(
    "says_nothing",
    [
        LessThan(("timestamp",), NOON),  # a later record may bear an earlier time
        Not(EqualTo(("key",), b"a")),
        GreaterThan(("key",), b"a"),
        IsNotNull(("key",)),
        EqualTo(("key",), "text"),
        EqualTo(("value",), b"a"),
        GreaterThan(("partition",), 1),
        EqualTo(("key_range", "lo"), 0),
    ],
)
def test_other_filters_leave_all(says_nothing: Filter) -> None:
    assert Wanted().narrowed([says_nothing]) == Wanted()
