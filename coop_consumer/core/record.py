"""One record on its way through a member, and what it is made from. Pure.

A `Message` is whatever the data plane hands out (confluent-kafka's has exactly these methods). A
`Record` is what a `Worker` sees. Records are built up to a million times a second, so `Record` is a
plain slotted class. It keeps the message, and reads value, headers and timestamp only when asked.
The member reads the slots by their private names (`record._offset`). The public names are the
handler's: it may assign to them, and reads its own values there until its attempt ends. Each
attempt has a `Record` of its own, so nothing of an attempt gets into the next one. A copy, pickled
or not, is plain data. It holds nothing of the member, and never counts as the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, cast

from coop_consumer.config import LogKeys
from coop_consumer.core.key_names import shown
from coop_consumer.core.trace import trace_of
from coop_consumer.log_events import Facts

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core.tenure import Tenure
    from coop_consumer.core.trace import RecordTrace


UNREADABLE = ("coop.unreadable", b"the name of a header is not UTF-8")

_headers_of: Callable[[Message], Sequence[tuple[str, bytes | None]] | None]
# Not `message.headers()`: confluent-kafka may return a list and set an error, too, and a call that
# CPython has specialised does not look for an error.
_headers_of = methodcaller("headers")


KEY, KEY_HASH, OFFSET = attrgetter("_key"), attrgetter("_key_hash"), attrgetter("_offset")
SIZE, TENURE = attrgetter("_size"), attrgetter("_tenure")
"""For many records at once: `list(map(KEY, records))` takes a third of the time of a loop."""


RECORD_BYTES = 600
"""Bytes of a record besides key, value and headers: its objects, and its places in tables."""

HEADER_BYTES = 150
"""Bytes of a header besides name and value."""

LARGE = 1_024
"""Above so many bytes, key and headers are counted with their record; below, by their mean."""

_SAMPLE_STEP = 64
"""One message in so many is looked at, because a look makes Python objects of its headers."""


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

    If a name is not UTF-8, none of the headers can be read. A single header `coop.unreadable` says
    so in their place.
    """
    try:
        return list(_headers_of(message) or ())
    # confluent-kafka raises one of these. Asked again it returns tuples that crash the interpreter.
    except (SystemError, UnicodeError):
        message.set_headers([UNREADABLE])
        return [UNREADABLE]


def size_beside(message: Message) -> int:
    """Bytes of the key and the headers of a message. O(headers)."""
    size, headers = len(message.key() or b""), headers_of(message)
    if headers:
        size += sum(len(name) + len(value or b"") + HEADER_BYTES for name, value in headers)
    return size


def sampled_beside(messages: Sequence[Message]) -> list[int]:
    """The same for some of the messages, the first one included. O(messages / 64)."""
    return list(map(size_beside, messages[::_SAMPLE_STEP]))


@dataclass(frozen=True, slots=True)
class Origin:
    """The part of a tenure that a copy of a record has: nothing that is filed there counts."""

    tp: TopicPartition
    is_void: ClassVar[bool] = True


class Contents(NamedTuple):
    """A record as plain data that can be pickled."""

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

    Its attributes are meant to be read. If a handler assigns to one, say a decoded `value`, the
    handler reads its own value there. The next attempt reads the record as it came.

    A copy (by `pickle`, `copy`, or from another process) has the same attributes, but is another
    record: `done` refuses it.
    """

    __slots__ = (
        *("_attempt", "_key", "_key_hash", "_message", "_offset", "_own", "_size"),
        *("_tenure", "_trace"),
    )
    _own: dict[str, object]  # what a handler has assigned; unset before
    _trace: RecordTrace  # its span, over its attempts; unset where nobody traces it

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
        """For the member alone: the tenure that admitted it."""
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
        """The epoch of the partition's leader that wrote it, if the broker says so."""
        return self._message.leader_epoch()

    @property
    def is_copy(self) -> bool:
        """Whether it is a copy, not the record that a member has admitted."""
        return isinstance(self._tenure, Origin)

    def contents(self) -> Contents:
        """The record as plain data."""
        return Contents(
            self._tenure.tp,
            self._offset,
            self._key,
            self._key_hash,
            int(self._attempt),
            self._size,
            self._message.value(),
            headers_of(self._message),
            self._message.timestamp(),
            self._message.leader_epoch(),
        )

    def __reduce__(self) -> tuple[Callable[..., Record], tuple[Contents, dict[str, object]]]:
        """Pickle, or copy, it as plain data: the member's objects stay with the member."""
        return copy_of, (self.contents(), _assigned(self))

    def __repr__(self) -> str:
        return f"Record({place_of(self)}, key={self._key!r}, attempt={self._attempt})"


