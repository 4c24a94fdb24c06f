"""What is appended to a log and read from it, and the token that an append is conditional on. Pure.

In: keys, values, offsets. Out: values. A token names the last visible record that its holder knows
of. An offset alone is no token: a topic that was made again has the same offsets, and markers of
transactions and records of aborted appends take offsets, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

from coop_consumer.config.setting import shown
from coop_consumer.errors import MisuseError
from coop_consumer.plain_text import counted

APPEND_HEADER = "coop.append"
"""Of the first record of an append: the append's id, 16 random bytes."""
ID_HEADER = "coop.transactional.id"
"""Of the same record: the id that writes it, so that others can end its transaction."""
APPEND_ID_BYTES = 16
TOPIC_ID_BYTES = 16

_NUMBER_BYTES, _OFFSET_BYTES = 4, 8

RecordHeaders = tuple[tuple[str, bytes], ...]


class NewRecord(NamedTuple):
    """A record to append.

    Attributes:
        key: Its key, or None.
        value: Its bytes; None is a tombstone.
        headers: Further facts; names that begin with `coop.` are ours.
    """

    key: bytes | None
    value: bytes | None
    headers: RecordHeaders = ()


def size_of(record: object) -> int:
    """The bytes of a record's key and value.

    Raises:
        MisuseError: It is no record, or one that a log does not give back as it is.

    >>> size_of(NewRecord(b"door", b"open"))
    8
    """
    if isinstance(record, NewRecord):
        given: tuple[object, ...] = record
        key, value, headers = given
        if (
            (key is None or isinstance(key, bytes))
            and (value is None or isinstance(value, bytes))
            and (headers == () or _are_headers(headers))
        ):
            return len(key or b"") + len(value or b"")
    raise MisuseError(
        "append()",
        f"{shown(record)} is no record of a log",
        "Give NewRecord(key, value), with bytes or None, and headers as pairs of a text (in UTF-8) "
        "and bytes",
    )


def _are_headers(headers: object) -> bool:
    return isinstance(headers, tuple | list) and all(
        isinstance(it, tuple)
        and len(it) == 2
        and isinstance(it[0], str)
        and _is_encodable(it[0])
        and isinstance(it[1], bytes)
        for it in headers
    )


def _is_encodable(name: str) -> bool:
    """Whether UTF-8 has it; else confluent-kafka would crash the interpreter."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class VisibleRecord(NamedTuple):
    """A record that readers of committed records see."""

    offset: int
    key: bytes | None
    value: bytes | None


class TaggedRecord(NamedTuple):
    """A visible record with one of its headers; b"" if it has none of that name."""

    record: VisibleRecord
    tag: bytes


@dataclass(frozen=True, slots=True)
class LogToken:
    """The last visible record of a partition, as far as its holder knows.

    Attributes:
        topic_id: The 16 bytes of the topic; a topic that is made again has others.
        partition: Its number.
        offset: Of the record. If no record is visible: the offset below the first one of the log,
            which is -1 for a new log.
    """

    topic_id: bytes
    partition: int
    offset: int

    def at(self, offset: int) -> LogToken:
        """The token of another record of the same partition."""
        return LogToken(self.topic_id, self.partition, offset)

    def encode(self) -> bytes:
        """28 bytes, for `decode`."""
        numbers = self.partition.to_bytes(_NUMBER_BYTES, "big")
        return self.topic_id + numbers + self.offset.to_bytes(_OFFSET_BYTES, "big", signed=True)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The token that `encode` made bytes of.

        Raises:
            ValueError: These are no such bytes.

        >>> LogToken.decode(LogToken(bytes(16), 3, -1).encode()).offset
        -1
        """
        if not isinstance(data, bytes):
            raise ValueError(f"{type(data).__name__} is no token of a log, which has 28 bytes")  # noqa: TRY004 - as documented
        if len(data) != TOPIC_ID_BYTES + _NUMBER_BYTES + _OFFSET_BYTES:
            raise ValueError(
                f"{counted(len(data), 'byte is', 'bytes are')} no token of a log, which has 28"
            )
        rest = data[TOPIC_ID_BYTES:]
        number = int.from_bytes(rest[:_NUMBER_BYTES], "big")
        offset = int.from_bytes(rest[_NUMBER_BYTES:], "big", signed=True)
        return cls(data[:TOPIC_ID_BYTES], number, offset)

    def __str__(self) -> str:
        return f"partition {self.partition} of topic {self.topic_id.hex()}, offset {self.offset}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another record than the expected one is the last. Nothing was appended, and never will be.

    Attributes:
        expected: What the caller took for the last visible record.
        found: The last visible record that was seen.
    """

    expected: LogToken
    found: LogToken
