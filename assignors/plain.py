"""Assignments for plain members, made where one of ours leads a group that still has some. Pure.

In: members as the group protocol lists them, partition counts, the plain assignor that all of them
know. Out: whole partitions for each. The dealing is done by our own assignors with sharing
forbidden; of the plain rules only what makes a leader right is added here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assignors.assignment import Assignor
from assignors.key_range import WHOLE
from assignors.member import Member, TopicPartition
from assignors.ranged import KeyRangeRangeAssignor
from assignors.sticky import KeyRangeStickyAssignor

COOPERATIVE_STICKY = "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class PlainMember:
    """One member as a plain leader sees it.

    Args:
        id: The coordinator's id for it.
        instance_id: The name of a static member.
        topics: The topics it subscribes to.
        owned: The partitions it says it still works on; nobody else may get them yet.
    """

    id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = field(default=())


def assign_plain(
    assignor: str, partitions: Mapping[str, int], members: Sequence[PlainMember]
) -> dict[str, dict[str, list[int]]]:
    """Deal whole partitions as a plain leader does; returns member id → topic → numbers.

    "range" deals each topic's partitions in blocks: first to static members by their names, then to
    the others by their ids. Every client's leader does so, hence a change of leader moves nothing.
    "cooperative-sticky" moves little. A partition that moves is nobody's until its owner has joined
    without it. Every member has an entry.

    Args:
        assignor: "range" or "cooperative-sticky".
        partitions: How many partitions each topic has. Topics not listed are nobody's.
        members: The group.
    """
    sticky = assignor == COOPERATIVE_STICKY
    dealer: Assignor = KeyRangeStickyAssignor() if sticky else KeyRangeRangeAssignor()
    places = {_place(member): member for member in members}
    dealt = dealer.assign(
        partitions=partitions,
        members=[
            Member(place, topics=member.topics, owned=dict.fromkeys(member.owned, (WHOLE,)))
            for place, member in places.items()
        ],
        group_allows_sharing=False,
    )
    plan: dict[str, dict[str, list[int]]] = {}
    for place, member in places.items():
        others = {tp for other in members if other is not member for tp in other.owned}
        own = plan[member.id] = {}
        for tp in sorted(dealt[place].keys() - others):
            own.setdefault(tp.topic, []).append(tp.partition)
    return plan


def _place(member: PlainMember) -> str:
    """Where it stands in the order in which partitions are dealt."""
    return f"1/{member.id}" if member.instance_id is None else f"0/{member.instance_id}"
