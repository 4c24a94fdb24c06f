"""How a member stands at one moment: what others than its thread may know of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.core.actions import MAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors import KeyRange, TopicPartition
    from coop_consumer.core.state import MemberState
    from offsets import LoadRecord


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Made on the member's thread; stays as it is.

    Attributes:
        capacity: With what capacity it joins next.
        assignment: The ranges whose records are processed here; not those that still wait.
        positions: For each partition that something is held of: up to where its records were taken
            in; the lowest of its ranges counts, None: nothing has begun.
        load: How busy it is, and with what.
    """

    capacity: int
    assignment: Mapping[TopicPartition, tuple[KeyRange, ...]]
    positions: Mapping[TopicPartition, int | None]
    load: LoadRecord


def snapshot_of(state: MemberState, load: LoadRecord) -> Snapshot:
    """How things stand now."""
    positions = {
        tp: min((t.tracker.seen_to for t in partition.tenures if t.begun), default=None)
        for tp, partition in state.partitions.items()
    }
    return Snapshot(state.membership.capacity, state.assignment(), positions, load)


def is_caught_up(state: MemberState) -> bool:
    """Whether everything assigned (if anything is) is processed up to its end as last seen."""
    return state.membership.is_member and all(
        not partition.waiting
        # Without a fetch its end is not looked at.
        and (MAIN in partition.streams or partition.tp in state.load.paused)
        and partition.end_offset >= 0
        and all(t.begun and t.tracker.stable >= partition.end_offset for t in partition.tenures)
        for partition in state.partitions.values()
        if partition.assigned
    )
