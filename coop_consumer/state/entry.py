"""A key's state as it is stored and logged: its value, its author, and the version before. Pure.

In: bytes of a store or a changelog record. Out: a `StateEntry`, and back. An entry keeps its last
two versions, so that a repeated record finds what it found the first time. With exactly once it
keeps one: a record comes again only if nothing of it counts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from zlib import crc32

VERSION = 1
ALONE = 2
"""The format of an entry whose version before was not kept."""
_HEAD = struct.Struct(">BIIqI")  # format, topic mark, epoch, offset, size of the value
_BEFORE = struct.Struct(">Iq")  # epoch, offset; its value is the rest


class EntryError(ValueError):
    """The bytes are no entry of a known format."""


@dataclass(frozen=True, slots=True)
class Version:
    """A value and the record that made it.

    Attributes:
        epoch: The partition's epoch when the record was processed.
        offset: The record's, in the data topic.
        value: The value that the record put.
    """

    epoch: int
    offset: int
    value: bytes

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and offset; they only grow for a key."""
        return self.epoch, self.offset


@dataclass(frozen=True, slots=True)
class StateEntry:
    """The state of one key.

    Attributes:
        now: The last version.
        before: The one before it, if there was one.
        is_alone: Whether there was one is not known.
    """

    now: Version
    before: Version | None = None
    is_alone: bool = False

    def found_by(self, place: tuple[int, int]) -> Version | None:
        """The version that the record at this (epoch, offset) finds.

        If the record made the last version, it is repeated and finds the version before. An earlier
        record finds the last version, because what it found then is gone.

        >>> entry = StateEntry(Version(1, 7, b"new"), Version(1, 5, b"old"))
        >>> [entry.found_by((1, offset)).value for offset in (9, 7, 6)]
        [b'new', b'old', b'new']
        """
        return self.before if place == self.now.place and not self.is_alone else self.now

    def changed(self, place: tuple[int, int], value: bytes) -> StateEntry:
        """The entry after the record at this place has put a value.

        A repeated record changes its own version, at the same place. So the places of a key never
        go back. This is how a late write of another process is detected.
        """
        if place <= self.now.place:
            epoch, offset = self.now.place
            before = self.now if self.is_alone else self.before
            return StateEntry(Version(epoch, offset, value), before)
        return StateEntry(Version(*place, value), self.now)


def mark_of(topic_id: bytes) -> int:
    """32 bits that differ between a topic and one of the same name that was created later."""
    return crc32(topic_id)


def encode(entry: StateEntry, mark: int) -> bytes:
    """The entry as bytes: 21 more than its value, and 12 more than the value before."""
    now, before = entry.now, entry.before
    head = _HEAD.pack(VERSION, mark, now.epoch, now.offset, len(now.value))
    if before is None:
        return head + now.value
    return head + now.value + _BEFORE.pack(before.epoch, before.offset) + before.value


def alone(data: bytes) -> bytes:
    """An encoded entry without the version before.

    >>> entry = StateEntry(Version(1, 7, b"new"), Version(1, 5, b"old"))
    >>> decode(alone(encode(entry, mark=0)))
    StateEntry(now=Version(epoch=1, offset=7, value=b'new'), before=None, is_alone=True)
    """
    _, _, _, _, size = _HEAD.unpack_from(data)
    return bytes([ALONE]) + data[1 : _HEAD.size + size]


def decode(data: bytes) -> StateEntry:
    """The entry that `encode` was given.

    Raises:
        EntryError: The entry is of another format, or truncated.
    """
    _check(data)
    _, _, epoch, offset, size = _HEAD.unpack_from(data)
    end = _HEAD.size + size
    now = Version(epoch, offset, data[_HEAD.size : end])
    if len(data) == end:
        return StateEntry(now, is_alone=data[0] == ALONE)
    if len(data) < end + _BEFORE.size:
        raise EntryError(f"state of {len(data)} bytes is cut off")
    epoch, offset = _BEFORE.unpack_from(data, end)
    return StateEntry(now, Version(epoch, offset, data[end + _BEFORE.size :]))


def place_of(data: bytes) -> tuple[int, tuple[int, int]]:
    """The topic mark of an entry, and its (epoch, offset).

    Raises:
        EntryError: As `decode`.
    """
    _check(data)
    _, mark, epoch, offset, _ = _HEAD.unpack_from(data)
    return mark, (epoch, offset)


def _check(data: bytes) -> None:
    if data[:1] not in (bytes([VERSION]), bytes([ALONE])):
        raise EntryError(f"state of format {data[:1].hex() or 'nothing'}, not {VERSION} or {ALONE}")
    if len(data) < _HEAD.size:
        raise EntryError(f"state of {len(data)} bytes is cut off")
