"""Settling: partitions where something waits go on step by step until nothing waits. Pure.

In: complete reads of the log, ticks, answers. Out: each part's next step, in this order: announce
this run, agree on the epoch, begin what is free, apply decisions, hear of a stop. The log is
followed where something waits, where this member leads a split partition, and where a decision may
come. A settled member reads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors import WHOLE
from coop_consumer.errors import ProgressLogLostError

if TYPE_CHECKING:
    from coop_consumer.core.announcing import Announcing
    from coop_consumer.core.claims import Claims
    from coop_consumer.core.closing import Closing
    from coop_consumer.core.decisions import Decisions
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.lead import Lead
    from coop_consumer.core.log_reading import LogReading
    from coop_consumer.core.orders import Orders
    from coop_consumer.core.state import LogView, MemberState, Partition

_LOOK_MS = 1_000
"""At least so often all partitions are looked at, whatever has happened."""
_FEW = 32
_PAUSE_A_PARTITION_MS = 0.25
"""A thousand partitions that begin bring fifteen thousand events, and each may let any of them go
on. So where more than a few wait, the next step of all is looked for in turns with pauses."""


@dataclass(slots=True, eq=False)
class Settling:
    """Does the next step of whatever waits.

    Attributes:
        is_over: Whether nothing waits, as of the last `follow`.
    """

    state: MemberState
    reading: LogReading
    announcing: Announcing
    lead: Lead
    handover: Handover
    claims: Claims
    decisions: Decisions
    orders: Orders
    closing: Closing
    is_over: bool = True
    _look_ms: int = 0
    _wanted: bool = False
    _again_ms: int = 0
    _follow_ms: int = 0

    @property
    def is_due(self) -> bool:
        """Whether something waits, or may wait, as far as that was looked at."""
        return not self.is_over or self.state.now_ms >= self._look_ms

    def moved(self) -> None:
        """Something has happened by which something may wait, or wait no more."""
        self._look_ms = 0

    def advance_all(self) -> None:
        """Do the next step everywhere: now, or, where many wait, once for some events."""
        self._wanted = True
        self.advance_wanted()

    def advance_wanted(self) -> None:
        """Do the next step everywhere, if something has happened since the last time."""
        if not self._wanted or self.state.now_ms < self._again_ms:
            return
        self._wanted, count = False, 0
        for partition in list(self.state.partitions.values()):
            if partition.is_unsettled:
                count += 1
                self._advance(partition)
        self.claims.ask_for_unknown_tenures()
        self._again_ms = self._after_a_pause(count)

    def advance(self, view: LogView) -> None:
        """Do the next step where a view was read to its end."""
        wanting = 0
        for partition in list(self.state.partitions.values()):
            if partition.view is view:
                self._advance(partition)
            # Another partition's view may hold the start of the topic, which it waits for.
            elif partition.agreement.is_wanting:
                wanting += 1
                if wanting <= _FEW:
                    self._advance(partition)
        self._wanted |= wanting > _FEW

    def _after_a_pause(self, count: int) -> int:
        return self.state.now_ms + int(max(count - _FEW, 0) * _PAUSE_A_PARTITION_MS)

    def _advance(self, partition: Partition) -> None:
        if not self.closing.log_lost:
            self.announcing.announce(partition.view)
        self.lead.agree(partition)
        if self.state.config.exactly_once:
            self._stop_if_damaged(partition)
        self.handover.begin_what_is_free(partition)
        self.decisions.apply(partition)
        self.orders.stop_if_logged(partition.view)
        self.reading.report_unreadable(partition.view)

    def _stop_if_damaged(self, partition: Partition) -> None:
        """End, as what a damaged record told may be visible, and would be sent again."""
        damaged = partition.store.damaged() if partition.view.current else None
        if damaged is not None and not self.closing.log_lost:
            problem = (
                f"cannot be read: the record of {damaged} about {partition.tp} is damaged, or of a "
                "newer version of this library, to which this member is to be upgraded first"
            )
            self.closing.lose_log(ProgressLogLostError(self.state.config.progress_log, problem))

    def follow_due(self) -> None:
        """Follow the log where it is needed now, unless nothing can have changed that."""
        if not self.is_due and not self.state.actions:
            return
        if not self.is_over:
            if self.state.now_ms < self._follow_ms:
                return
            self._follow_ms = self._after_a_pause(len(self.state.partitions))
        was_over = self.is_over
        self._follow()
        # Once more at the first tick after the end: other parts look for that end at a tick.
        self._look_ms = self.state.now_ms + (_LOOK_MS if was_over and self.is_over else 0)

    def _follow(self) -> None:
        """Follow the log where something waits, or may come from others; nowhere else."""
        followed = set()
        self.is_over = True
        for partition in self.state.partitions.values():
            if partition.is_unsettled:
                self.is_over = False
                followed.add(partition.view)
            elif (partition.agreement.leads and partition.assigned != (WHOLE,)) or any(
                a.parked for t in partition.tenures if t.attempts for a in t.attempts.values()
            ):
                followed.add(partition.view)
        self.reading.follow(followed)
