"""Settling: partitions where something waits go on step by step until nothing waits. Pure.

In: complete reads of the log, ticks, answers. Out: each part's next step, in this order: announce
this run, agree on the epoch, begin what is free, apply decisions, hear of a stop. The log is
followed where something waits, where this member leads a split partition, and where a decision may
come. A settled member reads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import WHOLE

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
"""So often it is looked for what may wait, whatever has happened."""


class Settling:
    """Does the next step of whatever waits.

    Attributes:
        is_over: Whether nothing waits, as of the last `follow`.
    """

    def __init__(
        self,
        state: MemberState,
        *,
        reading: LogReading,
        announcing: Announcing,
        lead: Lead,
        handover: Handover,
        claims: Claims,
        decisions: Decisions,
        orders: Orders,
        closing: Closing,
    ) -> None:
        self._state = state
        self._reading = reading
        self._announcing = announcing
        self._lead = lead
        self._handover = handover
        self._claims = claims
        self._decisions = decisions
        self._orders = orders
        self._closing = closing
        self.is_over = True
        self._look_ms = 0

    @property
    def is_due(self) -> bool:
        """Whether something waits, or may wait, as far as that was looked at."""
        return not self.is_over or self._state.now_ms >= self._look_ms

    def moved(self) -> None:
        """Something has happened by which something may wait, or wait no more."""
        self._look_ms = 0

    def advance_all(self) -> None:
        """Do the next step everywhere."""
        for partition in list(self._state.partitions.values()):
            if partition.is_unsettled:
                self._advance(partition)
        self._claims.ask_for_unknown_tenures()

    def advance(self, view: LogView) -> None:
        """Do the next step where a view was read to its end."""
        for partition in list(self._state.partitions.values()):
            # Another partition's view may hold the start of the topic, which it waits for.
            if partition.view is view or partition.agreement.is_wanting:
                self._advance(partition)

    def _advance(self, partition: Partition) -> None:
        if not self._closing.log_lost:
            self._announcing.announce(partition.view)
        self._lead.agree(partition)
        self._handover.begin_what_is_free(partition)
        self._decisions.apply(partition)
        self._orders.stop_if_logged(partition.view)
        self._reading.report_unreadable(partition.view)

    def follow_due(self) -> None:
        """Follow the log where it is needed now, unless nothing can have changed that."""
        if not self.is_due and not self._state.actions:
            return
        was_over = self.is_over
        self._follow()
        # At the first tick after the end, too: others hear of that end by a tick.
        self._look_ms = self._state.now_ms + (_LOOK_MS if was_over and self.is_over else 0)

    def _follow(self) -> None:
        """Follow the log where something waits, or may come from others; nowhere else."""
        followed = set()
        self.is_over = True
        for partition in self._state.partitions.values():
            if partition.is_unsettled:
                self.is_over = False
                followed.add(partition.view)
            elif (partition.agreement.leads and partition.assigned != (WHOLE,)) or any(
                a.parked for t in partition.tenures if t.attempts for a in t.attempts.values()
            ):
                followed.add(partition.view)
        self._reading.follow(followed)
