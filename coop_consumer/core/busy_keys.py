"""Busy keys: those that keep one worker busy all the time, so that no other worker helps. Pure.

In: the heavy hashes of tenures, what their lanes do, and time. Out: one WARNING a minute at most,
and for the load report which of the hashes are busy. A record costs nothing here: four times a
second the member looks at the lanes of at most four hashes of a tenure. A key is busy if it has run
at 80 % of the looks of 10 s, and more of it has waited at each of them: then it runs as often as it
gets its turn among the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coop_consumer.core.actions import Level
from coop_consumer.core.key_names import named, shown
from coop_consumer.core.lane import BEHIND, RUNNING, Lane
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assignors import TopicPartition
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.core.tenure import Tenure

LOOK_MS = 250
WINDOW_MS = 10_000
AGAIN_MS = 60_000
_RUNS_SHARE = 0.8
"""Between two of its records a key may wait for a worker. Measured: 0.83 to 0.92 beside others.
So more workers may make it a quarter quicker at most (decision 072)."""
_BUSY_SHARE = 0.95
_LOOKS_MIN = 20
_KNOWN_MS = 2 * WINDOW_MS
"""So long a key counts as busy: until the end of its next window, which may begin a look later."""


@dataclass(slots=True)
class _Watched:
    """One hash: since when more of it waits, how often it was looked at, and found running."""

    since_ms: int
    looks: int = 0
    ran: int = 0


@dataclass(slots=True, eq=False)
class BusyKeys:
    """Watches the heaviest keys."""

    state: MemberState
    _watched: dict[tuple[TopicPartition, int], _Watched] = field(default_factory=dict)
    _look_due_ms: int = 0
    _report_at_ms: int = 0

    def look_due(self) -> None:
        """Look, if it is time."""
        state = self.state
        if state.now_ms < self._look_due_ms:
            return
        self._look_due_ms = state.now_ms + LOOK_MS
        before, self._watched = self._watched, {}
        for partition in state.partitions.values():
            for tenure, key_hash, rate in _heavy(partition):
                place = partition.tp, key_hash
                waits, runs = self._at(tenure, key_hash)
                if not waits:
                    continue
                it = self._watched[place] = before.get(place) or _Watched(state.now_ms)
                it.looks += 1
                it.ran += runs
                if state.now_ms - it.since_ms >= WINDOW_MS:
                    self._watched[place] = _Watched(state.now_ms)
                    if it.looks >= _LOOKS_MIN and it.ran >= _RUNS_SHARE * it.looks:
                        tenure.load.busy_until_ms[key_hash] = state.now_ms + _KNOWN_MS
                        self._report(partition, tenure, key_hash, rate)

    def _at(self, tenure: Tenure, key_hash: int) -> tuple[bool, bool]:
        """Whether more of a hash waits, and whether it runs."""
        state = self.state
        with state.lock:  # executors end lanes meanwhile
            lane = state.lanes.tables.filed(tenure.tp).get(tenure.load.keys[key_hash])
            if not isinstance(lane, Lane) or lane.tenure is not tenure:
                return False, False  # a single record: nothing waits behind it
            if lane.state is BEHIND:
                return True, id(lane.ahead) not in state.lanes.waiting()
            runs = lane.state is RUNNING and lane.begun
            left = len(lane.records) - (lane.first_pending() if runs else lane.done)
            return left > 1, runs

    def _report(self, partition: Partition, tenure: Tenure, key_hash: int, rate: float) -> None:
        state = self.state
        total = sum(it.load.rate for it in partition.tenures if it.begun)
        share = min(1.0, rate / total)
        workers = state.lanes.work.workers or state.membership.capacity
        helped_to = 1 / share
        # If more could be busy than there are workers, more workers do help, though not this key.
        if helped_to * _BUSY_SHARE > workers or state.now_ms < self._report_at_ms:
            return
        self._report_at_ms = state.now_ms + AGAIN_MS
        about = (state.config.log_keys, tenure.load.keys[key_hash], key_hash)
        key = named(*about)
        here = "" if partition.is_whole else " that this member has of it"
        state.report(
            Level.WARNING,
            LogEvent.KEY_BUSY,
            f"{partition.tp}: one key{key} is {100 * share:.0f} % of the work{here} and runs on "
            f"one worker; at most {helped_to:.1f} can be busy there. More workers or members will "
            "hardly help: make its handler quicker, or split the key.",
            tp=partition.tp,
            key=shown(*about),
        )


def _heavy(partition: Partition) -> Iterator[tuple[Tenure, int, float]]:
    """Heavy hashes of a partition whose keys are known."""
    for tenure in partition.tenures:
        load = tenure.load
        if load.heavy and tenure.begun:
            for key_hash, rate in load.heavy:
                if load.keys.get(key_hash) is not None:
                    yield tenure, key_hash, rate
