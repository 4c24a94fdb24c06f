"""Where records came from, and which of them have come: headers and bits. Pure; one thread.

In: the headers of records. Out: headers that name a record's origin; whether an origin is new. Each
origin takes one bit, so a billion of them take some 160 MB. The largest offset of each source
partition would take less, but it is right only if each source partition arrives in order: a record
that comes after a later one would be taken for a repeat. Workers of a group finish key by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coop_consumer.config.setting import shown
from coop_consumer.errors import MisuseError

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.kafka.publish import Headers

IDENTITY = ("source.partition", "source.offset")
"""The headers that tell outputs of one topic apart, if a record makes one output."""

_PAGE_OFFSETS = 8_192

RecordOrigin = tuple[bytes, ...]


class Seen:
    """Which identities have come: a bit for each offset, in pages of a kilobyte.

    >>> seen = Seen()
    >>> seen.add((b"0",), 42), seen.add((b"0",), 42), seen.add((b"1",), 42)
    (True, False, True)
    """

    def __init__(self) -> None:
        self._pages: dict[tuple[RecordOrigin, int], bytearray] = {}

    def add(self, origin: RecordOrigin, offset: int) -> bool:
        """Note an identity. True: it is new. O(1)."""
        page, bit = divmod(offset, _PAGE_OFFSETS)
        bits = self._pages.get((origin, page))
        if bits is None:
            bits = self._pages[origin, page] = bytearray(_PAGE_OFFSETS // 8)
        place, mask = bit >> 3, 1 << (bit & 7)
        if bits[place] & mask:
            return False
        bits[place] |= mask
        return True


def checked_identity(call: str, identity: object) -> tuple[str, ...]:
    """The names of the headers that make an identity.

    Raises:
        MisuseError: They are no names.
    """
    names = tuple(identity) if isinstance(identity, list | tuple) else ()
    if not names or not all(isinstance(it, str) and it for it in names):
        remedy = f"Give the names of one header or more, such as {IDENTITY!r}"
        raise MisuseError(call, f"identity={shown(identity)}", remedy)
    return names


def with_source(
    headers: Headers, source: TopicPartition, offset: int
) -> list[tuple[str, bytes | None]]:
    """The headers of an output, and in them the place of the record that it came of.

    Headers of the same names that were there before are left out: a reader takes the last place.

    Raises:
        MisuseError: These are no headers, or no place of a record.

    >>> from assignors import TopicPartition
    >>> with_source([("unit", b"EUR")], TopicPartition("orders", 3), 42)
    [('unit', b'EUR'), ('source.partition', b'3'), ('source.offset', b'42')]
    """
    partition_header, offset_header = IDENTITY
    try:
        others = [it for it in headers if it[0] not in IDENTITY]
        place = [
            (partition_header, b"%d" % source.partition),
            (offset_header, b"%d" % offset),
        ]
        numbers: tuple[object, ...] = (source.partition, offset)
        is_place = all(isinstance(it, int) and it >= 0 for it in numbers)  # readers take digits
    except (TypeError, ValueError, AttributeError, LookupError):
        is_place = False
    if not is_place:
        raise MisuseError(
            "with_source()",
            f"headers={shown(headers)}, source={shown(source)}, offset={shown(offset)}",
            "Give a list of (name, bytes), a TopicPartition, and an offset from 0 on",
        )
    return [*others, *place]


def identity_of(headers: Headers, names: Sequence[str]) -> tuple[RecordOrigin, int] | None:
    """Where a record came from, or None if a header is missing. Of several of a name, the last.

    Raises:
        ValueError: The last header is no offset in digits.

    >>> identity_of([("source.partition", b"3"), ("source.offset", b"42")], IDENTITY)
    ((b'3',), 42)
    """
    named = dict(headers)
    values = [named.get(name) for name in names]
    if any(value is None for value in values):
        return None
    *origin, offset = (value or b"" for value in values)
    if not offset.isdigit():
        raise ValueError(f"{names[-1]}={offset!r:.60} is no offset in digits")
    return tuple(origin), int(offset)
