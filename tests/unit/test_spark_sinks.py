"""The pure parts of Spark's sinks: what rows say, what may be written when, what was seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from coop_consumer.errors import (
    BatchConflictError,
    ConfigError,
    MisuseError,
    TopicMissingError,
)
from coop_consumer.kafka.gathered import Gathered
from coop_consumer.kafka.own_topics import batch_limit
from streams_adapter.sinks import BatchWriter, SinkOptions, cleanup, kafka_writer
from streams_adapter.sinks.columns import OutputRecord, check_columns, records_of, rows_of
from streams_adapter.sinks.marks import (
    BatchPlan,
    Written,
    check_current,
    check_same,
    has_written,
    next_plan,
)
from streams_adapter.sinks.protocol import _each_written

TEXT, BYTES, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()
HEADERS = ArrayType(StructType().add("key", TEXT).add("value", BYTES))


def schema(columns: dict[str, DataType]) -> StructType:
    found = StructType()
    for name, kind in columns.items():
        found = found.add(name, kind)
    return found


@pytest.mark.parametrize(
    ("columns", "topic"),
    [
        ({"value": TEXT}, "out"),
        ({"value": BYTES, "topic": TEXT}, None),
        (
            {"value": BYTES, "key": TEXT, "topic": TEXT, "partition": INT, "headers": HEADERS},
            "out",
        ),
    ],
)
def test_the_columns_of_spark_s_own_sink_are_taken(
    columns: dict[str, DataType], topic: str | None
) -> None:
    check_columns(schema(columns), topic, "write")


@pytest.mark.parametrize(
    ("columns", "topic", "said"),
    [
        ({"key": TEXT}, "out", "no column value"),
        ({"value": TEXT}, None, "neither a topic is named nor is there a column topic"),
        ({"value": LONG}, "out", "column value is bigint, not string or binary"),
        ({"value": TEXT, "partition": LONG}, "out", "column partition is bigint, not int"),
        ({"value": TEXT, "topic": BYTES}, None, "column topic is binary, not string"),
        ({"value": TEXT, "price": INT}, "out", "column price is none that a record has"),
        ({"value": TEXT, "headers": MapType(TEXT, BYTES)}, "out", "not array<struct<key:string"),
        (
            {"value": TEXT, "headers": ArrayType(StructType().add("k", TEXT).add("v", BYTES))},
            "out",
            "not array<struct",
        ),
    ],
)
def test_other_columns_are_refused_by_name(
    columns: dict[str, DataType], topic: str | None, said: str
) -> None:
    with pytest.raises(MisuseError, match=said):
        check_columns(schema(columns), topic, "write")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("includeHeaders", "Leave it out: headers are written"),
        ("subscribe", "To write, say topic"),
        ("colour", "Known are topic, name, firstBatch"),
    ],
)
def test_an_option_of_spark_s_own_sink_is_answered_with_what_is_here(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"{name.lower()} is no option of this sink.*{said}"):
        SinkOptions.parse({"topic": "out", "name": "n", name: "true"})


def test_two_columns_of_a_name_are_refused() -> None:
    twice = StructType().add("value", TEXT).add("value", BYTES)
    with pytest.raises(MisuseError, match="two columns value"):
        check_columns(twice, "out", "write")


def records(named: str | None = None, **columns: Any) -> list[OutputRecord]:
    batches = [pa.RecordBatch.from_pydict(columns)]
    return list(records_of(rows_of(batches), [*columns], named, "write"))


def test_rows_become_records_in_their_order() -> None:
    header = pa.array(
        [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    found = records("out", value=["é", None], key=[b"k", None], partition=[3, None], headers=header)
    assert found == [
        OutputRecord("out", "é".encode(), b"k", (("h", b"1"), ("h", None)), 3),
        OutputRecord("out", None, None, (), -1),
    ]


def test_a_named_topic_wins_over_the_column() -> None:
    columns = {"value": ["a", "b"], "topic": ["t1", "t2"]}
    rows = list(zip(*columns.values(), strict=True))
    assert [it.topic for it in records_of(rows, [*columns], None, "write")] == ["t1", "t2"]
    assert [it.topic for it in records_of(rows, [*columns], "out", "write")] == ["out", "out"]


def test_rows_as_spark_hands_them_to_python_are_taken() -> None:
    row = Row(bytearray(b"v"), [Row(key="h", value=bytearray(b"1"))])
    [found] = records_of([row], ["value", "headers"], "out", "write")
    assert found == OutputRecord("out", b"v", None, (("h", b"1"),))
    assert isinstance(found.value, bytes)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"value": ["a"], "topic": [None]}, "a row has no topic"),
        ({"value": ["a"], "topic": ["t"], "partition": [-1]}, "a row has partition -1"),
        (
            {"value": ["a"], "topic": ["t"], "headers": [[{"key": None, "value": b""}]]},
            "a header without a name",
        ),
    ],
)
def test_a_row_that_cannot_be_a_record_is_refused(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(MisuseError, match=said):
        records(**columns)


def test_a_fingerprint_tells_records_apart_and_never_changes() -> None:
    record = OutputRecord("out", b"value", b"key", (("h", b"1"),), 3)
    others = [
        record._replace(topic="in"),
        record._replace(value=None),
        record._replace(key=b"value", value=b"key"),
        record._replace(headers=()),
        record._replace(partition=-1),
    ]
    assert len({it.fingerprint() for it in [record, *others]}) == 6
    assert record.fingerprint() == 4485165049917200301  # lies in Kafka, for later versions


def test_marks_are_read_as_they_were_written() -> None:
    plan, written = BatchPlan("q", 17, 4), Written("q", 17, 1_000, 2**63 - 1)
    assert BatchPlan.parse(plan.text()) == plan
    assert Written.parse(written.text()) == written


@pytest.mark.parametrize(
    "text", ["", "coop:1:x", "[]", "{}", '{"query":"q","batch":-1,"parts":1}', "{"]
)
def test_what_is_no_mark_is_told(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of json's or ours
        BatchPlan.parse(text)
    with pytest.raises(ValueError):  # noqa: PT011
        Written.parse(text)


def test_batches_are_planned_one_after_the_other() -> None:
    first = next_plan("s", None, BatchPlan("q", 0, 2), 0)
    assert first == BatchPlan("q", 0, 2)
    assert next_plan("s", first, BatchPlan("q", 1, 2), 0) == BatchPlan("q", 1, 2)
    assert next_plan("s", first, BatchPlan("q", 5, 2), 0) == BatchPlan("q", 5, 2), (
        "calls may be left out"
    )


def test_a_batch_that_comes_again_keeps_its_parts() -> None:
    begun = BatchPlan("q", 3, 4)
    assert next_plan("s", begun, BatchPlan("q", 3, 1), 0) == begun
    assert next_plan("s", begun, BatchPlan("q", 4, 1), 0) == BatchPlan("q", 4, 1)


def test_a_query_with_a_new_checkpoint_takes_the_name_over_at_its_first_batch() -> None:
    assert next_plan("s", BatchPlan("old", 40, 2), BatchPlan("new", 0, 1), 0) == BatchPlan(
        "new", 0, 1
    )
    with pytest.raises(BatchConflictError, match="query new took this name"):
        next_plan("s", BatchPlan("new", 0, 1), BatchPlan("old", 41, 2), 0)


def test_an_older_batch_than_the_last_is_refused() -> None:
    with pytest.raises(BatchConflictError, match="batch 40 is written already"):
        next_plan("s", BatchPlan("q", 40, 2), BatchPlan("q", 39, 2), 0)


def test_a_batch_without_any_mark_before_it_is_refused_unless_told_to_be_the_first() -> None:
    with pytest.raises(BatchConflictError, match="first_batch=17"):
        next_plan("s", None, BatchPlan("q", 17, 1), 0)
    assert next_plan("s", None, BatchPlan("q", 17, 1), 17) == BatchPlan("q", 17, 1)


def test_a_part_is_written_once() -> None:
    plan = BatchPlan("q", 3, 2)
    assert not has_written("s", plan, None)
    assert not has_written("s", plan, Written("q", 2, 9, 9))
    assert not has_written("s", plan, Written("before", 99, 9, 9))
    assert has_written("s", plan, Written("q", 3, 9, 9))
    with pytest.raises(BatchConflictError, match="a part of batch 4 is written"):
        has_written("s", plan, Written("q", 4, 9, 9))


def test_a_part_that_comes_again_with_other_rows_is_refused() -> None:
    was = Written("q", 3, 9, 100)
    check_same("s", 1, was, Written("q", 3, 9, 100))
    with pytest.raises(BatchConflictError, match="part 1 was written with 9 rows, and now has 8"):
        check_same("s", 1, was, Written("q", 3, 8, 100))
    with pytest.raises(BatchConflictError, match="writers=1"):
        check_same("s", 1, was, Written("q", 3, 9, 101))


def test_a_task_that_was_left_behind_writes_nothing() -> None:
    check_current("s", BatchPlan("q", 3, 2), BatchPlan("q", 3, 2))
    for now in (BatchPlan("q", 4, 2), BatchPlan("q", 3, 4), BatchPlan("other", 0, 2), None):
        with pytest.raises(BatchConflictError, match="left over"):
            check_current("s", BatchPlan("q", 3, 2), now)


CONFIG = {"bootstrap.servers": "nobody:1"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": ""}, "name is empty"),
        ({"name": None}, "name is None"),
        ({"name": "s", "writers": 0}, "writers=0"),
        ({"name": "s", "writers": "8"}, "writers=8. .*whole number from 1 to 1000"),
        ({"name": "s", "first_batch": -1}, "first_batch=-1"),
        ({"name": "s", "first_batch": "3"}, "first_batch=3. .*whole number from 0"),
        ({"name": "s", "topic": "totals\0x"}, r"no topic can be called totals\\x00x. .*1 to 249"),
        ({"name": "s", "topic": ["totals"]}, "no topic can be called"),
    ],
)
def test_a_sink_that_cannot_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(MisuseError, match=said):
        kafka_writer(CONFIG, **arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"identity": "source.offset"}, "identity=source.offset. .*Give the names of one header"),
        ({"identity": ()}, "identity=.*Give the names of one header"),
        ({"identity": (b"source.offset",)}, "Give the names of one header"),
        ({"look_back": 0}, "look_back=0. .*whole number from 1"),
        ({"look_back": "9"}, "look_back=9. .*whole number from 1"),
        ({"unidentified": "skip"}, "unidentified='skip'"),
    ],
)
def test_a_cleaning_that_cannot_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(MisuseError, match=said):
        cleanup(cast("Any", None), CONFIG, "totals", "totals.clean", **arguments)
    with pytest.raises(ConfigError, match="topics"):
        cleanup(cast("Any", None), CONFIG, "totals", "to tals")


def test_a_sink_s_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"group\.id is the sink's name"):
        kafka_writer({**CONFIG, "group.id": "billing"}, name="s")
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        kafka_writer({"bootstrap.server": "x"}, name="s")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kafka.bootstrap.servers": "x"}, "name is missing"),
        ({"kafka.bootstrap.servers": "x", "name": "s", "topics": "a"}, "topics is no option"),
        ({"kafka.bootstrap.servers": "x", "name": "s", "firstBatch": "a"}, "firstBatch=a"),
        ({"kafka.bootstrap.servers": "x", "name": "s", "firstBatch": "9" * 5_000}, "firstBatch=9"),
    ],
)
def test_options_of_the_format_are_checked(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SinkOptions.parse(options)


def test_a_job_that_would_overwrite_is_refused() -> None:
    options = SinkOptions.parse({"kafka.bootstrap.servers": "x", "name": "s"})
    with pytest.raises(MisuseError, match="would delete what is there"):
        BatchWriter(options, schema({"value": TEXT, "topic": TEXT}), overwrite=True)


def test_options_may_be_in_any_case() -> None:
    found = SinkOptions.parse({"KAFKA.bootstrap.servers": "x", "Name": "s", "FIRSTBATCH": "7"})
    assert (found.sink.name, found.sink.first_batch, found.topic) == ("s", 7, None)


def test_a_row_s_topic_is_a_name_that_a_topic_can_have() -> None:
    sink = SinkOptions.parse({"kafka.bootstrap.servers": "x", "name": "totals"}).sink
    rows = [OutputRecord("to tals", b"1")]
    with pytest.raises(MisuseError, match=r"sink totals: a row has topic to tals.*1 to 249"):
        [*_each_written(sink, cast("Any", SimpleNamespace(send=None)), rows)]


def test_of_a_topic_no_more_is_gathered_than_it_takes() -> None:
    sent: list[object] = []
    limits = {"small": 1_000, "large": None}
    gathered = Gathered(limits.__getitem__, lambda: sent.append("sent"))
    for topic in limits:
        gathered.begin(topic)
    for record in [
        OutputRecord("small", b"x" * 500),
        OutputRecord("large", b"x" * 5_000),
        OutputRecord("small", b"x" * 500),
        OutputRecord("small", b"x" * 100, b"key" * 20, (("name", b"x" * 100),)),
        OutputRecord("small", b"x" * 2_000),  # by itself: the broker says that it is too large
        OutputRecord("small", None),
    ]:
        gathered.add(record.topic, record.value, record.key, record.headers)
        sent.append(record.topic)
    assert sent == [
        *("small", "large", "sent", "small", "small"),
        *("sent", "small", "sent", "small"),
    ]


@pytest.mark.parametrize(
    ("told", "passed", "limit"),
    [
        ({"max.message.bytes": "2000"}, {}, 1_750),
        ({"max.message.bytes": "1048588"}, {}, None),
        ({"max.message.bytes": "9000000"}, {}, None),
        ({}, {}, None),
        ({"max.message.bytes": "2000"}, {"kafka.batch.size": "1000"}, None),
    ],
)
def test_a_topic_limits_what_is_gathered_if_it_takes_less_than_a_producer_gathers(
    told: dict[str, str], passed: dict[str, str], limit: int | None
) -> None:
    options = {"kafka.bootstrap.servers": "x", "name": "totals", **passed}
    sink = SinkOptions.parse(options).sink
    topics = SimpleNamespace(describe=lambda *_, **__: {}, settings_of=lambda _: told)
    assert sink.rows_name_topics
    assert batch_limit(sink.config, cast("Any", topics), "out") == limit


def test_a_topic_that_is_missing_limits_nothing() -> None:
    def describe(*_: object, **__: object) -> None:
        raise TopicMissingError("out")

    sink = SinkOptions.parse({"kafka.bootstrap.servers": "x", "name": "totals"}).sink
    topics = cast("Any", SimpleNamespace(describe=describe))
    assert batch_limit(sink.config, topics, "out") is None
