"""What rows say to Kafka: the columns of Spark's own Kafka sink. Pure.

In: a dataframe's schema, Arrow batches. Out: records, and a fingerprint of each; or an error that
names the column, before anything runs where the schema tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import mmh3
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from coop_consumer.errors import MisuseError

OutputHeaders: TypeAlias = tuple[tuple[str, bytes | None], ...]
DIGEST_END = 2**63
"""Fingerprints are added modulo this."""

_TEXT_OR_BYTES = "string or binary"
_KINDS = {
    "value": _TEXT_OR_BYTES,
    "key": _TEXT_OR_BYTES,
    "topic": "string",
    "partition": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
_ANY_PARTITION = -1


class OutputRecord(NamedTuple):
    """One to write; partition -1: by its key."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: OutputHeaders = ()
    partition: int = _ANY_PARTITION

    def fingerprint(self) -> int:
        """Equal for equal records, in every process; 0 to 2**63 - 1."""
        return mmh3.hash64(repr(tuple(self)).encode(), signed=False)[0] % DIGEST_END


def check_columns(schema: StructType, topic: str | None, call: str) -> None:
    """See that rows of this schema can be written.

    Args:
        schema: Of the dataframe.
        topic: Where all go, if that is not for a column to say.
        call: Who asks, for the error.

    Raises:
        MisuseError: A column is missing, unknown, or of another type.
    """
    all_known = ", ".join(f"{name} ({kind})" for name, kind in _KINDS.items())
    for field in schema.fields:
        if field.name not in _KINDS:
            raise MisuseError(
                call,
                f"column {field.name} is none that a record has",
                f"Select only these: {all_known}",
            )
        if not _fits(field):
            raise MisuseError(
                call,
                f"column {field.name} is {field.dataType.simpleString()}, not {_KINDS[field.name]}",
                "Cast it; values are bytes for Kafka, so encode them first (to_json, to_avro)",
            )
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise MisuseError(call, f"there are two columns {twice}", "Select one of them")
    if "value" not in schema.names:
        raise MisuseError(call, "there is no column value", f"Name it so; known are: {all_known}")
    if topic is None and "topic" not in schema.names:
        raise MisuseError(
            call,
            "neither a topic is named nor is there a column topic",
            "Name one topic for all rows, or select a column topic",
        )


def _fits(field: StructField) -> bool:
    kind: DataType = field.dataType
    match field.name:
        case "value" | "key":
            return isinstance(kind, StringType | BinaryType)
        case "topic":
            return isinstance(kind, StringType)
        case "partition":
            return isinstance(kind, IntegerType)
        case _:
            return isinstance(kind, ArrayType) and _is_header(kind.elementType)


def _is_header(kind: DataType) -> bool:
    return (
        isinstance(kind, StructType)
        and kind.names == ["key", "value"]
        and isinstance(kind["key"].dataType, StringType)
        and isinstance(kind["value"].dataType, BinaryType)
    )


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """The rows of Arrow batches."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def records_of(
    rows: Iterable[Sequence[Any]], names: Sequence[str], topic: str | None, call: str
) -> Iterator[OutputRecord]:
    """The records of checked rows, in their order. `topic` wins over the column, as in Spark.

    Args:
        rows: Of whatever kind, as Spark hands them to Python.
        names: Of their columns.
        topic: See `check_columns`.
        call: See there.

    Raises:
        MisuseError: A row has no topic, a partition below 0, or a header without a name.
    """
    places = {name: number for number, name in enumerate(names)}

    def column(name: str) -> Callable[[Sequence[Any]], Any]:
        return itemgetter(places[name]) if name in places else lambda _: None

    topic_of, value_of, key_of = column("topic"), column("value"), column("key")
    headers_of, partition_of = column("headers"), column("partition")
    for row in rows:
        target = topic or topic_of(row)
        if not target:
            raise MisuseError(call, "a row has no topic", "Fill the column, or filter the row")
        partition = partition_of(row)
        if partition is not None and partition < 0:
            raise MisuseError(
                call, f"a row has partition {partition}", "Leave it null: the key decides then"
            )
        yield OutputRecord(
            target,
            _bytes(value_of(row)),
            _bytes(key_of(row)),
            _headers(headers_of(row), call),
            _ANY_PARTITION if partition is None else partition,
        )


def _bytes(given: str | bytes | bytearray | None) -> bytes | None:
    if isinstance(given, str):
        return given.encode()
    return bytes(given) if isinstance(given, bytearray) else given


def _headers(given: Sequence[Any] | None, call: str) -> OutputHeaders:
    """Of structs, which are rows or dicts."""
    found: list[tuple[str, bytes | None]] = []
    for header in given or ():
        name = None if header is None else header["key"]
        if name is None:
            raise MisuseError(call, "a row has a header without a name", "Filter it out")
        found.append((name, _bytes(header["value"])))
    return tuple(found)