class _Assigned(Record):
    """A record to which its handler has assigned: it shows the assigned values."""

    __slots__ = ()


def _let_assign(name: str) -> None:
    """Let handlers assign to a property of records, and read there what they have assigned.

    The record changes its class then, so that a handler that assigns nothing pays nothing.
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


class _Sealed(int):
    """The number of an attempt that is over: a slot for this would be one more to look at."""


def is_sealed(record: Record) -> bool:
    """Whether its attempt has failed or was abandoned: nothing that it leaves behind counts."""
    return type(record._attempt) is _Sealed


def seal(record: Record) -> None:
    """Its attempt has failed or was abandoned."""
    record._attempt = _Sealed(record._attempt)


def again(record: Record) -> Record:
    """The record for another attempt: as it came, with the same count of attempts."""
    after = Record(record._tenure, record._offset, record._key, record._key_hash, record._message)
    after._size, after._attempt = record._size, int(record._attempt)
    if (trace := trace_of(record)) is not None:
        after._trace = trace
    return after


def place_of(record: Record) -> str:
    """Its place, as in `orders-3@1042`."""
    return f"{record._tenure.tp}@{record._offset}"


def key_of(record: Record, keys: LogKeys) -> str:
    """Its key in brackets, behind a space, as far as `log.keys` allows it."""
    match keys:
        case LogKeys.TEXT:
            return f" (key {record._key!r:.60})"
        case LogKeys.HASH:
            return f" (hash {record._key_hash})"
        case LogKeys.NONE:
            return ""


def facts_of(record: Record, keys: LogKeys) -> Facts:
    """Which record a line of the log is about, and which attempt at it."""
    key = shown(keys, record._key, record._key_hash)
    attempt = int(record._attempt)
    facts = Facts(tp=record._tenure.tp, offset=record._offset, key=key, attempt=attempt)
    trace = trace_of(record)
    if trace is not None and (trace_id := trace.trace_id) is not None:
        facts["trace_id"] = trace_id
    return facts


def where_of(record: Record, keys: LogKeys) -> str:
    """Its place with its key, as in `orders-3@1042 (key b'k')`; see `key_of`."""
    return f"{place_of(record)}{key_of(record, keys)}"


def copy_of(contents: Contents, assigned: Mapping[str, object] | None = None) -> Record:
    """A copy of a record.

    Args:
        contents: The record as plain data.
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
    """Let the next call of its handler be this attempt."""
    record._attempt = attempt


def count_beside(record: Record) -> None:
    """Count its key and headers in its size, too."""
    record._size += size_beside(record._message)


def count_no_more(record: Record) -> None:
    """Let its size be 0: it is counted nowhere any more."""
    record._size = 0


class _PlainMessage:
    """The message of a copy."""

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
        raise AssertionError(f"the headers were read before, {value} need not replace them")

    def timestamp(self) -> tuple[int, int]:
        return self._contents.timestamp

    def leader_epoch(self) -> int | None:
        return self._contents.leader_epoch

    def __len__(self) -> int:
        return len(self._contents.value or b"")
