"""What groups have in progress topics, by the records alone. Pure; one thread.

In: the records of progress topics, each partition in order. Out: for each group and topic how much
it has there, and when it wrote last. Nothing here asks whether a group lives.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from offsets import (
    CorruptRecordError,
    LogRecord,
    PolicyKey,
    UnknownRecordVersionError,
    UnreadableReason,
    decode_key,
)

_KEYS_MAX = 50_000
"""Decoded keys that are kept."""


class KeyOwner(NamedTuple):
    """Whose a key of the log is.

    Attributes:
        group: The group; "": nobody's, as a policy of a topic is everybody's.
        is_policy: Whether it is a policy: a person's word, which is no sign of life.
        unreadable: Why it cannot be read, or "".
    """

    group: str
    is_policy: bool = False
    unreadable: str = ""


@lru_cache(maxsize=_KEYS_MAX)
def owner_of(data: bytes) -> KeyOwner:
    """Whose a key of the log is; the bytes are hostile input.

    >>> print(owner_of(b"?").unreadable)
    unknown version
    """
    try:
        key = decode_key(data)
    except UnknownRecordVersionError:
        return KeyOwner("", unreadable=UnreadableReason.UNKNOWN_VERSION)
    except CorruptRecordError:
        return KeyOwner("", unreadable=UnreadableReason.CORRUPT_KEY)
    if isinstance(key, PolicyKey):
        return KeyOwner(key.name if key.scope == "group" else "", is_policy=True)
    return KeyOwner(key.group)


@dataclass(slots=True)
class Remains:
    """What one group has in one progress topic.

    Attributes:
        group: The group.
        topic: The progress topic.
        records: Records that the topic holds of it, also those that compaction will drop.
        size_bytes: Their keys and values.
        last_ms: When it wrote last, Unix time; 0: it never did. Policies do not count, and no
            tombstones: `gc` writes these, too.
    """

    group: str
    topic: str
    records: int = 0
    size_bytes: int = 0
    last_ms: int = 0
    _live: set[tuple[int, bytes]] = field(default_factory=set)

    @property
    def keys(self) -> int:
        """How many keys would get a tombstone; policies stay."""
        return len(self._live)

    def take(self, number: int, record: LogRecord, *, is_policy: bool) -> None:
        """Count a record of partition `number`."""
        value = record.value or b""
        self.records += 1
        self.size_bytes += len(record.key) + len(value)
        if is_policy:
            return
        if record.value is None:
            self._live.discard((number, record.key))
        else:
            self._live.add((number, record.key))
            self.last_ms = max(self.last_ms, record.timestamp_ms)


@dataclass(slots=True)
class Inventory:
    """The remains of all groups in all progress topics.

    Attributes:
        unreadable: Records whose keys could not be read, by reason.
    """

    unreadable: Counter[str] = field(default_factory=Counter)
    _found: dict[tuple[str, str], Remains] = field(default_factory=dict)

    def take(self, topic: str, number: int, record: LogRecord) -> None:
        """Count a record. O(1)."""
        owner = owner_of(record.key)
        if owner.unreadable:
            self.unreadable[owner.unreadable] += 1
        elif owner.group:
            place = owner.group, topic
            found = self._found.get(place)
            if found is None:
                found = self._found[place] = Remains(*place)
            found.take(number, record, is_policy=owner.is_policy)

    def remains(self) -> tuple[Remains, ...]:
        """What each group has, by group and topic."""
        return tuple(it for _, it in sorted(self._found.items()))
