"""What a query's filters say about where its records can lie. Pure.

In: Spark's filters, all of which must hold. Out: a `Wanted`: keys, partitions, offsets, a time.
Filters only narrow the reading: each goes back to Spark, which applies it to every row. Keys of the
option `keys` are applied here, as nobody else applies them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from offsets import OFFSET_MAX


@dataclass(frozen=True, slots=True)
class Wanted:
    """A superset of the records that a query is about.

    Attributes:
        keys: One of these; None: any.
        partitions: One of these; None: any.
        first: From this offset on.
        last: Up to this offset.
        since_ms: Not older than this, in Unix ms; None: of any time.
    """

    keys: frozenset[bytes] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    last: int = OFFSET_MAX
    since_ms: int | None = None

    def narrowed(self, filters: Iterable[Filter]) -> Wanted:
        """The same, and the filters as far as they say anything here.

        >>> found = Wanted().narrowed([EqualTo(("partition",), 1), GreaterThan(("offset",), 41)])
        >>> found.partitions, found.first
        (frozenset({1}), 42)
        """
        found = self
        for it in filters:
            found = found._narrowed(it)
        return found

    def _narrowed(self, it: Filter) -> Wanted:
        column = ".".join(getattr(it, "attribute", ()))
        match column:
            case "key":
                return self._with(keys=_both(self.keys, _values(it, bytes)))
            case "partition":
                return self._with(partitions=_both(self.partitions, _values(it, int)))
            case "offset":
                first, last = _bounds(it)
                return self._with(first=max(self.first, first), last=min(self.last, last))
            case "timestamp":
                return self._with(since_ms=_later(self.since_ms, _since_ms(it)))
            case _:
                return self

    def _with(self, **changes: Any) -> Wanted:
        known = {name: getattr(self, name) for name in self.__slots__}
        return Wanted(**(known | changes))


def _values(it: Filter, kind: type) -> frozenset[Any] | None:
    match it:
        case EqualTo(value=value) | EqualNullSafe(value=value):
            values = (value,)
        case In(value=many):
            values = tuple(many)
        case _:
            return None
    # A null equals nothing, so it adds nothing; `<=> null` is about records that no set here names.
    if isinstance(it, EqualNullSafe) and it.value is None:
        return None
    plain = [bytes(v) if isinstance(v, bytearray | memoryview) else v for v in values]
    known = [value for value in plain if value is not None]
    return frozenset(known) if all(isinstance(value, kind) for value in known) else None


def _both(one: frozenset[Any] | None, other: frozenset[Any] | None) -> frozenset[Any] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _bounds(it: Filter) -> tuple[int, int]:
    """The first and the last offset that can be meant."""
    value = getattr(it, "value", None)
    if isinstance(it, In):
        known = [at for at in it.value if isinstance(at, int)]
        return (min(known), max(known)) if known else (0, OFFSET_MAX)
    first, last = 0, OFFSET_MAX
    if isinstance(value, int):
        if isinstance(it, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual):
            first = value + isinstance(it, GreaterThan)
        if isinstance(it, EqualTo | EqualNullSafe | LessThan | LessThanOrEqual):
            last = value - isinstance(it, LessThan)
    return first, last


def _since_ms(it: Filter) -> int | None:
    """An upper bound in time says nothing on offsets: a later record may bear an earlier time."""
    value = getattr(it, "value", None)
    if not isinstance(it, GreaterThan | GreaterThanOrEqual | EqualTo):
        return None
    if not isinstance(value, datetime):
        return None
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    since_ms = int(moment.timestamp() * 1_000)
    return since_ms if since_ms > 0 else None  # to brokers -1 is the end, -2 the beginning


def _later(one: int | None, other: int | None) -> int | None:
    known = [at for at in (one, other) if at is not None]
    return max(known, default=None)
