"""The circuit: where most of what runs fails alike, nothing is begun but a probe. Pure.

    CLOSED -most of the newest results failed alike-> OPEN -a probe succeeded-> CLOSED

In: results of records, time. Out: lanes that are held back, one of them begun as a probe, a line
when the circuit opens and one when it closes. If a dependency is away, all records fail. To try
each of them would park thousands of keys without a fault of theirs. Membership, commits and
handovers go on. A failure while the circuit is open is no attempt. Each member has a circuit of its
own. Upholds I2 and I4 with `KeyLanes`: a lane that is held back keeps its order and its records.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from coop_consumer.core.actions import Level
from coop_consumer.core.lane import Lane, next_of, records_of
from coop_consumer.core.ready import Holder
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from coop_consumer.core.failure import Failure
    from coop_consumer.core.record import Record
    from coop_consumer.core.state import MemberState

_PARTS = 16
"""Looks without a failure are joined within this part of the window."""
_RESULTS_A_KEY = 10
"""So many of the newest results are judged for each of `circuit.keys`: 100 by default."""
_REMIND_MS = 60_000
_TIMES_MAX = 64


@dataclass(slots=True)
class _Look:
    """The results that one look found, or several looks that are judged as one."""

    at_ms: int
    done: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    keys: dict[str, set[int]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.done + self.failed.total()


class Alike(NamedTuple):
    """So many of the newest results are failures of one kind."""

    failed: int
    results: int


class Results:
    """The newest results, and whether most of them are failures of one kind.

    Args:
        share: From how many percent on they are most.
        keys_min: Of so many different keys at least: one poisonous key alone opens no circuit.
        window_ms: Older results do not count.
    """

    def __init__(self, share: int, keys_min: int, window_ms: int) -> None:
        self._share = share
        self._keys_min = keys_min
        self._window_ms = window_ms
        self._looks: deque[_Look] = deque()
        self._count = 0

    def done(self, count: int, now_ms: int) -> None:
        """So many records were processed. O(1), amortised.

        Looks that found no failure are one look, for a small part of the window: they come often.
        """
        if count <= 0:
            return
        self._count += count
        newest = self._looks[-1] if self._looks else None
        if newest and not newest.failed and now_ms - newest.at_ms <= self._window_ms / _PARTS:
            newest.done += count
        else:
            self._look(now_ms).done += count
            self._forget(now_ms)

    def failed(self, kind: str, key_hash: int, now_ms: int) -> Alike | None:
        """A record failed; returns how many did, if most results are failures like this one.

        A look is judged as a whole, because the order of its results is not known: a large batch
        with some failures at its end is mostly good.
        """
        look = self._look(now_ms)
        look.failed[kind] += 1
        keys = look.keys.setdefault(kind, set())
        if len(keys) < self._keys_min:
            keys.add(key_hash)
        self._count += 1
        self._forget(now_ms)
        failed = sum(it.failed[kind] for it in self._looks)
        if failed < self._keys_min or failed * 100 < self._share * self._count:
            return None
        seen = set[int]().union(*(it.keys.get(kind, ()) for it in self._looks))
        return Alike(failed, self._count) if len(seen) >= self._keys_min else None

    def clear(self) -> None:
        """Forget all."""
        self._looks.clear()
        self._count = 0

    def _look(self, now_ms: int) -> _Look:
        if not self._looks or self._looks[-1].at_ms != now_ms:
            self._looks.append(_Look(now_ms))
        return self._looks[-1]

    def _forget(self, now_ms: int) -> None:
        looks, wanted = self._looks, _RESULTS_A_KEY * self._keys_min
        while len(looks) > 1:
            oldest = looks[0]
            rest = self._count - oldest.count
            if oldest.at_ms >= now_ms - self._window_ms and rest < wanted:
                return
            looks.popleft()
            self._count = rest


class _Probe(NamedTuple):
    record: Record
    key: Hashable
    since_ms: int


class Circuit:
    """Holds back what is ready while most of what runs fails alike.

    Args:
        state: The member, whose lanes it holds back.
    """

    def __init__(self, state: MemberState) -> None:
        config = state.config
        self._state = state
        self._share = config.circuit_share
        self._results = Results(config.circuit_share, config.circuit_keys, config.circuit_window_ms)
        self._why = ""
        self._probe: _Probe | None = None
        self._probe_due_ms = self._remind_ms = 0
        self._times: deque[tuple[int, int]] = deque(maxlen=_TIMES_MAX)
        self._probe_succeeded = self._has_closed = False
        self._unprocessed = 0

    @property
    def is_open(self) -> bool:
        """Whether only probes are begun."""
        return self._state.load.held_back_since_ms > 0

    # ---- what has ended ------------------------------------------------------------------------

    def look_at(self, finished: Iterable[Record]) -> None:
        """These records have finished and are not collected: a probe among them closes it.

        It closes with `end_look`: what else this look finds has failed while the circuit was open.
        """
        probe = self._probe
        if probe is not None and any(record is probe.record for record in finished):
            self._probe_succeeded = True

    def end_look(self) -> None:
        """All that the look found is taken in: close it, if a probe has succeeded."""
        if self._probe_succeeded:
            self._close()

    def finished(self, count: int) -> None:
        """So many records were collected as finished."""
        count, self._unprocessed = count - self._unprocessed, 0
        if self._share and not self.is_open:
            self._results.done(count, self._state.now_ms)

    def unprocessed(self) -> None:
        """One of the records to be collected counts as done without a success of its handler."""
        self._unprocessed += 1

    def failed(self, record: Record, failure: Failure) -> bool:
        """A record failed. Returns whether that was an attempt: no, if the circuit is open."""
        if not self._share:
            return True
        if self.is_open:
            if self._probe is not None and self._probe.record is record:
                self._probe = None
                self._probe_due_ms = self._state.now_ms + self._state.config.circuit_open_ms
                self._why = failure.line
            return False
        alike = self._results.failed(failure.kind, record._key_hash, self._state.now_ms)
        if alike is not None:
            self._open(alike, failure)
        return True

    # ---- it opens and closes -------------------------------------------------------------------

    def _open(self, alike: Alike, failure: Failure) -> None:
        state, open_ms = self._state, self._state.config.circuit_open_ms
        state.load.held_back_since_ms = max(state.now_ms, 1)
        self._why, self._probe = failure.line, None
        self._probe_due_ms = state.now_ms + open_ms
        self._remind_ms = state.now_ms + _REMIND_MS
        with state.lock:
            state.lanes.hold_back(Holder.CIRCUIT)
        state.report(
            Level.ERROR,
            LogEvent.CIRCUIT_OPENED,
            f"most of what runs fails alike: {alike.failed} of the last "
            f"{counted(alike.results, 'result')} "
            f"({failure.line}). From now on one record every {open_ms} ms is tried, and nothing "
            "else is begun until one succeeds. What fails meanwhile counts as no attempt; commits "
            "and handovers go on. Look after what the handlers depend on; circuit.share=0 turns "
            "this off.",
            failure,
            error=failure.kind,
        )

    def _close(self) -> None:
        state = self._state
        since_ms, state.load.held_back_since_ms = state.load.held_back_since_ms, 0
        self._times.append((since_ms, state.now_ms))
        self._probe, self._probe_succeeded, self._has_closed = None, False, True
        self._results.clear()
        with state.lock:
            state.lanes.queue.let_all_begin(Holder.CIRCUIT)
        state.report(
            Level.WARNING,
            LogEvent.CIRCUIT_CLOSED,
            f"a record succeeded after {_seconds(state.now_ms - since_ms)}: all records go on",
        )

    def has_closed(self) -> bool:
        """Whether it has closed since this was last asked."""
        has_closed, self._has_closed = self._has_closed, False
        return has_closed

    def open_ms_since(self, since_ms: int) -> int:
        """For how long the circuit has been open since then, in milliseconds."""
        times = list(self._times)
        if self.is_open:
            times.append((self._state.load.held_back_since_ms, self._state.now_ms))
        return sum(max(0, end - max(begin, since_ms)) for begin, end in times)

    # ---- probes --------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When to begin or give up a probe; None: it is closed, or nothing is held back."""
        if not self.is_open:
            return None
        if self._probe is not None:
            return self._probe.since_ms + self._state.config.max_processing_ms
        return self._probe_due_ms if self._state.lanes.queue.may_begin_one else None

    def look_due(self) -> None:
        """Begin a probe, if it is time and none is under way."""
        state = self._state
        if not self.is_open:
            return
        if state.now_ms >= self._remind_ms:
            self._remind_ms = state.now_ms + _REMIND_MS
            self._remind()
        if self._probe is not None and self._waits(self._probe):
            self._probe = self._probe._replace(since_ms=state.now_ms)  # all workers are busy
        elif self._probe is not None and not self._is_under_way(self._probe):
            self._probe = None  # its range has gone, or its handler hangs: begin another
        if self._probe is None and state.now_ms >= self._probe_due_ms:
            with state.lock:
                entry = state.lanes.queue.let_one_begin()
            if entry is not None:
                key = entry.key if isinstance(entry, Lane) else entry._key
                self._probe = _Probe(next_of(entry), key, state.now_ms)

    def _waits(self, probe: _Probe) -> bool:
        """Whether no worker has taken it yet. O(1): nothing else is ready while it is open."""
        with self._state.lock:
            return any(next_of(entry) is probe.record for entry in self._state.lanes.ready)

    def _is_under_way(self, probe: _Probe) -> bool:
        state = self._state
        if state.now_ms - probe.since_ms >= state.config.max_processing_ms:
            return False
        with state.lock:  # executors end lanes meanwhile
            lanes = state.lanes
            lanes.settle()
            at = {entry.at if isinstance(entry, Lane) else entry for entry in lanes.given_up}
            if probe.record in at or probe.record in list(lanes.finished):
                return True
            filed = lanes.tables.of(probe.record.tenure.tp).get(probe.key)
            return filed is not None and probe.record in records_of(filed)

    def _remind(self) -> None:
        state = self._state
        since_ms = state.now_ms - state.load.held_back_since_ms
        held = counted(len(state.lanes.queue.held_back or ()), "key is", "keys are")
        state.report(
            Level.ERROR,
            LogEvent.CIRCUIT_STAYS_OPEN,
            f"for {_seconds(since_ms)} most of what runs has failed alike, last with {self._why}; "
            f"{held} held back. One record every "
            f"{state.config.circuit_open_ms} ms is tried; all go on once one succeeds.",
        )


def _seconds(ms: int) -> str:
    return f"{ms / 1_000:.0f} s"
