"""One record on its way through a member, and what it is made from. Pure.

A `Message` is whatever the data plane hands out (confluent-kafka's has exactly these methods); a
`Record` is what a `Worker` sees. Records are built up to a million times a second, so this is a
plain slotted class: it keeps the message and reads value, headers and timestamp only when asked.
Our books are kept by its slots (`record._offset`), which the member reads by their private names.
The public names are the handler's: what it assigns to them is read there till its attempt ends, and
nowhere else. A copy, pickled or not, is plain data: it holds nothing of the member, and is never
taken for the record itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core.tenure import Tenure


UNREADABLE = ("coop.unreadable", b"the name of a header is not UTF-8")

_headers_of: Callable[[Message], Sequence[tuple[str, bytes | None]] | None]
# Not `message.headers()`: it returns what it could make with the error set beside, and a call that
# CPython has specialised does not look whether one is.
_headers_of = methodcaller("headers")


KEY, KEY_HASH, OFFSET = attrgetter("_key"), attrgetter("_key_hash"), attrgetter("_offset")
SIZE, TENURE = attrgetter("_size"), attrgetter("_tenure")
"""Of many records at once, `list(map(KEY, records))`: a third of what a loop in Python takes."""


RECORD_BYTES = 600
"""What a record takes besides key, value and headers: its objects, and its places in tables."""

HEADER_BYTES = 150
"""What a header takes besides name and value."""

LARGE = 1_024
"""A key with headers of more bytes is counted with its record, smaller ones by their mean."""

_SAMPLE_STEP = 64
"""Of one message in so many they are looked at: a look makes objects of headers."""


class Message(Protocol):
    """What the fetcher hands out: confluent-kafka's `Message`, or the simulation's."""

    def offset(self) -> int | None:
        """Its offset; None only in error events, which never become records."""

    def key(self) -> bytes | None:
        """Its key."""

    def value(self) -> bytes | None:
        """Its value."""

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        """Its headers."""

    def set_headers(self, value: list[tuple[str, bytes | None]]) -> None:
        """Let these be its headers."""

    def timestamp(self) -> tuple[int, int]:
        """The kind of its timestamp (0: it has none), and the timestamp in ms."""
        ...

    def leader_epoch(self) -> int | None:
        """The epoch of the leader that wrote it."""

    def __len__(self) -> int:
        """Bytes of its value."""
        ...


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """The headers of a message in their order, a list of (name, value); empty if there are none.

    Where a name is not UTF-8 none of them can be had: a single header, `coop.unreadable`, says so
    in their place.
    """
    try:
        return list(_headers_of(message) or ())
    # confluent-kafka raises it, and asked again hands out tuples that crash whoever looks in.
    except (SystemError, UnicodeError):
        message.set_headers([UNREADABLE])
        return [UNREADABLE]


def size_beside(message: Message) -> int:
    """Bytes that key and headers of a message take. O(headers)."""
    size, headers = len(message.key() or b""), headers_of(message)
    if headers:
        size += sum(len(name) + len(value or b"") + HEADER_BYTES for name, value in headers)
    return size


def sampled_beside(messages: Sequence[Message]) -> list[int]:
    """The same of some of the messages, the first one included. O(messages / 64)."""
    return list(map(size_beside, messages[::_SAMPLE_STEP]))


@dataclass(frozen=True, slots=True)
class Origin:
    """What stands for the tenure in a copy: all that a record tells of it."""

    tp: TopicPartition


class Contents(NamedTuple):
    """A record as plain data, which can be pickled."""

    tp: TopicPartition
    offset: int
    key: bytes | None
    key_hash: int
    attempt: int
    size: int
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: tuple[int, int]
    leader_epoch: int | None


class Record:
    """A record to process.

    What it tells is to be read. A handler that assigns to it all the same, say a decoded `value`,
    reads there what it assigned; whoever processes the record next reads it as it came.

    A copy of it (by `pickle`, `copy`, or from another process) tells the same, but is another
    record: `done` refuses it.
    """

    __slots__ = ("_attempt", "_key", "_key_hash", "_message", "_offset", "_own", "_size", "_tenure")
    _own: dict[str, object]  # what a handler has assigned; not there before

    def __init__(
        self, tenure: Tenure, offset: int, key: bytes | None, key_hash: int, message: Message
    ) -> None:
        self._tenure = tenure
        self._offset = offset
        self._key = key
        self._key_hash = key_hash
        self._message = message
        self._size = len(message)
        self._attempt = 1

    @property
    def offset(self) -> int:
        """Its offset in the partition."""
        return self._offset

    @property
    def key(self) -> bytes | None:
        """The key's bytes, or None. An empty key is a key."""
        return self._key

    @property
    def key_hash(self) -> int:
        """Where the record lies in the hash space, 0 to 2**63 - 1."""
        return self._key_hash

    @property
    def attempt(self) -> int:
        """1 at the first try, one more after each failure."""
        return self._attempt

    @property
    def size(self) -> int:
        """Bytes of its value, and of its key and headers where these are large."""
        return self._size

    @property
    def tenure(self) -> Tenure:
        """For the member alone: the hold of ranges that it was admitted by."""
        return self._tenure

    @property
    def topic(self) -> str:
        """The topic it came from."""
        return self._tenure.tp.topic

    @property
    def partition(self) -> int:
        """The partition it came from."""
        return self._tenure.tp.partition

    @property
    def value(self) -> bytes | None:
        """The value's bytes; None for a tombstone."""
        return self._message.value()

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers in their order, a list of (name, value) of the caller's own.

        See `headers_of`.
        """
        return headers_of(self._message)

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970 (create or append time, as the topic is configured); -1: none."""
        kind, timestamp_ms = self._message.timestamp()
        return timestamp_ms if kind else -1

    @property
    def leader_epoch(self) -> int | None:
        """The epoch of the partition's leader that wrote it, if the broker told."""
        return self._message.leader_epoch()

    @property
    def is_copy(self) -> bool:
        """Whether it is plain data, and no record that a member has admitted."""
        return isinstance(self._tenure, Origin)

    def contents(self) -> Contents:
        """It as plain data."""
        return Contents(
            self._tenure.tp,
            self._offset,
            self._key,
            self._key_hash,
            self._attempt,
            self._size,
            self._message.value(),
            headers_of(self._message),
            self._message.timestamp(),
            self._message.leader_epoch(),
        )

    def __reduce__(self) -> tuple[Callable[..., Record], tuple[Contents, dict[str, object]]]:
        """Pickled, or copied, as plain data: what the member knows stays with the member."""
        return copy_of, (self.contents(), _assigned(self))

    def __repr__(self) -> str:
        return f"Record({place_of(self)}, key={self._key!r}, attempt={self._attempt})"


