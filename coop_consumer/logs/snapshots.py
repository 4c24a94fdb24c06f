"""Snapshots of a state: how their records are made and judged, and a store of them in memory. Pure.

In: the token up to which a state has read its log, and its parts. Out: records, and from records
the newest snapshot, or why it is none. The last record vouches for the others: it has the token,
the number of parts, and a digest of all. The topic is compacted, so each snapshot takes the place
of the one before: parts have keys by number, and a shorter snapshot deletes what is left over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, Protocol

from coop_consumer.config.setting import shown
from coop_consumer.errors import MisuseError, SnapshotError
from coop_consumer.logs.records import LogToken
from coop_consumer.logs.state_machine import SNAPSHOT_PART_MAX_BYTES
from coop_consumer.plain_text import counted

_VOUCH_KEY = b"vouch"
_PART_KEY = b"part-%d"
_VERSION = 1
_HEAD = struct.Struct(">BI")  # version, number of parts; then the digest, then the token
_DIGEST_BYTES = 32


class KeptSnapshot(NamedTuple):
    """A whole snapshot.

    Attributes:
        token: The last record that its state has taken in.
        parts: As `StateMachine.snapshot` made them.
    """

    token: LogToken
    parts: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class BrokenSnapshot:
    """A snapshot that cannot be used.

    Attributes:
        problem: Continues "the snapshot".
        is_newer: Whether a newer version of this library has written it.
    """

    problem: str
    is_newer: bool = False


class SnapshotStore(Protocol):
    """Where the snapshots of one partition are kept."""

    name: str

    def read(self) -> KeptSnapshot | BrokenSnapshot | None:
        """The newest one; None: there is none."""

    def write(self, token: LogToken, parts: Iterable[bytes]) -> None:
        """Keep a snapshot instead of the one before. All of it becomes visible, or nothing.

        Raises:
            SnapshotError: The one before is of a newer version.
        """


def snapshot_records(
    token: LogToken, parts: Iterable[bytes], stored: int
) -> Iterator[tuple[bytes, bytes | None]]:
    """The records of a snapshot, as keys and values, the one that vouches last.

    Args:
        token: What its state has taken in.
        parts: Of the state.
        stored: How many parts the one before has: what is left over is deleted.

    Raises:
        MisuseError: A part is no bytes, or too many.
    """
    digest, count = sha256(), 0
    for part in parts:
        if not isinstance(part, bytes | bytearray | memoryview):
            raise MisuseError(
                "snapshot()",
                f"part {count} of the state machine's is {shown(part)}, and no bytes",
                "Yield the parts of the state as bytes",
                "There is no new snapshot",
            )
        data = bytes(part)
        if len(data) > SNAPSHOT_PART_MAX_BYTES:
            raise MisuseError(
                "snapshot()",
                f"part {count} of the state machine's has {len(data)} bytes, and a part holds "
                f"{SNAPSHOT_PART_MAX_BYTES}",
                "Yield the state in smaller parts: restore gets them as they are",
                "There is no new snapshot",
            )
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
        yield _PART_KEY % count, data
        count += 1
    for number in range(count, stored):
        yield _PART_KEY % number, None
    yield _VOUCH_KEY, _HEAD.pack(_VERSION, count) + digest.digest() + token.encode()


def snapshot_of(records: Mapping[bytes, bytes]) -> KeptSnapshot | BrokenSnapshot | None:
    """The snapshot that the newest record of each key makes up; None: nobody has written one."""
    vouch = records.get(_VOUCH_KEY)
    if vouch is None:
        return BrokenSnapshot("has no record that vouches for it") if records else None
    if version := _newer_version(records):  # which may have another form
        problem = f"has version {version}, and this library reads version {_VERSION}"
        return BrokenSnapshot(problem, is_newer=True)
    try:
        _, count = _HEAD.unpack_from(vouch)  # there was no version before this one
        digest = vouch[_HEAD.size : _HEAD.size + _DIGEST_BYTES]
        token = LogToken.decode(vouch[_HEAD.size + _DIGEST_BYTES :])
    except (struct.error, ValueError):
        return BrokenSnapshot("is vouched for by a record that is none of this library")
    known = {number for number in _numbers_of_parts(records) if number < count}
    if missing := count - len(known):  # a damaged record may count billions
        first = next(number for number in range(count) if number not in known)
        return BrokenSnapshot(f"lacks {missing:,} of its {counted(count, 'part')}, such as {first}")
    found = [records[_PART_KEY % number] for number in range(count)]
    seen = sha256()
    for it in found:
        seen.update(len(it).to_bytes(8, "big"))
        seen.update(it)
    if seen.digest() != digest:
        return BrokenSnapshot("has parts that are not those that it was written with")
    return KeptSnapshot(token, found)


def _newer_version(records: Mapping[bytes, bytes]) -> int:
    """The version of the snapshot, if it is newer than this library; else 0."""
    version = records.get(_VOUCH_KEY, b"")[:1]
    return version[0] if version > bytes((_VERSION,)) else 0


def refuse_newer(name: str, partition: int, records: Mapping[bytes, bytes]) -> None:
    """See that no snapshot of a newer version would be replaced: newer programs count on it.

    Args:
        name: Of the store.
        partition: Of the log.
        records: The newest record of each key.

    Raises:
        SnapshotError: It would be.
    """
    if version := _newer_version(records):
        raise SnapshotError(
            name,
            partition,
            f"has version {version}, and this library writes version {_VERSION}. It stays",
            f"Update this program. If no newer one is in use, delete {name}",
        )


def parts_in(records: Iterable[bytes]) -> int:
    """How many parts the keys of a snapshot topic name."""
    return max((number + 1 for number in _numbers_of_parts(records)), default=0)


def _numbers_of_parts(records: Iterable[bytes]) -> Iterator[int]:
    prefix = _PART_KEY.partition(b"%")[0]
    for key in records:
        number = key.removeprefix(prefix)
        if number != key and number.isdigit() and _PART_KEY % int(number) == key:
            yield int(number)


class MemorySnapshots:
    """A store in memory.

    Attributes:
        records: The newest record of each key; None is a deletion.
    """

    name = "memory"

    def __init__(self) -> None:
        self.records: dict[bytes, bytes] = {}

    def read(self) -> KeptSnapshot | BrokenSnapshot | None:
        """The newest one."""
        return snapshot_of(self.records)

    def write(self, token: LogToken, parts: Iterable[bytes]) -> None:
        """Keep a snapshot."""
        refuse_newer(self.name, token.partition, self.records)
        found = dict(self.records)
        for key, value in snapshot_records(token, parts, parts_in(self.records)):
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        self.records = found
