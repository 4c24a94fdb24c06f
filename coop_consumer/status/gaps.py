"""The gap ranges of a group: what is done above stable offsets, and what is left. Pure.

In: partitions of a `GroupStatus`. Out: lines for people, or a dict for JSON. A gap range is done
for every key. Where the progress of key ranges differs, each is told by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from coop_consumer.plain_text import counted
from coop_consumer.status.model import PartitionStatus
from offsets import OffsetRange, RangeProgress
from offsets.offset_range import complement

_SHOWN_MAX = 20
"""So many offset ranges of a line, and so many key ranges of a partition, are shown to people."""


def has_gaps(partition: PartitionStatus) -> bool:
    """Whether anything is done above the stable offset, for any key."""
    return any(piece.gaps or piece.stable > (partition.stable or 0) for piece in partition.progress)


def left_ranges(partition: PartitionStatus) -> tuple[OffsetRange, ...]:
    """The readable offsets from the stable one on that are not done for every key. O(gaps)."""
    stable, end = partition.stable, partition.end - partition.hidden
    if stable is None or stable >= end:
        return ()
    return complement(partition.gaps, OffsetRange(stable, end - 1))


def lines(partition: PartitionStatus) -> Iterator[str]:
    """The partition for people."""
    if partition.stable is None:
        yield f"{partition.tp}: nothing is known of it yet"
        return
    yield (
        f"{partition.tp}: stable {partition.stable}, end {partition.end}, epoch {partition.epoch}"
    )
    yield f"  done above it  {_listed(partition.gaps)}"
    yield f"  left           {_listed(left_ranges(partition))}"
    pieces = partition.progress
    if len(pieces) > 1:
        yield from (_piece(piece) for piece in pieces[:_SHOWN_MAX])
        if len(pieces) > _SHOWN_MAX:
            yield f"  and {counted(len(pieces) - _SHOWN_MAX, 'more key range')} (--json has all)"


def _piece(piece: RangeProgress) -> str:
    above = f", done above it {_listed(piece.gaps)}" if piece.gaps else ""
    return f"  keys {piece.range}: stable {piece.stable}{above}"


def _listed(ranges: Sequence[OffsetRange]) -> str:
    if not ranges:
        return "nothing"
    shown = " ".join(map(str, ranges[:_SHOWN_MAX]))
    more = len(ranges) - _SHOWN_MAX
    return f"{shown} and {more} more (--json has all)" if more > 0 else shown


def partition_as_json(partition: PartitionStatus) -> dict[str, Any]:
    """The partition as a dict; pairs are first and last offset, both included."""
    return {
        "topic": partition.tp.topic,
        "partition": partition.tp.partition,
        "epoch": partition.epoch,
        "stable": partition.stable,
        "end": partition.end,
        "readable": partition.end - partition.hidden,
        "gap_ranges": _pairs(partition.gaps),
        "left_ranges": _pairs(left_ranges(partition)),
        "ranges": [
            {
                "lo": piece.range.lo,
                "hi": piece.range.hi,
                "stable": piece.stable,
                "gap_ranges": _pairs(piece.gaps),
            }
            for piece in partition.progress
        ],
    }


def _pairs(ranges: Iterable[OffsetRange]) -> list[list[int]]:
    return [[found.first, found.last] for found in ranges]