class _Assigned(Record):
    """A record that its handler has assigned to: it shows what it is told to."""

    __slots__ = ()


def _let_assign(name: str) -> None:
    """Let handlers assign to a property of records, and read there what they have assigned.

    A record changes its class then, so that nobody pays for it who doesn't.
    """
    as_it_came: property = vars(Record)[name]

    def assign(record: Record, value: object) -> None:
        if type(record) is Record:
            record.__class__, record._own = _Assigned, {}
        record._own[name] = value

    def read(record: Record) -> object:
        own = record._own
        return own[name] if name in own else as_it_came.__get__(record)

    setattr(Record, name, as_it_came.setter(assign))
    setattr(_Assigned, name, property(read, assign, doc=as_it_came.__doc__))


ASSIGNABLE = (
    *("topic", "partition", "offset", "key", "key_hash", "value", "headers", "timestamp_ms"),
    *("leader_epoch", "attempt", "size"),
)
for _name in ASSIGNABLE:
    _let_assign(_name)


def _assigned(record: Record) -> dict[str, object]:
    return record._own if type(record) is _Assigned else {}


def as_it_came(record: Record) -> None:
    """Forget what a handler has assigned: another attempt is about to begin."""
    if type(record) is not Record:
        record.__class__ = Record


def place_of(record: Record) -> str:
    """Where it lies, as in `orders-3@1042`."""
    return f"{record._tenure.tp}@{record._offset}"


def copy_of(contents: Contents, assigned: Mapping[str, object] | None = None) -> Record:
    """A record that tells what was told of another one.

    Args:
        contents: Of the other one.
        assigned: What its handler has assigned to it, by name.
    """
    tenure = cast("Tenure", Origin(contents.tp))
    message = _PlainMessage(contents)
    record = Record(tenure, contents.offset, contents.key, contents.key_hash, message)
    record._attempt, record._size = contents.attempt, contents.size
    for name, value in (assigned or {}).items():
        setattr(record, name, value)
    return record


def count_attempt(record: Record, attempt: int) -> None:
    """The next call of its handler is this attempt."""
    record._attempt = attempt


def count_beside(record: Record) -> None:
    """Count key and headers, too."""
    record._size += size_beside(record._message)


def count_no_more(record: Record) -> None:
    """Its size is counted nowhere any more."""
    record._size = 0


class _PlainMessage:
    """A message as it is in a copy."""

    __slots__ = ("_contents",)

    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def offset(self) -> int:
        return self._contents.offset

    def key(self) -> bytes | None:
        return self._contents.key

    def value(self) -> bytes | None:
        return self._contents.value

    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        return self._contents.headers

    def set_headers(self, value: list[tuple[str, bytes | None]]) -> None:
        raise AssertionError(f"these were read before, {value} need not take their place")

    def timestamp(self) -> tuple[int, int]:
        return self._contents.timestamp

    def leader_epoch(self) -> int | None:
        return self._contents.leader_epoch

    def __len__(self) -> int:
        return len(self._contents.value or b"")
