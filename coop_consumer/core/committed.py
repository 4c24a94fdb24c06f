"""Committed offsets as a user sees them: the stable offset with the gap ranges above it. Pure.

In: a partition's part of the log, and what its group has committed. Out: what of both counts, as
`offsets.history` has it. Upholds I2: what is listed is done for every key hash.
"""

from __future__ import annotations

from dataclasses import dataclass

from assignors import WHOLE
from offsets import (
    Committed,
    OffsetRange,
    PartitionProgress,
    PartitionStore,
    newest_epoch,
    range_progress,
)
from offsets.offset_range import complement
from offsets.offset_range import union as union_of_offsets


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What of a partition is done, for every key.

    Attributes:
        offset: The stable offset: the first one that is not done.
        gaps: Offset ranges above it that are done: ascending, disjoint, not adjacent.
    """

    offset: int
    gaps: tuple[OffsetRange, ...] = ()


def committed_offset(store: PartitionStore, committed: Committed | None) -> CommittedOffset | None:
    """What is committed, or None if nothing is. O(pieces log gap ranges).

    Args:
        store: The partition's part of the log.
        committed: What the group has committed of this topic, if anything.
    """
    newest = newest_epoch(store, committed)
    if newest.is_begun:
        progress = store.progress()
        return CommittedOffset(progress.stable, _gaps(progress))
    return None if newest.base is None else CommittedOffset(newest.base)


def _gaps(progress: PartitionProgress) -> tuple[OffsetRange, ...]:
    """The offsets above the stable one that are done in every piece of the hash space."""
    stable, end = progress.stable, progress.next_offset
    if end <= stable:
        return ()
    whole = OffsetRange(stable, end - 1)
    missing = [
        hole
        for piece in progress.clip(WHOLE)
        for hole in complement(
            [
                *([OffsetRange(stable, piece.stable - 1)] if piece.stable > stable else []),
                *piece.gaps,
            ],
            whole,
        )
    ]
    return range_progress(WHOLE, stable, complement(union_of_offsets(missing), whole)).gaps
