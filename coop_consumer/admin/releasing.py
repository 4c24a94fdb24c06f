"""A person ends waits for other members' handlers: which waits, at what risk, and the releases.

In: an inspector, which waits are meant. Out: what would be released, then the releases in the log.
Both the command `release` and the page's button come here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.admin.amend import Amender
from coop_consumer.config import Guarantee
from coop_consumer.status.errors import PartitionMissingError
from coop_consumer.status.model import PendingHandover, group_status, holders_at_work
from coop_consumer.status.words import for_span

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.admin.inspect import Inspector
    from coop_consumer.status.seen import GroupSeen, MemberSeen


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """What would be released.

    Attributes:
        seen: The group as it was seen.
        found: The waits, with their partitions.
        is_once: Whether the group works by exactly once, so that no order can break.
        put_out: The members to be put out of the group first.
    """

    seen: GroupSeen
    found: tuple[tuple[TopicPartition, PendingHandover], ...]
    is_once: bool
    put_out: tuple[MemberSeen, ...]

    @property
    def lines(self) -> list[str]:
        """Who waits for whom, and who is put out of the group; a line each."""
        now_ms = self.seen.at_ms
        return [_line(tp, handover, now_ms) for tp, handover in self.found] + [
            f"{member.place} is in the group. It is put out of it first, so that nothing counts "
            "that it has not committed. If it lives, it joins again."
            for member in self.put_out
        ]


def waits_of(
    inspector: Inspector, place: TopicPartition | None = None, holder: str | None = None
) -> PlannedRelease:
    """The waits of a group now.

    Args:
        inspector: Of the group.
        place: Only in this partition; None: in all.
        holder: Only for this member; None: for any.

    Raises:
        PartitionMissingError: There is no such partition.
        GroupMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    seen = inspector.see([place.topic] if place else [])
    status = group_status(seen)
    if place is not None:
        PartitionMissingError.check(place, [it.tp for it in status.partitions])
    found = tuple(
        (partition.tp, handover)
        for partition in status.partitions
        for handover in partition.handovers
        if place in (None, partition.tp) and holder in (None, handover.holder)
    )
    is_once = seen.guarantee == Guarantee.EXACTLY_ONCE
    put_out = holders_at_work(seen, [it for _, it in found]) if is_once else ()
    return PlannedRelease(seen, found, is_once, put_out)


def release_all(inspector: Inspector, waits: PlannedRelease) -> None:
    """Release them.

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say. Some may be released then.
    """
    amender = Amender(inspector)
    for member in waits.put_out:
        amender.put_out(member)
    for partition in waits.seen.partitions:
        amender.release(partition, [it for tp, it in waits.found if tp == partition.tp])


def _line(tp: TopicPartition, handover: PendingHandover, now_ms: int) -> str:
    keys = " ".join(map(str, handover.ranges))
    since = for_span(handover.since_ms, now_ms)
    return f"{tp} keys {keys}: {handover.waiting} waits{since} for {handover.holder}"
