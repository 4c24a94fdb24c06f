"""Committed offsets as a user sees them: the stable offset with the gap ranges above it. Pure.

In: a partition's progress by the log, and the group's committed offset with its metadata. Out: what
of both counts, by the rule of the lead: an offset without our tag was set by somebody else, and
stands above the log. Upholds I2: what is listed is done for every key hash.
"""

from __future__ import annotations

from dataclasses import dataclass

from assignors import WHOLE
from coop_consumer.core.tag import epoch_of, of_topic
from offsets import OffsetRange, PartitionProgress, range_progress
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


def committed_offset(
    topic_id: bytes, epoch: int, progress: PartitionProgress, committed: tuple[int, str] | None
) -> CommittedOffset | None:
    """What is committed, or None if nothing is. O(pieces log gap ranges).

    Args:
        topic_id: Of its topic, as it is now.
        epoch: The log's epoch of this partition; 0: none.
        progress: What the log tells of that epoch.
        committed: The group's committed offset and its metadata, if there is one.

    >>> progress = PartitionProgress(floor=43)
    >>> committed_offset(bytes(16), 1, progress, (43, "coop:1:00000000"))
    CommittedOffset(offset=43, gaps=())
    >>> committed_offset(bytes(16), 1, progress, (7, "set by a reset tool")).offset
    7
    """
    committed = of_topic(committed, topic_id)
    tag = epoch_of(committed[1]) if committed is not None else 0
    if committed is not None and not 0 < tag <= epoch:
        return CommittedOffset(committed[0])
    if not epoch:
        return None
    return CommittedOffset(progress.stable, _gaps(progress))


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
