"""Messages become rows: each in its key range, none twice, in the columns that are asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from assignors import WHOLE, TopicPartition, key_hash, null_key_hash
from coop_consumer.errors import ConfigError
from streams_adapter.source.rows import SCHEMA, WITH_HEADERS, Columns, check_columns
from tests.simulation.data_log import SimMessage

TP = TopicPartition("orders", 2)
ALL = SCHEMA.fieldNames()


def messages(count: int, keys: int = 50) -> list[SimMessage]:
    return [SimMessage(2, i, None if i % 7 == 0 else b"key-%d" % (i % keys)) for i in range(count)]


@pytest.mark.parametrize("ranges", [1, 4, 64])
def test_each_record_is_in_the_batch_of_its_key_range_in_order(ranges: int) -> None:
    columns = Columns(ALL, TP, WHOLE.parts(ranges))
    given = messages(1_000)
    split = columns.split(given)
    assert len(split) == ranges
    assert sorted(o for batch in split for o in batch["offset"].to_pylist()) == [*range(1_000)]
    for number, batch in enumerate(split):
        assert batch.equals(columns.of(given, number))
        assert all(a < b for a, b in pairwise(batch["offset"].to_pylist()))
        own = WHOLE.parts(ranges)[number]
        for key, hash_, offset, range_ in zip(
            *(batch[name].to_pylist() for name in ("key", "key_hash", "offset", "key_range")),
            strict=True,
        ):
            assert hash_ == (null_key_hash(2, offset) if key is None else key_hash(key))
            assert hash_ in own
            assert range_ == {"lo": own.lo, "hi": own.hi}


def test_ranges_that_are_not_read_leave_their_records_out() -> None:
    parts = WHOLE.parts(8)
    columns = Columns(ALL, TP, [parts[1], parts[6]])
    given = messages(500)
    first, second = columns.split(given)
    assert first.equals(columns.of(given, 0))
    assert second.equals(columns.of(given, 1))
    assert 0 < first.num_rows + second.num_rows < 500


def test_only_wanted_keys() -> None:
    columns = Columns(["key", "offset"], TP, [WHOLE], frozenset({b"key-3"}))
    batch = columns.of(messages(200), 0)
    assert set(batch["key"].to_pylist()) == {b"key-3"}
    assert columns.split(messages(200))[0].equals(batch)


@pytest.mark.parametrize("names", [["key", "offset"], ["offset"]])
def test_who_fetches_for_all_knows_no_keys_and_each_takes_its_own(names: list[str]) -> None:
    parts, keys = WHOLE.parts(2), frozenset({b"key-3", b"key-4"})
    mine = Columns(names, TP, parts, keys)
    shared = Columns(mine.with_key, TP, parts).split(messages(200))
    for number, batch in enumerate(shared):
        assert mine.own(batch).equals(mine.of(messages(200), number))
    assert sum(mine.own(batch).num_rows for batch in shared) == 7


def test_columns_as_asked_and_without_any_message() -> None:
    columns = Columns(["offset", "partition"], TP, [WHOLE])
    batch = columns.of(messages(3), 0)
    assert batch.schema.names == ["offset", "partition"]
    assert batch.to_pydict() == {"offset": [0, 1, 2], "partition": [2, 2, 2]}
    assert Columns(ALL, TP, WHOLE.parts(3)).split([])[2].num_rows == 0


class Timed(SimMessage):
    """A record whose producer gave it a time."""

    def __init__(self, offset: int, kind: int, time_ms: int) -> None:
        super().__init__(2, offset, b"k")
        self._time = kind, time_ms

    def timestamp(self) -> tuple[int, int]:
        return self._time


def times_of(*times: tuple[int, int]) -> list[datetime | None]:
    made = Columns(["timestamp", "timestampType"], TP, [WHOLE])
    batch = made.of([Timed(at, *time) for at, time in enumerate(times)], 0)
    assert batch["timestampType"].to_pylist() == [kind - 1 for kind, _ in times]
    found: list[datetime | None] = batch["timestamp"].to_pylist()
    return found


def test_a_time_is_the_record_s_or_null() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)
    assert times_of((1, 0), (1, -5_000), (2, 253_402_300_799_999), (1, -62_135_596_800_000)) == [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 55, tzinfo=UTC),
        last,
        datetime(1, 1, 1, tzinfo=UTC),
    ]
    assert times_of((0, 0), (0, -1), (1, -1)) == [None, None, None], "written without a time"


@pytest.mark.parametrize(
    "time_ms",
    [253_402_300_800_000, 1_767_225_600_000_000, 2**62, 2**63 - 1, -62_135_596_800_001, -(2**63)],
)
def test_a_time_that_no_timestamp_can_be_is_null_and_told_once(
    time_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    now_ms = int(now.timestamp() * 1_000)
    found = times_of((1, now_ms), (1, time_ms), (1, time_ms), (2, now_ms))
    assert found == [now, None, None, now]
    [told] = caplog.messages
    assert told.startswith(f"orders-2 offset 1: its time is {time_ms} ms since 1970")


def test_a_schema_of_ones_own_is_a_part_of_ours() -> None:
    check_columns(StructType().add("offset", LongType()), with_headers=False)
    with pytest.raises(ConfigError, match="has length bigint, which is no column"):
        check_columns(StructType().add("length", LongType()), with_headers=False)
    with pytest.raises(ConfigError, match="includeHeaders=true"):
        check_columns(WITH_HEADERS, with_headers=False)


KINDS: dict[str, DataType] = {it.name: it.dataType for it in WITH_HEADERS.fields}


def asking(*names: str, null: bool = True) -> StructType:
    """These columns of ours."""
    return StructType([StructField(name, KINDS[name], null) for name in names])


@pytest.mark.parametrize("names", [["value"], ["offset", "key"], ["headers"], [*KINDS]])
def test_a_schema_that_is_taken_is_served(names: list[str]) -> None:
    """Spark compares what a task gives with the schema, nulls and order included."""
    asked = asking(*names)
    check_columns(asked, with_headers=True)
    batch = Columns(asked.fieldNames(), TP, [WHOLE]).of(messages(3), 0)
    assert batch.schema.equals(to_arrow_schema(asked, timezone="UTC"))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (asking("offset", null=False), "offset bigint NOT NULL.*Leave NOT NULL out.*IS NOT NULL"),
        (asking("key").add("value", BinaryType(), nullable=False), "value binary NOT NULL"),
        (
            StructType().add(
                "key_range", StructType().add("lo", LongType()).add("hi", LongType(), False)
            ),
            "key_range struct.*NOT NULL in it",
        ),
        (asking("offset", "offset"), "offset twice"),
        (StructType().add("OFFSET", LongType()), "OFFSET.*which is no column.*offset bigint"),
        (StructType().add("value", StringType()), "value string, which is no column"),
        (StructType().add("topic", VarcharType(10)), "topic varchar.10., which is no column"),
    ],
)
def test_a_schema_that_no_task_could_serve_is_refused_when_it_is_planned(
    asked: StructType, text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        check_columns(asked, with_headers=True)


def test_a_schema_without_columns_would_count_no_records() -> None:
    with pytest.raises(ConfigError, match="names no column"):
        check_columns(StructType(), with_headers=False)


def test_headers_that_may_not_be_null_are_refused() -> None:
    plain = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()), False)
    with pytest.raises(ConfigError, match=r"headers array.*NOT NULL in it"):
        check_columns(StructType().add("headers", plain), with_headers=True)
