"""Waits: why ranges of this member have not begun for long, in words. Pure.

In: the partitions with ranges that wait, and time. Out: a line after ten seconds, and every minute
from then on, that names the cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors import intersect
from coop_consumer.core.actions import Level
from coop_consumer.core.claims import tenure_of
from coop_consumer.core.log_reading import told_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignors import KeyRange, TopicPartition, Wait
    from coop_consumer.core.notices import Notices
    from coop_consumer.core.state import MemberState, Partition

_FIRST_MS = 10_000
_AGAIN_MS = 60_000


@dataclass(slots=True, eq=False)
class Waits:
    """Reports ranges that wait for long."""

    state: MemberState
    notices: Notices
    # since when, next reported when
    _waits: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    def report_due(self) -> None:
        """Report what waits, if it is time."""
        state = self.state
        for partition in state.partitions.values():
            why = self._why(partition)
            if why:
                self._report_late(partition.tp, why)
            else:
                self._waits.pop(partition.tp, None)

    def _report_late(self, tp: TopicPartition, why: str) -> None:
        now_ms = self.state.now_ms
        since_ms, due_ms = self._waits.setdefault(tp, (now_ms, now_ms + _FIRST_MS))
        if now_ms >= due_ms:
            self._waits[tp] = since_ms, now_ms + _AGAIN_MS
            waited_s = (now_ms - since_ms) // 1_000
            self.state.report(Level.WARNING, f"{tp}: for {waited_s} s {why}")

    def _why(self, partition: Partition) -> str:
        if partition.waiting:
            ranges = [r for item in partition.waiting for r in item.ranges]
            return f"keys {_text(ranges)} wait for {self._cause(partition)}"
        for tenure in partition.tenures:
            if self.notices.is_loading(tenure):
                return (
                    f"keys {_text(tenure.ranges)} wait for on_ranges_assigned to return, or for "
                    "their keyed state, which is read before"
                )
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
        view = partition.view
        if self.state.membership.joining:
            return "the group's next assignment"
        if not (view.current and view.has_own_releases):
            number = f"partition {view.log_partition}"
            return (
                f"the progress log: {number} is not read far enough yet"
                if view.blocked is None
                else told_of(view.blocked)
            )
        if not view.announcement.is_in_log:
            return f"our announcement in the progress log ({view.announcement.state.name})"
        agreement = partition.agreement
        if not agreement.epoch:
            if agreement.is_asked:
                return "the group coordinator to tell the committed offset"
            return (
                f"the lead: the log is in epoch {partition.store.epoch or 0}, the committed offset "
                f"is {agreement.committed or 'none'}"
            )
        waits = [wait for item in partition.waiting for wait in item.waits]
        return f"their last owner to release them {self._holders(partition, waits)}"

    def _holders(self, partition: Partition, waits: Iterable[Wait]) -> str:
        found = []
        for wait in waits:
            tenure = tenure_of(wait)
            held = partition.store.unreleased(tenure, wait.ranges)
            ours = [r for item in partition.waiting for r in item.ranges]
            ours += [r for own in partition.tenures for r in own.ranges]
            if common := intersect(held, tuple(sorted(ours))):
                found.append(f"{tenure}: {_text(common)}")
        return f"({'; '.join(found)})" if found else "(in this process)"


def _text(ranges: Iterable[KeyRange]) -> str:
    told = [str(key_range) for key_range in ranges]
    return " ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")
