"""A changelog whose records carry the offset of their input: what a record is, and its fold. Pure.

In: the records of a changelog, in order. Out: the state, and the input's offset to go on at. Each
transaction ends with a record of the reserved key `POSITION`, so inputs that change nothing count,
too, and compaction, which may remove a deletion, never removes the position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from coop_consumer.errors import LogConflictError, MisuseError
from coop_consumer.patterns.stamp import own_number, stamp_in

if TYPE_CHECKING:
    from coop_consumer.kafka.publish import Headers

POSITION = b"\0coop.position"
"""The key of the records that say how far the input is done; their value is the input's id."""

State = TypeVar("State")
Apply = Callable[[State, bytes, bytes | None], object]


def set_value(state: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
    """Apply a change that is the key's new value; None deletes the key.

    >>> state = {b"a": b"1"}
    >>> set_value(state, b"b", b"2"), set_value(state, b"a", None)
    (None, None)
    >>> state
    {b'b': b'2'}
    """
    if value is None:
        state.pop(key, None)
    else:
        state[key] = value


@dataclass(slots=True)
class Folded(Generic[State]):
    """The state so far, and where the input goes on.

    Attributes:
        state: After the last record.
        next_offset: Of the input; None: no record yet.
        source_id: The input's topic, as the last position says; "": no position yet.
    """

    state: State
    next_offset: int | None = None
    source_id: str = ""


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """A record of a changelog; `place` is for an error."""

    place: str
    key: bytes | None
    value: bytes | None
    headers: Headers


def fold(
    folded: Folded[State], apply: Apply[State], writer: str, records: Iterable[ChangeRecord]
) -> None:
    """Apply records of the changelog.

    Args:
        folded: Changed in place.
        apply: Applies a change to the state.
        writer: Whose changelog it is.
        records: In the order of their offsets.

    Raises:
        LogConflictError: A record is not the writer's own.
    """
    for record in records:
        _fold_one(folded, apply, writer, record)


def _fold_one(
    folded: Folded[State], apply: Apply[State], writer: str, record: ChangeRecord
) -> None:
    offset = own_number(stamp_in(record.headers), writer, record.place)
    if record.key is None:
        raise LogConflictError(
            writer,
            record.place,
            "this change has no key",
            "Give the changelog a partition of its own",
        )
    if record.key == POSITION:
        folded.source_id = (record.value or b"").decode(errors="replace")
    else:
        apply(folded.state, record.key, record.value)
    folded.next_offset = max(offset + 1, folded.next_offset or 0)


def checked_value(writer: str, value: object) -> bytes | None:
    """A value that a change can have. A text would be another value after a restore.

    Raises:
        MisuseError: It is none.
    """
    if value is not None and not isinstance(value, bytes):
        raise MisuseError(
            f"{writer}: change()", f"the value is {value!r:.60}", "Give a value in bytes, or None"
        )
    return value


def checked_key(writer: str, key: object) -> bytes:
    """A key that a change can have.

    Raises:
        MisuseError: It is none.
    """
    if not isinstance(key, bytes):
        raise MisuseError(f"{writer}: change()", f"the key is {key!r:.60}", "Give a key in bytes")
    if key == POSITION:
        raise MisuseError(
            f"{writer}: change()",
            f"the key is {key!r}, by which the changelog says how far its input is done",
            "Give this change another key",
        )
    return key
