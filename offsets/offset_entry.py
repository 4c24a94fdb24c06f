"""What an offset store keeps: one entry for a partition of a group, and a commit of some. Pure.

In: what a caller commits, or expects to be there. Out: the same values, checked, or the reason why
they are refused. The bounds are those of the strictest store, so that what one store takes all
others take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from assignors import TopicPartition
from assignors.key_range import WHOLE
from offsets.offset_range import OFFSET_MAX, OffsetRange
from offsets.progress import Gaps, RangeProgress

METADATA_BYTES_MAX: Final = 4_096
"""Of one entry, as UTF-8: what brokers take by default (`offset.metadata.max.bytes`)."""

ENTRY_GAPS_MAX: Final = 10_000
"""Gap ranges of one entry. They take 160 KB at most, which every log takes as one record."""

PARTITION_MAX: Final = 2**20 - 1
"""The highest partition number: a table has 20 bits for it."""

_NAME_BYTES_MAX: Final = {"group": 32_767, "topic": 249}  # of Kafka's protocol; of Kafka's topics


class OffsetEntry(NamedTuple):
    """What is committed for one partition of a group.

    Attributes:
        offset: The next one to process, at least 0.
        metadata: Any text, at most 4,096 bytes as UTF-8.
        gaps: Offset ranges above `offset` that are done too: ascending, disjoint, not adjacent to
            each other nor to `offset`. At most 10,000.
    """

    offset: int
    metadata: str = ""
    gaps: Gaps = ()


Lookup = Callable[[str, TopicPartition], OffsetEntry | None]
"""The entry of a group and partition; None if there is none."""


@dataclass(frozen=True, slots=True)
class OffsetConflict:
    """A commit that was not made: at least one entry is not what the caller expected.

    Attributes:
        group: The group of the commit.
        found: For each partition that the caller expected something of, its entry; None if there
            is none. All of them as they were at one moment after the call began.
    """

    group: str
    found: Mapping[TopicPartition, OffsetEntry | None]


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """Entries of one group, to be committed together or not at all.

    Args:
        group: The group's name.
        entries: What to commit, by partition.
        expected: What must be there, by partition: its offset, or None for no entry. A partition
            may be expected without being committed, and the other way round.
    """

    group: str
    entries: Mapping[TopicPartition, OffsetEntry]
    expected: Mapping[TopicPartition, int | None]

    def check(self) -> None:
        """Check all names, numbers and entries. O(entries, gap ranges).

        Raises:
            ValueError: With what is wrong, and with which partition.
        """
        _check_name("group", self.group)
        for place, entry in self.entries.items():
            check_place(place)
            _check_entry(place, entry)
        for place, offset in self.expected.items():
            check_place(place)
            if offset is not None:
                _check_offset(place, "expected offset", offset)

    def conflict(self, look_up: Lookup) -> OffsetConflict | None:
        """What contradicts the expected offsets, if anything does. O(expected)."""
        found = {place: look_up(self.group, place) for place in self.expected}
        for place, offset in self.expected.items():
            entry = found[place]
            if offset != (None if entry is None else entry.offset):
                return OffsetConflict(self.group, found)
        return None


def check_places(group: str, places: Iterable[TopicPartition]) -> None:
    """Check what is asked for.

    Raises:
        ValueError: With what is wrong.
    """
    _check_name("group", group)
    for place in places:
        check_place(place)


def check_place(place: TopicPartition) -> None:
    """Check a topic's name and a partition's number.

    Raises:
        ValueError: With what is wrong.
    """
    if not isinstance(place, TopicPartition):
        raise ValueError(f"{place!r:.80} is no TopicPartition(topic, number)")  # noqa: TRY004 - as documented
    _check_name("topic", place.topic)
    _check_whole(place, "partition", place.partition)
    if not 0 <= place.partition <= PARTITION_MAX:
        raise ValueError(f"{place}: the partition is not in 0 to {PARTITION_MAX}")


def _check_whole(place: TopicPartition, what: str, number: object) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(f"{place}: {what} {number!r:.60} is no whole number")  # noqa: TRY004 - as documented


def _check_name(what: str, name: str) -> None:
    if not isinstance(name, str):
        raise ValueError(f"{what} {name!r:.60} is no text")  # noqa: TRY004 - as documented
    size, most = len(_utf8(what, name)), _NAME_BYTES_MAX[what]
    if not 0 < size <= most:
        raise ValueError(f"{what} {name[:40]!r}: its name has {size} bytes, not 1 to {most}")


def _check_entry(place: TopicPartition, entry: OffsetEntry) -> None:
    if not isinstance(entry, OffsetEntry):
        raise ValueError(f"{place}: {entry!r:.80} is no OffsetEntry")  # noqa: TRY004 - as documented
    offset, metadata, gaps = entry
    _check_offset(place, "offset", offset)
    if not isinstance(metadata, str):
        raise ValueError(f"{place}: metadata {metadata!r:.60} is no text")  # noqa: TRY004 - as documented
    given: object = gaps
    if not isinstance(given, tuple) or not all(isinstance(it, OffsetRange) for it in given):
        raise ValueError(f"{place}: gaps {gaps!r:.60} are no tuple of OffsetRange")
    size = len(_utf8(f"{place}: metadata", metadata))
    if size > METADATA_BYTES_MAX:
        raise ValueError(
            f"{place}: metadata of {size} bytes, and at most {METADATA_BYTES_MAX} are taken"
        )
    if len(gaps) > ENTRY_GAPS_MAX:
        raise ValueError(f"{place}: {len(gaps)} gap ranges, and at most {ENTRY_GAPS_MAX} are taken")
    if gaps:
        try:
            RangeProgress(WHOLE, offset, gaps)  # they are in the form of a fact
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error


def _check_offset(place: TopicPartition, what: str, offset: int) -> None:
    _check_whole(place, what, offset)
    if not 0 <= offset <= OFFSET_MAX:
        raise ValueError(f"{place}: {what} {offset} is not in 0 to {OFFSET_MAX}")


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what}: no UTF-8 has a lone surrogate ({text[:40]!r})") from error
