"""Overdue handlers: those that run for longer than `max.processing.ms`. Pure.

In: the lanes that executors run, and time. Out: a line, and an attempt in the progress record, so
that `status` shows it. Then `on.overdue` decides: the handler runs on, or it is abandoned and its
record has failed, or the process ends. A record costs nothing here: ten times within
`max.processing.ms` the member looks which record each running lane is at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from assignors import KeyRange
from coop_consumer.config import LogKeys, OnOverdue
from coop_consumer.core.actions import AbandonLane, EndProcess, HandlerOverdue
from coop_consumer.core.failure import failure_of
from coop_consumer.core.glimpses import running_entries
from coop_consumer.core.lane import Entry
from coop_consumer.core.record import Record, facts_of, key_of
from coop_consumer.errors import HandlerOverdueError

if TYPE_CHECKING:
    from coop_consumer.core.commits import Commits
    from coop_consumer.core.failures import Failures
    from coop_consumer.core.state import MemberState

_LOOKS = 10
"""So many looks within `max.processing.ms`: a handler is found at most two looks late."""
_END_ANYWAY_MS = 5_000


class _Seen(NamedTuple):
    record: Record
    since_ms: int
    is_reported: bool


@dataclass(slots=True, eq=False)
class Overdue:
    """Watches what runs."""

    state: MemberState
    failures: Failures
    commits: Commits
    _due_ms: int = 0
    _seen: dict[Entry, _Seen] = field(default_factory=dict)
    _ending: tuple[HandlerOverdueError, int] | None = None

    @property
    def count(self) -> int:
        """How many handlers run for too long, as of the last look."""
        return sum(it.is_reported for it in self._seen.values())

    @property
    def since(self) -> dict[Record, int]:
        """Since when records have been seen to run, Unix time, as of the last look."""
        return {it.record: it.since_ms for it in self._seen.values()}

    def next_due_ms(self) -> int | None:
        """When to look again; None: there is nothing to look at."""
        return self._due_ms if self._ending or self.state.lanes.in_use else None

    def look_due(self) -> None:
        """Look at what runs, if it is time."""
        state = self.state
        if self._ending is not None:
            error, until_ms = self._ending
            if not self.commits.under_way or state.now_ms >= until_ms:
                state.actions.append(EndProcess(error))
        if state.now_ms < self._due_ms:
            return
        self._due_ms = state.now_ms + max(1, state.config.max_processing_ms // _LOOKS)
        seen, self._seen = self._seen, {}
        with state.lock:  # executors end lanes meanwhile
            running = list(running_entries(state))
        for lane, record in running:
            known = seen.get(lane)
            if known is None or known.record is not record:
                known = _Seen(record, state.now_ms, is_reported=False)
            if (
                state.now_ms - known.since_ms >= state.config.max_processing_ms
                and not known.is_reported
            ):
                known = known._replace(is_reported=True)
                self._overdue(lane, record, state.now_ms - known.since_ms)
            self._seen[lane] = known

    def _overdue(self, lane: Entry, record: Record, running_ms: int) -> None:
        state, policy = self.state, self.state.config.on_overdue
        alone = KeyRange(record._key_hash, record._key_hash)  # if its range has moved on
        key_range = next((r for r in lane.tenure.ranges if record._key_hash in r), alone)
        tp, offset = record.tenure.tp, record._offset
        keys = state.config.log_keys
        key = record._key if keys is LogKeys.TEXT else key_of(record, keys)
        error = HandlerOverdueError(
            tp.topic, tp.partition, key_range, offset, key, running_ms, policy
        )
        with state.lock:
            if self._has_ended(record):
                return
            if policy is OnOverdue.FAIL:  # whatever the handler does from now on counts for nothing
                state.lanes.abandon(lane, record, failure_of(error))
        state.counters.overdue += 1
        state.tally.of(record.tenure.tp.topic).expired += 1
        facts = facts_of(record, keys)
        facts["error"] = error
        state.actions.append(HandlerOverdue(lane, error, facts))
        if policy is OnOverdue.FAIL:
            state.actions.append(AbandonLane(lane))
        else:
            self.failures.note(record, failure_of(error), fell=policy is OnOverdue.EXIT)
        if policy is OnOverdue.EXIT and self._ending is None:
            self._ending = error, state.now_ms + _END_ANYWAY_MS
            for view in state.views.values():
                view.hurry()

    def _has_ended(self, record: Record) -> bool:
        """Whether its handler has ended since executors were last looked at. Under the lock."""
        return record in list(self.state.lanes.finished)
