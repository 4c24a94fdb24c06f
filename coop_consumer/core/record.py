"""One record on its way through a member, and what it is made from. Pure.

A `Message` is whatever the data plane hands out (confluent-kafka's has exactly these methods); a
`Record` is what a `Worker` sees. Records are built up to a million times a second, so this is a
plain slotted class: it keeps the message and reads value, headers and timestamp only when asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from coop_consumer.core.tenure import Tenure


UNREADABLE = ("coop.unreadable", b"the name of a header is not UTF-8")

_headers_of: Callable[[Message], Sequence[tuple[str, bytes | None]] | None]
# Not `message.headers()`: it returns what it could make with the error set beside, and a call that
# CPython has specialised does not look whether one is.
_headers_of = methodcaller("headers")


KEY, KEY_HASH, OFFSET = attrgetter("key"), attrgetter("key_hash"), attrgetter("offset")
SIZE, TENURE = attrgetter("size"), attrgetter("tenure")
"""Of many records at once, `list(map(KEY, records))`: a third of what a loop in Python takes."""


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
        """The kind of its timestamp, and the timestamp in ms."""
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


class Record:
    """A record to process.

    Attributes:
        offset: Its offset in the partition.
        key: The key's bytes, or None. An empty key is a key.
        key_hash: Where the record lies in the hash space, 0 to 2**63 - 1.
        attempt: 1 at the first try, one more after each failure.
        size: Bytes of its value, as the bound on waiting bytes counts it.
    """

    __slots__ = ("attempt", "key", "key_hash", "message", "offset", "size", "tenure")

    def __init__(
        self, tenure: Tenure, offset: int, key: bytes | None, key_hash: int, message: Message
    ) -> None:
        self.tenure = tenure
        self.offset = offset
        self.key = key
        self.key_hash = key_hash
        self.message = message
        self.size = len(message)
        self.attempt = 1

    @property
    def topic(self) -> str:
        """The topic it came from."""
        return self.tenure.tp.topic

    @property
    def partition(self) -> int:
        """The partition it came from."""
        return self.tenure.tp.partition

    @property
    def value(self) -> bytes | None:
        """The value's bytes; None for a tombstone."""
        return self.message.value()

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers in their order, a list of (name, value); see `headers_of`."""
        return headers_of(self.message)

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970 (create or append time, as the topic is configured); -1: none."""
        return self.message.timestamp()[1]

    @property
    def leader_epoch(self) -> int | None:
        """The epoch of the partition's leader that wrote it, if the broker told."""
        return self.message.leader_epoch()

    def __repr__(self) -> str:
        return f"Record({self.tenure.tp}@{self.offset}, key={self.key!r}, attempt={self.attempt})"
