"""What a single writer puts into the headers of each record: its name, and a number. Pure.

In: headers, a writer, a number. Out: headers with a stamp; the stamp of a record that was read. An
offset is not a count: each transaction takes one more for its marker, and aborted records keep
theirs. So a writer counts in headers, and reads at the end of its log where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.errors import LogConflictError

if TYPE_CHECKING:
    from coop_consumer.kafka.publish import Headers

WRITER, NUMBER = "coop.writer", "coop.number"
DIGITS_MAX = 19
"""Those of the largest offset."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who wrote a record, and the number that the writer gave it."""

    writer: str
    number: int


def stamped(headers: Headers, stamp: Stamp) -> list[tuple[str, bytes | None]]:
    """The headers with a stamp; one that was there before is left out.

    >>> stamped([("unit", b"EUR")], Stamp("copier", 7))
    [('unit', b'EUR'), ('coop.writer', b'copier'), ('coop.number', b'7')]
    """
    others = [it for it in headers if it[0] not in (WRITER, NUMBER)]
    return [*others, (WRITER, stamp.writer.encode()), (NUMBER, b"%d" % stamp.number)]


def stamp_in(headers: Headers) -> Stamp | None:
    """The stamp in the headers of a record; None if it has none that can be read.

    >>> stamp_in([("coop.writer", b"copier"), ("coop.number", b"7")])
    Stamp(writer='copier', number=7)
    """
    named = dict(headers)
    writer, number = named.get(WRITER), named.get(NUMBER)
    if not writer or not number or not number.isdigit() or len(number) > DIGITS_MAX:
        return None
    return Stamp(writer.decode(errors="replace"), int(number))


def own_number(stamp: Stamp | None, writer: str, place: str) -> int:
    """The number of a record that has to be the writer's own.

    Args:
        stamp: The record's.
        writer: Who asks.
        place: Of the record, for the error.

    Raises:
        LogConflictError: Somebody else wrote it.
    """
    if stamp is not None and stamp.writer == writer:
        return stamp.number
    whose = "has no stamp" if stamp is None else f"was written by {stamp.writer}"
    raise LogConflictError(
        writer,
        place,
        f"this record {whose}, and {writer} has to be the only writer of the partition",
        "Stop the other writer, and give this one a partition that nobody else has written",
    )
