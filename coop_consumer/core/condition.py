"""The condition of a member at one moment, as far as probes need it. Pure.

In: what a member knows. Out: a frozen value, which the member's thread makes twice a second.
`coop_consumer.ops.health` judges it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coop_consumer.core.state import MemberState
    from coop_consumer.core.stop import Stop
    from coop_consumer.core.waits import RangesWait


@dataclass(frozen=True, slots=True)
class Condition:
    """What a member is at.

    Attributes:
        at_ms: When that was, by the member's clock.
        is_member: It holds an assignment, be it an empty one.
        is_closing: It drains, commits and leaves.
        partitions: Of how many partitions it has been assigned something.
        waits: What of that has not begun.
        circuit_since_ms: Since when its circuit is open; 0: it is closed.
        stop: Why the group stops; None: it does not.
    """

    at_ms: int
    is_member: bool
    is_closing: bool
    partitions: int
    waits: tuple[RangesWait, ...]
    circuit_since_ms: int
    stop: Stop | None


def condition_of(state: MemberState, waits: tuple[RangesWait, ...]) -> Condition:
    """How a member stands now. O(partitions)."""
    membership = state.membership
    return Condition(
        at_ms=state.now_ms,
        is_member=membership.is_member,
        is_closing=membership.closing,
        partitions=sum(bool(it.assigned) for it in state.partitions.values()),
        waits=waits,
        circuit_since_ms=state.load.held_back_since_ms,
        stop=membership.stop,
    )
