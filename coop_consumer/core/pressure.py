"""Back-pressure: when the fetch stops, and when it goes on. Pure; upholds I8.

In: what is admitted, ready and finished. Out: `HoldFetch`. Enough is enough: a commit costs in
proportion to the records in flight, so no more lanes are kept ready than the workers run in a tenth
of a second. Beyond that there are bounds on records, bytes and gaps that a key which waits (or is
far behind) uses up by itself: its records count against the memory, not against the others' turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.actions import HoldFetch
from coop_consumer.core.lanes import HELD

if TYPE_CHECKING:
    from coop_consumer.core.state import MemberState

READY_MS = 100
"""So much work is kept ready: the fetch has answered long before it is used up."""

_READY_MIN = 512
_RATE_FADES = 0.7
_RESUME_SHARE = 0.5
_RECOUNT_SHARE = 0.05
"""Lanes are counted anew only once so much of the bound has come or gone."""


class Pressure:
    """Decides whether the fetch is held.

    Attributes:
        holding: Whether it is.
    """

    def __init__(self, state: MemberState) -> None:
        self._state = state
        self.holding = False
        self._excess = 0
        self._counted_at = 0
        self._finished = 0
        self._measured_ms = 0
        self._ready_enough = float(max(_READY_MIN, 8 * (state.config.capacity or 1)))
        self._ready_min = self._ready_enough

    def hold_or_resume(self) -> None:
        """Stop consuming at a bound, go on when half of it is free again."""
        full = self._is_full(_RESUME_SHARE if self.holding else 1.0)
        if full != self.holding:
            self.holding = full
            self._state.actions.append(HoldFetch(full))

    def _is_full(self, share: float) -> bool:
        state, config = self._state, self._state.config
        self._measure()
        if len(state.lanes.ready) >= self._ready_enough * share:
            return True
        pending, runnable_max = state.pending(), config.max_records_in_lanes * share
        drift = abs(pending - self._counted_at)
        if pending - self._excess >= runnable_max and drift > runnable_max * _RECOUNT_SHARE:
            self._counted_at, self._excess = pending, self._count_excess()
        return (
            pending - self._excess >= runnable_max
            or pending >= config.max_num_ranges_held * share
            or state.bytes_waiting >= config.max_bytes_key_range_cache * share
        )

    def _measure(self) -> None:
        """How many records are finished in `READY_MS`, by the recent past."""
        state = self._state
        passed_ms = state.now_ms - self._measured_ms
        if passed_ms < READY_MS:
            return
        recent = (state.counters.finished - self._finished) * READY_MS / passed_ms
        self._ready_enough = max(self._ready_min, recent, self._ready_enough * _RATE_FADES)
        self._finished, self._measured_ms = state.counters.finished, state.now_ms

    def _count_excess(self) -> int:
        """Records that no worker could run now: behind a key that waits, or far back in theirs."""
        state, per_key_max = self._state, self._state.config.records_per_key_max
        excess = 0
        with state.lock:
            for tp in state.partitions:
                for lane in state.lanes.table(tp).values():
                    waiting = len(lane.records)
                    excess += waiting if lane.state is HELD else max(0, waiting - per_key_max)
        return excess
