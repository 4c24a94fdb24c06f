"""Messages into Arrow batches, whole or split by key ranges.

In: the messages of one partition, ascending by offset. Out: record batches in the source's schema,
of the columns that are asked for. What is done for every record is done by lists and arrays: a loop
in Python would take as long as the fetch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from assignors import KeyRange, TopicPartition
from assignors.key_hash import key_hash, null_key_hash
from coop_consumer.core.record import Message, headers_of
from coop_consumer.errors import ConfigError
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

KEY_RANGE = StructType().add("lo", LongType()).add("hi", LongType())
_HEADERS = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))

SCHEMA = (
    StructType()
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("timestampType", IntegerType())
    .add("key_hash", LongType())
    .add("key_range", KEY_RANGE)
)
"""Spark's Kafka source has the first seven."""
WITH_HEADERS = StructType([*SCHEMA.fields]).add("headers", _HEADERS)

_RANGE = pa.struct([("lo", pa.int64()), ("hi", pa.int64())])
_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "key_hash": pa.int64(),
    "key_range": _RANGE,
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}

_NO_TIME_MS = -1
"""Of a record that was written without a time."""
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""What Spark's timestamps may be: the years 1 to 9999. Any number of 64 bits may be in a record."""

_KEY: Callable[[Message], bytes | None] = methodcaller("key")
_VALUE = methodcaller("value")
_OFFSET = methodcaller("offset")
_TIMESTAMP = methodcaller("timestamp")


def check_columns(asked: StructType, *, with_headers: bool) -> None:
    """See that a schema of the user's own is a part of ours.

    Spark compares it with what tasks give, so that what is not seen here fails in every task.

    Raises:
        ConfigError: It is not.
    """
    known: dict[str, DataType] = {it.name: it.dataType for it in WITH_HEADERS.fields}
    choice = ", ".join(f"{name} {kind.simpleString()}" for name, kind in known.items())
    if not asked.fields:
        raise ConfigError("schema()", "names no column", f"Choose of: {choice}")
    seen: set[str] = set()
    for it in asked.fields:
        told = f"has {it.name} {it.dataType.simpleString()}"
        if known.get(it.name) != _nullable(it.dataType):
            raise ConfigError(
                "schema()",
                f"{told}, which is no column of this source",
                f"Leave it out, or choose of: {choice}",
            )
        if it.name in seen:
            raise ConfigError("schema()", f"has {it.name} twice", "Leave one of them out")
        seen.add(it.name)
        if it.name == "headers" and not with_headers:
            raise ConfigError("schema()", "has headers", "Set includeHeaders=true as well")
        if known[it.name] != it.dataType or not it.nullable:
            within = "" if not it.nullable else " with NOT NULL in it"
            raise ConfigError(
                "schema()",
                f"{told}{within or ' NOT NULL'}: every column of this source may be null",
                "Leave NOT NULL out; a filter IS NOT NULL leaves out the rows",
            )


