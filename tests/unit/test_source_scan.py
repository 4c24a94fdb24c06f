"""Which tasks a scan has, and what filters leave of it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark import cloudpickle
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
from coop_consumer.errors import TopicMissingError
from offsets import OFFSET_MAX, OffsetRange
from streams_adapter.format import KeyRangeSource
from streams_adapter.source import scan
from streams_adapter.source.batch import BatchReader, FilteredBatchReader
from streams_adapter.source.errors import OffsetsGoneError
from streams_adapter.source.options import SourceOptions
from streams_adapter.source.pushdown import Wanted
from streams_adapter.source.rows import SCHEMA
from streams_adapter.source.scan import ScanTask, tasks_of
from streams_adapter.source.stream import StreamReader

NEEDED = {"kafka.bootstrap.servers": "b:9092", "subscribe": "orders"}
KEYS = [b"N14228", b"N39463", b"N619AA"]
OFFSETS = {TopicPartition("orders", p): (10, 20) for p in range(3)}


def tasks(want: Wanted, ranges: int = 4, **options: str) -> list[ScanTask]:
    parsed = SourceOptions.parse({**NEEDED, **options})
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


def places_by(name: str, counts: Iterable[int]) -> set[tuple[int, bytes]]:
    """Where producers have put the keys while the topic had so many partitions."""
    return {(PARTITIONERS[name](key, count), key) for key in KEYS for count in counts}


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ({"partitionCounts": "[3]"}, [3]),
        ({"partitionCounts": "[1, 3]"}, [1, 3]),
        ({"partitionCounts": "[1]"}, [1, 2, 3]),  # it has grown since, nobody knows how
        ({}, [1, 2, 3]),
        ({"partitionCounts": "[1, 5]"}, [1, 2, 3]),  # another topic's
        ({"partitionCounts": "[3, 5]"}, [3]),  # of two topics
    ],
)
def test_and_only_in_partitions_where_the_partitioner_may_ever_have_put_them(
    name: str, said: dict[str, str], counts: list[int]
) -> None:
    found = tasks(Wanted(keys=frozenset(KEYS)), partitioner=name, **said)
    told = {(task.tp.partition, key) for task in found for key in task.keys or ()}
    assert told == places_by(name, counts)


def test_tasks_carry_their_own_keys_alone() -> None:
    keys = frozenset(b"key-%06d" % number for number in range(3_000))
    found = tasks(Wanted(keys=keys), 64)
    assert len(found) == 3 * 64
    for task in found:
        assert task.keys
        assert all(key_hash(key) in task.key_ranges[task.number] for key in task.keys)
    assert sum(len(task.keys or ()) for task in found) == 3 * len(keys)
    size = sum(len(pickle.dumps(task)) for task in found)
    assert size < 3 * sum(len(key) + 8 for key in keys) + 500 * len(found)


def test_a_task_of_many_is_small() -> None:
    found = tasks(Wanted(), 1_024)
    assert max(len(pickle.dumps(task)) for task in found) < 1_000


@pytest.mark.parametrize("made", [BatchReader, FilteredBatchReader, StreamReader])
def test_what_spark_sends_along_with_each_task_has_no_keys(made: Any) -> None:
    keys = json.dumps([f"key-{number}" for number in range(3_000)])
    source = KeyRangeSource({**NEEDED, "KEYS": keys})
    reader = made(source._checked(SCHEMA), SCHEMA, 4)
    assert reader._options.keys
    if made is FilteredBatchReader:
        reader.pushFilters([In(("key",), tuple(b"%d" % number for number in range(3_000)))])
    assert len(cloudpickle.dumps((reader, source))) < 10_000


class Deleted:
    """Reads two records, and then the topic is not there any more."""

    def __call__(self, *_: object, **__: object) -> Iterator[tuple[list[str], int]]:
        yield ["10", "11"], 12
        raise TopicMissingError("orders")


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_that_is_deleted_while_it_is_read_is_a_loss_that_names_its_offsets(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    monkeypatch.setattr(scan, "read_slice", Deleted())
    options = SourceOptions.parse({**NEEDED, "failOnDataLoss": fails})
    found = scan._read(options, TopicPartition("orders", 0), OffsetRange(10, 19), lambda: False)
    assert next(found) == (["10", "11"], 12)
    if fails == "true":
        with pytest.raises(OffsetsGoneError, match=r"orders-0 offsets \[12-19\].*was deleted"):
            next(found)
    else:
        assert [*found] == [([], 20)]
        assert "orders-0 offsets [12-19]" in caplog.text


def test_a_python_that_only_reads_loads_no_more_than_it_needs() -> None:
    """Each query starts some; kafka-python alone took as long to load as all the rest."""
    looks = "import sys, streams_adapter.format; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", looks], capture_output=True, text=True, check=True)
    loaded = {*said.stdout.split()}
    assert "streams_adapter.source.scan" in loaded
    assert not {"kafka", "streams_adapter.sinks", "pandas"} & loaded


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
        GreaterThanOrEqual(("timestamp",), datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
        GreaterThan(("timestamp",), datetime(1969, 12, 31, 23, 59, 59, 998_000, UTC)),
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
