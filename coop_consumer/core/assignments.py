"""Assignments: what the group gives this member, given to each part that has to know. Pure.

In: `Joining`, `Assigned`, `AssignAlone`, `Lost`. Out: the role of the lead, ranges that come and
go, or the loss of everything. Only this part writes the generation and who is alive. Upholds I4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors import WHOLE, AssignmentData
from coop_consumer.core.actions import Level
from coop_consumer.core.events import NO_MEMBER, Assigned, GroupMetadata
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from coop_consumer.core.announcing import Announcing
    from coop_consumer.core.events import AssignAlone
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.load_watch import LoadWatch
    from coop_consumer.core.log_reading import LogReading
    from coop_consumer.core.orders import Orders
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.core.withdrawal import Withdrawal


@dataclass(slots=True, eq=False)
class Assignments:
    """Applies what the group's coordinator says."""

    state: MemberState
    reading: LogReading
    announcing: Announcing
    orders: Orders
    handover: Handover
    withdrawal: Withdrawal
    watch: LoadWatch

    def joining(self) -> None:
        """A JoinGroup is about to be sent: until its answer comes, nothing begins."""
        self.state.membership.joining = True
        self.announcing.joining()

    def assigned(self, event: Assigned) -> None:
        """A generation gives ranges."""
        state, data = self.state, event.data
        # By a plan that we have missed, plain members may have had what we led before and lead now.
        is_next = event.metadata.generation == state.membership.newest_generation + 1
        has_missed = not (is_next or state.membership.alone)
        state.membership.metadata, state.membership.joining = event.metadata, False
        self.withdrawal.by_plain = event.plain
        self.announcing.assigned()
        state.membership.members, state.membership.live = max(data.members, 1), data.live
        state.tally.rebalances += not state.membership.alone
        self.orders.apply(event)
        self.watch.assigned(leads=bool(data.split) and data.lead == state.name)
        ranges = {} if state.membership.closing else dict(data.ranges)
        led = set(data.split) if data.lead == state.name else set()
        led |= {tp for tp, own in ranges.items() if own == (WHOLE,)}
        for tp in sorted(led | set(state.partitions)):
            self._set_lead(state.partition(tp), leads=tp in led, afresh=has_missed)
        kept = self.withdrawal.kept()
        self.handover.assign(ranges, data.waits, data.epochs)
        self.orders.miss_partitions(data)
        if event.plain and any(tp not in ranges for tp in kept):
            state.rejoin("what a plain leader took away is nobody's yet")

    def assigned_alone(self, event: AssignAlone) -> None:
        """Without a group everybody leads the partitions it has, as generation 0 of itself.

        Two leads of one partition agree: the first base record of an epoch counts for both.
        """
        state = self.state
        state.membership.alone = True
        data = AssignmentData(
            ranges=event.ranges,
            lead=state.name,
            split=tuple(sorted(tp for tp, ranges in event.ranges.items() if ranges != (WHOLE,))),
        )
        self.assigned(Assigned(GroupMetadata(0), data))

    def _set_lead(self, partition: Partition, *, leads: bool, afresh: bool) -> None:
        if leads and (afresh or not partition.agreement.leads):
            self.reading.read(partition.view)
        partition.agreement.lead(leads=leads, afresh=afresh)
        partition.view.clearing.assigned(leads=leads)

    def lost(self, reason: str) -> None:
        """The group has evicted us; the reason says whether we join again."""
        told = f"not a member any more: {reason}"
        self.state.report(Level.WARNING, LogEvent.MEMBER_LOST, told)
        self.lose_all()

    def lose_all(self) -> None:
        """We are no member: nothing is ours."""
        self.state.membership.metadata = NO_MEMBER
        self.handover.lose_all()
