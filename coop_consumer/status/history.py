"""Where the history of a partition stands, for a job that starts without joining the group. Pure.

In: a partition as it was seen. Out: its epoch, its progress, and whether log and committed offset
agree on the epoch yet. The rules are those of a starting member (`coop_consumer.core.agreement`): a
record counts as done here if and only if that member would skip it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from assignors import WHOLE, KeyRange, union
from coop_consumer.config import OffsetReset
from coop_consumer.status.seen import GroupSeen, PartitionSeen
from offsets import (
    Meaning,
    OffsetRange,
    PartitionProgress,
    RangeProgress,
    TenureRecord,
    TopicStartRecord,
    melted,
    newest_epoch,
    range_progress,
)
from offsets.offset_range import complement


@dataclass(frozen=True, slots=True)
class History:
    """A partition's newest epoch.

    Attributes:
        epoch: Its number.
        base: Where it begins: everything below is done.
        progress: What is done in it.
        is_based: Whether the log has its beginning.
        is_tagged: Whether the committed offset has its tag; nobody begins before.
    """

    epoch: int
    base: int
    progress: PartitionProgress
    is_based: bool
    is_tagged: bool

    def is_same(self, epoch: int, base: int) -> bool:
        """Whether facts of an epoch with that number and beginning are facts of this one."""
        return (self.epoch, self.base) == (epoch, base)


def topic_start(group: GroupSeen, topic: str, partitions: int) -> TopicStartRecord:
    """How the group began with a topic; if the log does not say it, how it begins now.

    Args:
        group: With all partitions of the topic.
        topic: Its name.
        partitions: How many it has, if it is new to the group.
    """
    told = group.topic_starts.get(topic)
    if told is not None:
        return told
    parts = [seen for seen in group.partitions if seen.tp.topic == topic]
    is_read = topic in group.topics_committed or any(seen.store.epoch for seen in parts)
    return TopicStartRecord(parts[0].topic_id, 0 if is_read else partitions)


def beginning(group: GroupSeen, seen: PartitionSeen, policy: str) -> int:
    """Where a partition without history begins, by the rule of `core.topic_starts`.

    Args:
        group: With all partitions of its topic.
        seen: The partition.
        policy: The value of `auto.offset.reset`.
    """
    count = sum(other.tp.topic == seen.tp.topic for other in group.partitions)
    start = topic_start(group, seen.tp.topic, count)
    is_old = start.had(seen.topic_id, seen.tp.partition)
    return seen.end if policy == OffsetReset.LATEST and is_old else seen.begin


def history_of(seen: PartitionSeen, reset: int) -> History:
    """The partition's history; `reset` is its beginning if nobody has begun with it.

    If tag and log agree on no epoch, the next epoch begins at the committed offset: somebody else
    has set it, or the log has lost the tagged epoch. Without a committed offset, it begins at
    `reset`.
    """
    newest = newest_epoch(seen.store, seen.committed)
    base = reset if newest.base is None else newest.base
    progress = seen.store.progress() if newest.is_begun else PartitionProgress(base)
    is_tagged = newest.meaning is Meaning.AGREED
    if is_tagged and seen.committed is not None:
        progress.merge(RangeProgress(WHOLE, seen.committed.offset))
    return History(newest.epoch, base, progress, is_based=newest.is_begun, is_tagged=is_tagged)


def done_within(piece: RangeProgress, offsets: OffsetRange) -> RangeProgress:
    """The part of a fact about these offsets. O(gaps).

    >>> fact = RangeProgress(WHOLE, 43, (OffsetRange(45, 47), OffsetRange(50, 50)))
    >>> [str(gap) for gap in done_within(fact, OffsetRange(40, 46)).gaps]
    ['[40-42]', '[45-46]']
    """
    below = [OffsetRange(0, piece.stable - 1)] if piece.stable else []
    missing = complement([*below, *piece.gaps], offsets)
    return range_progress(piece.range, 0, complement(missing, offsets))


def rectangle(key_range: KeyRange, offsets: OffsetRange) -> RangeProgress:
    """The fact that all of these offsets are done for these hashes, and nothing about others."""
    return range_progress(key_range, 0, [offsets])


def told_at_once(
    seen: PartitionSeen, history: History, facts: Sequence[RangeProgress], leader_epoch: int
) -> TenureRecord | None:
    """The record of a tenure that began and ended elsewhere, in one piece; None: nothing is new.

    Like every tenure it inherits from the tenures before it, and can take their place: it contains
    their facts in its ranges, and their failed records that are still not done.

    Args:
        seen: The present partition.
        history: Its present history, to which the facts belong.
        facts: What was finished.
        leader_epoch: At least that of every finished record. If it were too low, the heir would
            take a later change of leader for a truncated log.
    """
    if all(map(history.progress.contains, facts)):
        return None
    progress = history.progress.copy()
    for fact in facts:
        progress.merge(fact)
    ranges = union(fact.range for fact in facts)
    return TenureRecord(
        epoch=history.epoch,
        first_offset=-1,
        facts=melted(chain.from_iterable(map(progress.clip, ranges))),
        released=ranges,
        attempts=tuple(
            attempt
            for offset, attempt in sorted(seen.store.attempts().items())
            if any(attempt.key_hash in key_range for key_range in ranges)
            and not progress.is_done(attempt.key_hash, offset)
        ),
        leader_epoch=leader_epoch,
    )
