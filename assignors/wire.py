"""Bytes of the user data: the primitives that both messages are written in. Pure.

In: integers, texts and range sets, or bytes. Out: bytes, or the values. A message is one byte for
its kind, one for its version, the body's length, and the body; fields are only ever added at its
end, so a reader of the same version skips fields that it does not know. Reading raises nothing but
`UserDataError`. A reader believes no count and no length beyond the bytes that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from assignors.key_hash import KEY_HASH_MAX
from assignors.key_range import WHOLE, KeyRange

T = TypeVar("T")

WIRE_VERSION = 1
"""The newest version: every one from 1 to this is read.

So that releases meet in one group, a subscription is written in the oldest version that its sender
speaks, and says which is the newest; an assignment in the newest that all members of the group
speak. As there is only one version yet, both are this one.
"""

_UINT_MAX = 2**64 - 1
_UINT_BYTES_MAX = 10  # of seven bits each


class UserDataError(ValueError):
    """User data that cannot be read; its sender counts as owning nothing."""


class UnknownVersionError(UserDataError):
    """User data of a version newer than this library knows."""


class Writer:
    """Collects the fields of one message's body."""

    def __init__(self) -> None:
        self._body = bytearray()

    def message(self, kind: int, version: int) -> bytes:
        """The fields so far as a message."""
        head = Writer()
        head.uint(len(self._body))
        return bytes((kind, version)) + bytes(head._body) + bytes(self._body)

    def uint(self, value: int) -> None:
        """An integer of at most 64 bits, in 1 to 10 bytes: seven bits each, lowest first.

        Raises:
            ValueError: If it is negative or larger.
        """
        if not 0 <= value <= _UINT_MAX:
            raise ValueError(f"{value} cannot be written: it is not an unsigned 64-bit integer")
        while value > 0x7F:
            self._body.append(value & 0x7F | 0x80)
            value >>= 7
        self._body.append(value)

    def id64(self, value: int) -> None:
        """A random 64-bit number, in 8 bytes.

        Raises:
            ValueError: If it is negative or larger.
        """
        if not 0 <= value <= _UINT_MAX:
            raise ValueError(f"{value} cannot be written: it is not an unsigned 64-bit integer")
        self._body += value.to_bytes(8, "big")

    def flag(self, value: bool) -> None:
        """A boolean, in one byte."""
        self._body.append(int(value))

    def text(self, value: str) -> None:
        """A text: its length in bytes, and UTF-8."""
        encoded = value.encode()
        self.uint(len(encoded))
        self._body += encoded

    def data(self, value: bytes) -> None:
        """Bytes: how many, and they."""
        self.uint(len(value))
        self._body += value

    def ranges(self, ranges: tuple[KeyRange, ...]) -> None:
        """A range set: 0 for the whole space, else 1 + count and, for each, gap and size.

        At most 18 bytes a range, for neither gap nor size has more than 63 bits.

        Raises:
            ValueError: If the ranges are not sorted and disjoint.
        """
        if ranges == (WHOLE,):
            self.uint(0)
            return
        self.uint(len(ranges) + 1)
        after = 0
        for key_range in ranges:
            if key_range.lo < after:
                raise ValueError(f"{key_range} cannot be written: ranges must ascend, disjoint")
            self.uint(key_range.lo - after)
            self.uint(key_range.hi - key_range.lo)
            after = key_range.hi + 1


class Reader:
    """Takes the fields of one message's body, in order.

    Args:
        data: A message.
        kind: The byte it must begin with.
        noun: What it is, for errors.

    Raises:
        UnknownVersionError: It is of a newer version.
        UserDataError: It is of another kind, cut short, or followed by more.
    """

    def __init__(self, data: bytes, kind: int, noun: str) -> None:
        self._data = data
        self._at = 0
        self._end = len(data)
        self._noun = noun
        if self._byte() != kind:
            raise self.error("it does not begin as one; is another assignor in this group?")
        version = self._byte()
        if version == 0:
            raise self.error("version 0 never existed")
        if version > WIRE_VERSION:
            raise UnknownVersionError(
                f"{noun}: version {version} is newer than {WIRE_VERSION}, the newest that is known "
                f"here; upgrade this member"
            )
        length = self.uint()
        if length != self._end - self._at:
            raise self.error(f"a body of {length} bytes is announced")

    def error(self, reason: str) -> UserDataError:
        """An error that tells what could not be read, where, and why."""
        return UserDataError(
            f"{self._noun}: cannot be read at byte {self._at} of {self._end}: {reason}"
        )

    def uint(self, most: int = _UINT_MAX) -> int:
        """An unsigned integer, at most `most`."""
        value = 0
        for place in range(_UINT_BYTES_MAX):
            byte = self._byte()
            value |= (byte & 0x7F) << 7 * place
            if byte <= 0x7F:
                if value > most:
                    raise self.error(f"{value} is more than the possible {most}")
                return value
        raise self.error("an integer does not end")

    def count(self) -> int:
        """A number of things that follow, one byte each at least."""
        return self.uint(most=self._end - self._at)

    def id64(self) -> int:
        """A random 64-bit number."""
        return int.from_bytes(self._bytes(8), "big")

    def flag(self) -> bool:
        """A boolean; its other bits are reserved."""
        return bool(self._byte() & 1)

    def text(self) -> str:
        """A text."""
        try:
            return self._bytes(self.uint()).decode()
        except UnicodeDecodeError as error:
            raise self.error(f"a text is not UTF-8: {error.reason}") from error

    def data(self) -> bytes:
        """Bytes."""
        return self._bytes(self.uint())

    def is_over(self) -> bool:
        """Whether no field is left: what was added later is not in this message."""
        return self._at == self._end

    def one_of(self, table: Sequence[T]) -> T:
        """An entry of a table, by its position."""
        position = self.uint()
        if position >= len(table):
            raise self.error(f"entry {position} of a table of {len(table)}")
        return table[position]

    def ranges(self) -> tuple[KeyRange, ...]:
        """A range set."""
        marker = self.uint(most=self._end - self._at + 1)
        if marker == 0:
            return (WHOLE,)
        ranges: list[KeyRange] = []
        after = 0
        for _ in range(marker - 1):
            lo = after + self.uint()
            hi = lo + self.uint()
            if hi > KEY_HASH_MAX:
                raise self.error(f"a key range ends at {hi}, beyond the hash space")
            ranges.append(KeyRange(lo, hi))
            after = hi + 1
        return tuple(ranges)

    def _byte(self) -> int:
        if self._at >= self._end:
            raise self.error("it ends where 1 more byte is due")
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        if count > self._end - self._at:
            raise self.error(f"it ends where {count} more bytes are due")
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken
