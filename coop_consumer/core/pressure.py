"""Back-pressure: when the fetch stops, and when it goes on. Pure; upholds I8.

In: what is admitted, ready and finished. Out: `HoldFetch`, and streams that stop and start.

The member keeps ready what its workers run in a tenth of a second. More would make commits dearer,
as their cost grows with the records in flight. Partitions take turns in the fetch, so one of them
waits a tenth of a second for the others.

Records and bytes are bounded, too. Records that workers can run may take all of the record bound
and half of the byte bound. Records in *excess* are those that no worker can run now: their key
waits, or they lie far back in a busy key's queue. They count against the whole byte bound only.

A partition with as many gap ranges as are allowed is at the *wall*. It is fetched again once the
record that holds its stable offset ends. The other partitions go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import hull
from coop_consumer.core.actions import HoldFetch, Level
from coop_consumer.core.events import Fetched
from coop_consumer.core.hot import busiest, first_of
from coop_consumer.core.key_names import named, shown
from coop_consumer.core.lane import HELD, RUNNING, Lane
from coop_consumer.core.state import RESUME_SHARE
from coop_consumer.core.tally import FetchBound
from coop_consumer.errors import MaxIndividualCommitReachedError
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core.events import Event
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.state import MemberState, Partition

READY_MS = 100
"""So many milliseconds of work are kept ready: the fetch answers long before they pass."""

_READY_PER_WORKER = 8
_RATE_FADES = 0.7
_RECOUNT_SHARE = 0.05
"""Lanes are counted anew only once this share of the bound has come or gone."""
_RECOUNT_MS = 1_000
"""Or this long after the last count, if handlers have failed since: their keys wait now."""
_WALL_RESUME_SHARE = 0.9
_KEY_BYTES_SHARE = 0.05
_STUCK_MS = 10_000
_WALL_AGAIN_MS = 60_000
_WALL_OVER_MS = 10_000
"""A partition at the wall stops again and again. After so long without a stop it has left it."""


class Pressure:
    """Decides whether the fetch is held.

    Attributes:
        holding: Whether the fetch is held.
        bound: What holds it; None: nothing does.
    """

    def __init__(self, state: MemberState, handover: Handover) -> None:
        self._state = state
        self._handover = handover
        self.holding = False
        self.bound: FetchBound | None = None
        self._held_since_ms = 0
        self._pending_max = 0
        self._excess = self._excess_bytes = 0
        self._counted_at = self._counted_bytes = 0
        self._counted_ms = self._counted_failures = 0
        self._finished = 0
        self._stuck_since_ms: int | None = None
        self._measured_ms = 0
        self._ready_enough = 0.0
        self._wall_reported_ms: dict[TopicPartition, int] = {}
        self._wall_left_ms: dict[TopicPartition, int] = {}
        self._wall_told: set[TopicPartition] = set()  # and not that they have left it

    def has_room(self, event: Event) -> bool:
        """Whether no bound can be reached by what has come since the last look. O(1)."""
        state, config = self._state, self._state.config
        if isinstance(event, Fetched):
            self._pending_max += len(event.messages)
        pending = self._pending_max
        if pending >= config.max_num_ranges_held * _WALL_RESUME_SHARE:
            return False
        held = state.load.bytes_waiting + pending * state.overhead
        is_far = held < config.max_bytes_key_range_cache / 2
        return self.holding or (is_far and pending < config.max_records_in_lanes)

    def hold_or_resume(self) -> None:
        """Stop fetching at a bound; go on when half of it is free again."""
        pending = self._pending_max = self._state.pending()
        self._watch_wall(pending)
        self.bound = self._bound(pending, RESUME_SHARE if self.holding else 1.0)
        full = self.bound is not None
        if full != self.holding:
            self._note_hold(full)
            self.holding = full
            self._state.actions.append(HoldFetch(full))
        self._report_if_stuck()

    def _note_hold(self, begins: bool) -> None:
        state = self._state
        if begins:
            self._held_since_ms = state.now_ms
        else:
            state.tally.held_ms += state.now_ms - self._held_since_ms

    def held_ms(self) -> int:
        """How long the hold lasts; 0: there is none."""
        return self._state.now_ms - self._held_since_ms if self.holding else 0

    def _report_if_stuck(self) -> None:
        """Report that the records of waiting keys take all room, so that workers idle."""
        state = self._state
        if not self.holding or state.lanes.waiting_for_workers:
            self._stuck_since_ms = None
        elif self._stuck_since_ms is None:
            self._stuck_since_ms = state.now_ms
        elif state.now_ms >= self._stuck_since_ms + _STUCK_MS:
            self._stuck_since_ms = state.now_ms
            if self._all_wait():
                config, status = state.config, state.config.command("status", state.group)
                state.report(
                    Level.WARNING,
                    LogEvent.FETCH_FULL,
                    f"nothing is fetched: what was taken in, {counted(state.pending(), 'record')} "
                    f"({state.bytes_held():,} bytes), is of keys that wait, and is as much as "
                    f"max.bytes.key.range.cache={config.max_bytes_key_range_cache} or "
                    f"max.records.in.lanes={config.max_records_in_lanes} allow. Decide about the "
                    f"parked records, which `{status}` names, or raise that setting.",
                )

    def _all_wait(self) -> bool:
        state = self._state
        with state.lock:
            return all(
                isinstance(entry, Lane) and entry.state is HELD
                for tp in state.partitions
                for entry in state.lanes.tables.of(tp).values()
            )

    def _bound(self, pending: int, share: float) -> FetchBound | None:
        """What is full, if anything is."""
        state, config = self._state, self._state.config
        self._measure()
        ready_max = self._ready_enough * share
        records_max = config.max_records_in_lanes * share
        bytes_max = config.max_bytes_key_range_cache * share
        held = state.bytes_held()
        if pending < ready_max and pending < records_max and held < bytes_max / 2:
            return None  # no more can wait for workers than is pending
        if held >= bytes_max:
            return FetchBound.BYTES
        if state.lanes.waiting_for_workers >= ready_max:
            return FetchBound.READY
        if pending < records_max and held < bytes_max / 2:
            return None  # however many of them are in excess
        failures = state.counters.failures
        if (
            abs(pending - self._counted_at) > records_max * _RECOUNT_SHARE
            or abs(held - self._counted_bytes) > bytes_max * _RECOUNT_SHARE
            or (
                failures != self._counted_failures
                and state.now_ms >= self._counted_ms + _RECOUNT_MS
            )
        ):
            self._counted_at, self._counted_bytes = pending, held
            self._counted_ms, self._counted_failures = state.now_ms, failures
            self._excess, self._excess_bytes = self._count_excess()
        if pending - self._excess >= records_max:
            return FetchBound.RECORDS
        return FetchBound.BYTES if held - self._excess_bytes >= bytes_max / 2 else None

    # ---- the wall ------------------------------------------------------------------------------

    def _watch_wall(self, pending: int) -> None:
        """Stop partitions with too many unfinished records: each makes at most one gap range."""
        state, wall = self._state, self._state.config.max_num_ranges_held
        self._report_left_walls(pending)
        if pending < wall * _WALL_RESUME_SHARE and not state.load.walled:
            return
        state.load.walled &= set(state.partitions)
        for partition in state.partitions.values():
            # A hot hash is held by itself: its records are in a record of their own.
            others = (it for it in partition.all_tenures() if not partition.is_hot(it))
            held = sum(len(tenure.pending) for tenure in others)
            if partition.tp in state.load.walled and held < wall * _WALL_RESUME_SHARE:
                state.load.walled.discard(partition.tp)
                self._handover.feed(partition)
                self._wall_left_ms[partition.tp] = state.now_ms
            elif partition.tp not in state.load.walled and held >= wall:
                self._stop_at_wall(partition, held)
            for tenure in partition.tenures:  # also those that begin while it lasts
                if bool(tenure.walled) != (partition.tp in state.load.walled):
                    tenure.walled = 0 if tenure.walled else held
                    tenure.dirty = True
        state.counters.walled = len(state.load.walled)

    def _report_left_walls(self, pending: int) -> None:
        """Report partitions that have left the wall, each once."""
        if not self._wall_left_ms:
            return
        state = self._state
        for tp, left_ms in list(self._wall_left_ms.items()):
            if state.now_ms >= left_ms + _WALL_OVER_MS:
                del self._wall_left_ms[tp]
                if tp not in self._wall_told:
                    continue
                self._wall_told.discard(tp)
                state.report(
                    Level.WARNING,
                    LogEvent.FETCH_UNWALLED,
                    f"{tp}: it is fetched again, since {_WALL_OVER_MS // 1_000} s without a stop; "
                    f"{counted(pending, 'record of this member is', 'records of this member are')} "
                    "unfinished",
                    tp=tp,
                )

    def _stop_at_wall(self, partition: Partition, held: int) -> None:
        state, tp = self._state, partition.tp
        state.load.walled.add(tp)
        self._handover.unfeed(partition)
        self._wall_left_ms.pop(tp, None)
        last_ms = self._wall_reported_ms.get(tp)
        if last_ms is not None and state.now_ms < last_ms + _WALL_AGAIN_MS:
            return
        self._wall_reported_ms[tp] = state.now_ms
        self._wall_told.add(tp)
        owned = hull(r for tenure in partition.all_tenures() for r in tenure.held)
        error = MaxIndividualCommitReachedError(
            tp.topic,
            tp.partition,
            owned,
            held,
            state.config.max_num_ranges_held,
            state.config.command("status", state.group),
        )
        others = [it for it in partition.all_tenures() if not partition.is_hot(it)]
        key_hash, count = busiest(others)
        holder = next(it for it in others if key_hash in it.pending.values())
        place, record = first_of(state, holder, key_hash)
        keys, is_known = state.config.log_keys, record is not None
        key = record._key if record else None
        named_key = named(keys, key, key_hash, known=is_known)
        fact = shown(keys, key, key_hash, known=is_known)
        told = f" One key{named_key} has {count} of them, {100 * count // held} %, from {place} on."
        state.report(Level.ERROR, LogEvent.FETCH_WALLED, f"{error}{told}", tp=tp, key=fact)

    # ---- records and bytes ---------------------------------------------------------------------

    def _measure(self) -> None:
        """Estimate how many records are finished in `READY_MS`, by the recent past."""
        state = self._state
        passed_ms = state.now_ms - self._measured_ms
        finished = state.counters.finished - self._finished
        if passed_ms < READY_MS:  # so after a rest the estimate rises at each look
            if finished > self._ready_enough or not self._ready_enough:
                self._ready_enough = max(finished, self._ready_min())
            return
        recent = finished * READY_MS / passed_ms
        self._ready_enough = max(self._ready_min(), recent, self._ready_enough * _RATE_FADES)
        self._finished, self._measured_ms = state.counters.finished, state.now_ms

    def _ready_min(self) -> float:
        return max(self._state.lanes.ready_min, _READY_PER_WORKER * self._state.membership.capacity)

    def _count_excess(self) -> tuple[int, int]:
        """Records, and their bytes, that no worker could run now."""
        state, records, bytes_ = self._state, 0, 0
        with state.lock:
            for tp in state.partitions:
                for entry in state.lanes.tables.of(tp).values():
                    if isinstance(entry, Lane):
                        first = self._first_in_excess(entry)
                        records += len(entry.records) - first
                        bytes_ += sum(record._size for record in entry.records[first:])
        for tenure in state.load.careful:
            if tenure.falls.suspicion is not None:
                waiting = [*tenure.falls.suspicion.waiting, *tenure.falls.suspicion.apart]
                records += len(waiting)
                bytes_ += sum(record._size for _, record in waiting)
        return records, bytes_ + round(records * state.overhead)

    def _first_in_excess(self, lane: Lane) -> int:
        """The number of the first record of a lane that no worker could run now."""
        if lane.state is HELD:
            return 0
        config = self._state.config
        # A finished record counts nowhere any more, so it is not in excess either.
        first = lane.first_pending() if lane.state is RUNNING else lane.done
        end = min(len(lane.records), first + config.records_per_key_max)
        left = config.max_bytes_key_range_cache * _KEY_BYTES_SHARE
        for number in range(first, end):
            left -= lane.records[number]._size + self._state.overhead
            if left < 0:
                return number
        return end
