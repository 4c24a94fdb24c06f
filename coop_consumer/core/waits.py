"""What a member waits for before ranges of its own begin, in words, when it takes long. Pure.

In: the partitions with ranges that wait, and time. Out: a line for the log after ten seconds and
every minute from then on: what is at work may be slow, but it must never be a riddle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import intersect
from coop_consumer.core.actions import Level
from coop_consumer.core.state import Announcement
from offsets import TenureId

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignors import KeyRange, Wait
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.state import MemberState, Partition

_FIRST_MS = 10_000
_AGAIN_MS = 60_000


class Waits:
    """Tells of ranges that wait for long."""

    def __init__(self, state: MemberState, handover: Handover) -> None:
        self._state = state
        self._handover = handover

    def tell_due(self) -> None:
        """Tell what waits, if it is time."""
        state = self._state
        for partition in state.partitions.values():
            why = self._why(partition)
            if not why:
                partition.waits_since_ms = partition.waits_told_ms = 0
            elif not partition.waits_since_ms:
                partition.waits_since_ms = state.now_ms
            else:
                self._tell(partition, why)

    def _tell(self, partition: Partition, why: str) -> None:
        now_ms, told_ms = self._state.now_ms, partition.waits_told_ms
        due_ms = told_ms + _AGAIN_MS if told_ms else partition.waits_since_ms + _FIRST_MS
        if now_ms >= due_ms:
            partition.waits_told_ms = now_ms
            waited_s = (now_ms - partition.waits_since_ms) // 1_000
            self._state.report(Level.WARNING, f"{partition.tp}: for {waited_s} s {why}")

    def _why(self, partition: Partition) -> str:
        if partition.waiting:
            ranges = [r for item in partition.waiting for r in item.ranges]
            return f"keys {_text(ranges)} wait for {self._cause(partition)}"
        for tenure in partition.tenures:
            if self._handover.is_loading(tenure):
                return f"keys {_text(tenure.ranges)} wait for on_ranges_assigned to return"
            if not tenure.begun:
                return (
                    f"keys {_text(tenure.ranges)} wait for their first record in the progress log"
                )
        blocked = sum(len(tenure.blocked.hashes) for tenure in partition.tenures)
        if blocked:
            waits = [wait for tenure in partition.tenures for wait in tenure.blocked.waits]
            return f"{blocked} keys wait for handlers that run {self._holders(partition, waits)}"
        return ""

    def _cause(self, partition: Partition) -> str:
        state, view = self._state, partition.view
        if state.joining:
            return "the group's next assignment"
        if not view.current or view.store.next_offset <= view.told_offset:
            return f"the progress log: partition {view.log_partition} is not read far enough yet"
        if view.announcement is not Announcement.IN_LOG:
            return f"our announcement in the progress log ({view.announcement.name})"
        if not partition.epoch:
            if partition.asked_committed:
                return "the group coordinator to tell the committed offset"
            return (
                f"the lead: the log is in epoch {partition.store.epoch or 0}, the committed offset "
                f"is {partition.committed or 'none'}"
            )
        waits = [wait for item in partition.waiting for wait in item.waits]
        return f"their last owner to release them {self._holders(partition, waits)}"

    def _holders(self, partition: Partition, waits: Iterable[Wait]) -> str:
        found = []
        for wait in waits:
            tenure = TenureId(wait.member, wait.incarnation, wait.number)
            held = partition.store.unreleased(tenure, wait.ranges)
            ours = [r for item in partition.waiting for r in item.ranges]
            ours += [r for own in partition.tenures for r in own.ranges]
            if common := intersect(held, tuple(sorted(ours))):
                found.append(f"{tenure}: {_text(common)}")
        return f"({'; '.join(found)})" if found else "(in this process)"


def _text(ranges: Iterable[KeyRange]) -> str:
    told = [str(key_range) for key_range in ranges]
    return " ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")
