"""What a picture shows of a large group: some of its partitions, some of warnings alike. Pure.

In: partitions and warnings of any number. Out: those to show, the ones in trouble first, and how
many are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum

from coop_consumer.plain_text import counted
from coop_consumer.status.model import PartitionStatus
from offsets import Meaning

PARTITIONS_SHOWN = 50
ALIKE_SHOWN = 3
"""Warnings of one kind that are shown one by one; the rest is counted."""

_WORD = re.compile(r"\S+")


class PartitionTrouble(IntEnum):
    """How much a partition needs somebody who looks; the least number comes first."""

    FAILED = 0
    WAITING = 1
    NONE = 2


def trouble_of(partition: PartitionStatus) -> PartitionTrouble:
    """Whether records fail or hang; or else whether something waits, or is lost."""
    if partition.failed or (partition.holder is not None and partition.holder.is_overdue):
        return PartitionTrouble.FAILED
    waits = partition.handovers or partition.walled or partition.is_forgotten
    return (
        PartitionTrouble.WAITING
        if waits or partition.meaning is Meaning.LOST
        else PartitionTrouble.NONE
    )


def some_of(
    partitions: Sequence[PartitionStatus], most: int = PARTITIONS_SHOWN
) -> tuple[PartitionStatus, ...]:
    """At most so many partitions, in their order: those in trouble, and then others."""
    first = sorted(range(len(partitions)), key=lambda at: trouble_of(partitions[at]))[:most]
    return tuple(partitions[at] for at in sorted(first))


def left_out(partitions: Sequence[PartitionStatus], shown: Sequence[PartitionStatus]) -> str:
    """How many partitions are not shown, and how many of them are in trouble; "": none is left."""
    rest = len(partitions) - len(shown)
    if not rest:
        return ""
    troubled = _troubled(partitions) - _troubled(shown)
    return counted(rest, "more partition") + (f", {troubled:,} of them in trouble" * bool(troubled))


def _alike(word: re.Match[str]) -> str:
    """The same for all words with a digit."""
    return "0" if any(map(str.isdigit, word[0])) else word[0]


def _troubled(partitions: Iterable[PartitionStatus]) -> int:
    return sum(trouble_of(it) is not PartitionTrouble.NONE for it in partitions)


def folded(warnings: Iterable[str]) -> list[str]:
    """The warnings; of many that differ only in words with a digit, the first three and a count.

    Partitions, offsets and most members are such words.

    >>> for it in folded(f"orders-{n}: offset {n} is gone" for n in range(2_000)):
    ...     print(it)
    orders-0: offset 0 is gone
    orders-1: offset 1 is gone
    orders-2: offset 2 is gone
    1,997 more warnings like the last one
    """
    kinds: dict[str, list[str]] = {}
    for warning in warnings:
        kinds.setdefault(_WORD.sub(_alike, warning), []).append(warning)
    found: list[str] = []
    for alike in kinds.values():
        found += alike[:ALIKE_SHOWN]
        if (rest := len(alike) - ALIKE_SHOWN) > 0:
            found.append(f"{counted(rest, 'more warning')} like the last one")
    return found
