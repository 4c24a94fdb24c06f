"""What `scale` asks of a group's status: what its partitions need, which members it has. Pure.

In: a `GroupStatus`, and how fast records arrive. Out: the arguments of `scale.advise`.
"""

from __future__ import annotations

from collections.abc import Mapping

from assignors import TopicPartition
from coop_consumer.status.arrivals import SPAN_S, Arrivals
from coop_consumer.status.demand import PartitionNeed
from coop_consumer.status.load import GroupLoad
from coop_consumer.status.model import GroupStatus, PartitionStatus
from coop_consumer.status.remaining import remaining
from coop_consumer.status.scale import MembersNow

_SETTLED = "Stable"
_PACE_S = 60
"""A reported pace contains what is left, to be done in so many seconds."""


def needs_of(status: GroupStatus, arrivals: Arrivals) -> list[PartitionNeed]:
    """What each partition has to do. O(partitions x gap ranges).

    Args:
        status: The group.
        arrivals: The ends of its partitions so far, this look's among them.
    """
    rates = _rates(status.partitions, status.load, arrivals)
    is_stable = status.state == _SETTLED
    # While a group rebalances, its coordinator shows of no member what it is.
    has_plain = is_stable and any(not it.capacity and not it.note for it in status.members)
    return [
        PartitionNeed(
            tp=partition.tp,
            left=partition.remaining.records,
            arrivals=rates[partition.tp],
            alone=_alone(partition, status.load),
            is_walled=bool(partition.walled),
            is_shared=not (
                has_plain or status.policies.group or partition.tp.topic in status.policies.topics
            ),
        )
        for partition in status.partitions
    ]


def members_of(status: GroupStatus, asked_for: int | None) -> MembersNow:
    """The members now.

    Args:
        status: The group.
        asked_for: How many were wanted at the last look; None: this is the first one.
    """
    assigned = [it.assigned_at_ms for it in status.members if it.capacity]
    is_known = status.state == _SETTLED and assigned and min(assigned) > 0
    settled_ms = max(status.at_ms - max(assigned), 0) if is_known else 0
    capacities = tuple(it.capacity for it in status.members if it.capacity)
    return MembersNow(len(status.members), capacities, settled_ms / 1_000, asked_for)


def _rates(
    partitions: tuple[PartitionStatus, ...], load: GroupLoad, arrivals: Arrivals
) -> Mapping[TopicPartition, float]:
    """Records that arrive a second: as seen, and until that was a minute as members say.

    A group that finishes nothing reports no more either, so what it said last does not count.
    """
    seen = arrivals.rates()
    if arrivals.span_s >= SPAN_S or not any(work.finished for work in load.works):
        return {it.tp: seen.get(it.tp, 0.0) for it in partitions}
    return {
        it.tp: max(seen.get(it.tp, 0.0), load.paces.get(it.tp, 0) - it.remaining.records / _PACE_S)
        for it in partitions
    }


def _alone(partition: PartitionStatus, load: GroupLoad) -> int:
    """Records left of hashes that are fetched by themselves: they are behind all others.

    A single hash that is not behind is one that was dealt by itself, and is fetched with the others
    of its member.
    """
    shares = load.shares(partition.tp)
    seen_to = max((piece.next_offset for piece in partition.progress), default=0)
    behind = [it for it in partition.progress if it.range.size == 1 and it.next_offset < seen_to]
    if not behind:
        return 0
    return remaining(behind, partition.end - partition.hidden, shares).records