def _nullable(kind: DataType) -> DataType:
    """The same type, of which every part may be null."""
    if isinstance(kind, StructType):
        return StructType([StructField(it.name, _nullable(it.dataType)) for it in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    return kind


class Columns:
    """Makes record batches of one partition's messages.

    Args:
        names: Which columns, in which order.
        tp: Where the messages come from.
        key_ranges: In ascending order, disjoint; a record of no range is left out.
        keys: If given, only records with one of these keys.
    """

    def __init__(
        self,
        names: Sequence[str],
        tp: TopicPartition,
        key_ranges: Sequence[KeyRange],
        keys: frozenset[bytes] | None = None,
    ) -> None:
        self.schema = pa.schema([(name, _TYPES[name]) for name in names])
        self._names, self._tp, self._keys = tuple(names), tp, keys
        self._key_set = None if keys is None else pa.array(sorted(keys), _TYPES["key"])
        self._ranges = tuple(key_ranges)
        self._has_told = False
        self._los = np.array([r.lo for r in key_ranges], np.int64)
        self._his = np.array([r.hi for r in key_ranges], np.int64)

    @property
    def with_key(self) -> tuple[str, ...]:
        """The names, and the key's if `own` needs it."""
        is_missing = self._keys is not None and "key" not in self._names
        return (*self._names, "key") if is_missing else self._names

    def own(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Of a batch of all keys, with the columns `with_key`: the rows of these keys."""
        if self._key_set is None:
            return batch
        rows = batch.filter(pc.is_in(batch.column("key"), value_set=self._key_set))
        return rows.select(list(self._names))

    def of(self, messages: Sequence[Message], number: int) -> pa.RecordBatch:
        """The records of one key range, by its number."""
        messages, keys = self._of_keys(messages)
        hashes = self._hashes(messages, keys)
        low, high = self._los[number], self._his[number]
        mine = np.flatnonzero((hashes >= low) & (hashes <= high)).tolist()
        if len(mine) < len(messages):
            messages = [messages[i] for i in mine]
            keys, hashes = [keys[i] for i in mine], hashes[mine]
        return self._batch(messages, keys, hashes, np.full(len(messages), number))

    def split(self, messages: Sequence[Message]) -> list[pa.RecordBatch]:
        """A batch for every key range, in their order."""
        messages, keys = self._of_keys(messages)
        hashes = self._hashes(messages, keys)
        numbers = np.searchsorted(self._los, hashes, "right") - 1
        strays = (numbers < 0) | (hashes > self._his[numbers])
        numbers[strays] = len(self._ranges)
        order = np.argsort(numbers, kind="stable")
        cuts = np.searchsorted(numbers[order], np.arange(len(self._ranges) + 1))
        whole = self._batch(messages, keys, hashes, np.minimum(numbers, len(self._ranges) - 1))
        sorted_ = whole.take(pa.array(order[: cuts[-1]]))
        return [sorted_.slice(a, b - a) for a, b in pairwise(cuts)]

    def _of_keys(self, messages: Sequence[Message]) -> tuple[Sequence[Message], list[bytes | None]]:
        keys = list(map(_KEY, messages))
        if self._keys is None:
            return messages, keys
        places = [i for i, key in enumerate(keys) if key in self._keys]
        return [messages[i] for i in places], [keys[i] for i in places]

    def _hashes(
        self, messages: Sequence[Message], keys: Sequence[bytes | None]
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        if len(self._ranges) == 1 and self._ranges[0].size > _ALL and "key_hash" not in self._names:
            return np.zeros(len(messages), np.int64)  # nobody looks at it
        partition = self._tp.partition
        found = [
            null_key_hash(partition, messages[i].offset() or 0) if key is None else key_hash(key)
            for i, key in enumerate(keys)
        ]
        return np.array(found, np.int64)

    def _batch(
        self,
        messages: Sequence[Message],
        keys: list[bytes | None],
        hashes: np.ndarray[Any, np.dtype[np.int64]],
        numbers: np.ndarray[Any, np.dtype[np.int64]],
    ) -> pa.RecordBatch:
        count = len(messages)
        times = list(map(_TIMESTAMP, messages)) if self._wants_times() else []
        columns = []
        for name in self._names:
            kind = _TYPES[name]
            match name:
                case "key":
                    made = pa.array(keys, kind)
                case "value":
                    made = pa.array(list(map(_VALUE, messages)), kind)
                case "topic":
                    made = pa.repeat(pa.scalar(self._tp.topic, kind), count)
                case "partition":
                    made = pa.repeat(pa.scalar(self._tp.partition, kind), count)
                case "offset":
                    made = pa.array(list(map(_OFFSET, messages)), kind)
                case "timestamp":
                    made = self._times(times, messages)
                case "timestampType":
                    # Kafka's clients count from "none", Spark from "create time".
                    made = pa.array([it[0] - 1 for it in times], kind)
                case "key_hash":
                    made = pa.array(hashes, kind)
                case "key_range":
                    made = pa.StructArray.from_arrays(
                        [pa.array(self._los[numbers]), pa.array(self._his[numbers])], ["lo", "hi"]
                    )
                case _:
                    made = pa.array(list(map(_headers, messages)), kind)
            columns.append(made)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _times(self, times: Sequence[tuple[int, int]], messages: Sequence[Message]) -> pa.Array:
        count = len(times)
        kinds = np.fromiter(map(itemgetter(0), times), np.int64, count)
        stamps = np.fromiter(map(itemgetter(1), times), np.int64, count)
        none = (kinds == 0) | (stamps == _NO_TIME_MS)
        beyond = ~none & ((stamps < _FIRST_MS) | (stamps > _LAST_MS))
        if beyond.any() and not self._has_told:
            self._has_told = True
            at = int(np.argmax(beyond))
            log.warning(
                "%s offset %d: its time is %d ms since 1970, which is in none of the years 1 to "
                "9999: timestamp is null here, and where this task finds more of the kind. Maybe "
                "a producer counts in micro- or nanoseconds",
                self._tp, messages[at].offset(), stamps[at],
                extra=LogEvent.SPARK_TIME_UNUSABLE.extra(
                    tp=self._tp, offset=messages[at].offset() or 0
                ),
            )  # fmt: skip
        none |= beyond
        micros = np.where(none, 0, stamps) * 1_000
        return pa.array(micros, pa.int64(), mask=none).cast(_TYPES["timestamp"])

    def _wants_times(self) -> bool:
        return "timestamp" in self._names or "timestampType" in self._names


_ALL = 2**63 - 1
"""A range of more hashes than that is the whole space."""


def _headers(message: Message) -> list[dict[str, Any]] | None:
    found = headers_of(message)
    return [{"key": name, "value": value} for name, value in found] if found else None
