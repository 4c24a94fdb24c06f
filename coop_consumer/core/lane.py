"""A lane: the unfinished records of one key of one partition, in order. Pure; upholds I4.

    NEW -> READY <-> RUNNING -> HELD -> READY
    NEW -> BEHIND, until the single of its key has ended

In: records, the end of turns, failures. Out: the next turn. A record whose key has nothing else
unfinished needs no lane: it is filed as itself, a *single*. Later records of its key wait in a lane
*behind* it. Most records are singles, and cost no object of their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from enum import Enum, auto
from itertools import islice
from typing import TYPE_CHECKING

from coop_consumer.core.record import Record

if TYPE_CHECKING:
    from coop_consumer.core.failure import Failure
    from coop_consumer.core.tenure import Tenure

TURN_MAX = 256
"""How many records of a lane run in one go."""
TURN_S = 0.05
"""After so many seconds a turn ends, too, if anything else is ready."""


class LaneState(Enum):
    """Where a lane is; it is in exactly one place.

    NEW: just made, not yet in any place. READY: in the run queue. RUNNING: in an executor's hands,
    though perhaps not begun. HELD: waits for a back-off, for a decision about a parked record, for
    the turn of a suspect, or for a hash that another member still drains. BEHIND: waits for the
    single of its key.
    """

    NEW = auto()
    READY = auto()
    RUNNING = auto()
    HELD = auto()
    BEHIND = auto()


NEW, READY, RUNNING = LaneState.NEW, LaneState.READY, LaneState.RUNNING
HELD, BEHIND = LaneState.HELD, LaneState.BEHIND

MOVES: dict[tuple[LaneState, LaneState], str] = {
    (NEW, READY): "its first record can run",
    (NEW, HELD): "its first record is parked, suspect, failed, or of a blocked hash",
    (NEW, BEHIND): "the single of its key is unfinished",
    (NEW, RUNNING): "an executor took a single, and runs lanes only",
    (BEHIND, READY): "the single has ended",
    (BEHIND, HELD): "the single has failed",
    (BEHIND, RUNNING): "an executor took the single, and runs lanes only",
    (READY, RUNNING): "an executor took it",
    (RUNNING, READY): "its turn is over, or it was taken back",
    (RUNNING, HELD): "a record of it has failed",
    (HELD, READY): "it need not wait any more",
}
"""All moves of a lane, and why each is made. Any other one breaks I4."""


def _after(state: LaneState) -> set[LaneState]:
    found = {state}
    for _ in LaneState:
        found |= {after for before, after in MOVES if before in found}
    return found


_LATER = {state: _after(state) for state in LaneState}
"""Where a lane may be after any number of moves."""

_SHOWN_MAX = 8  # offsets of a lane's story


class Lane:
    """The unfinished records of one key of one partition, in order.

    `tenure`, `table`, `key` and `key_hash` never change. The executor that runs the lane writes
    `done`, `failure` and `begun`, and `batches` write `alone` and `in_company`. All else is written
    by `lanes` and `lane_tables`. `intake` and `failures` also drop records that are done.

    Attributes:
        state: Where it is. Rare moves are made by `move`. Moves in a loop set it, and `check_state`
            looks at them later.
        records: The records, behind some that are finished.
        done: How many of them are, once the executor has ended the lane; none while it is HELD.
        settled: How many of them were done when its last turn was settled.
        ahead: The single that it waits for, while BEHIND.
        failure: The record that the handler failed on, and what it raised.
        table: The lanes of its partition, where it is filed while it has records.
        begun: While RUNNING: it cannot be taken back.
        detached: Its hash was given up: nothing joins it, and its end is a step of a handover.
        at: The record that runs, of a detached lane.
        abandoned: Its handler took too long: whatever it does now counts for nothing.
        alone: Its first record was in a batch that failed, and nobody knows at which record: it is
            tried by itself.
        in_company: Its first record is in a batch with others now.
    """

    __slots__ = (
        "abandoned",
        "ahead",
        "alone",
        "at",
        "begun",
        "detached",
        "done",
        "failure",
        "in_company",
        "key",
        "key_hash",
        "records",
        "settled",
        "state",
        "table",
        "tenure",
    )

    def __init__(self, tenure: Tenure, table: LaneTable, key: Hashable, record: Record) -> None:
        self.tenure = tenure
        self.table = table
        self.key = key
        self.key_hash = record._key_hash
        self.records = [record]
        self.ahead: Record | None = None
        self.state = NEW
        self.done = self.settled = 0
        self.failure: tuple[Record, Failure] | None = None
        self.begun = False
        self.detached = False
        self.at: Record | None = None
        self.abandoned = False
        self.alone = False
        self.in_company = False

    def move(self, state: LaneState) -> None:
        """Go to another state. AssertionError: no lane makes this move (I4)."""
        assert (self.state, state) in MOVES, (
            f"I4: a lane cannot go from {self.state.name} to {state.name}: {self.story()}"
        )
        self.state = state

    def check_state(self, before: LaneState | None) -> None:
        """Assert that its state is possible after an earlier one, if that is known (I4)."""
        assert self.state is not NEW, f"I4: a lane is filed and waits for nothing: {self.story()}"
        assert before is None or self.state in _LATER[before], (
            f"I4: a lane cannot go from {before.name} to {self.state.name}: {self.story()}"
        )
        assert (self.state is BEHIND) == (self.ahead is not None), (
            f"I4: a lane waits for the single of its key while BEHIND, only then: {self.story()}"
        )
        assert self.state is not HELD or not self.done, (
            f"I4: a lane is held at its first record: {self.story()}"
        )

    def turn(self) -> Iterator[Record]:
        """What to run of it in one go: also what comes meanwhile, till the member clears it.

        The iterator belongs to the one thread that runs the lane. It reads one item after the other
        while the member appends to the list or clears it.
        """
        return islice(self.records, self.done, self.done + TURN_MAX)

    def first_pending(self) -> int:
        """The number of its first record that does not count as done, while it runs. O(log)."""
        pending = self.tenure.pending
        return bisect_left(self.records, True, key=lambda record: record._offset in pending)

    def current(self) -> Record | None:
        """The record that it is at, while it runs; None: it is through."""
        number = self.first_pending()
        return self.records[number] if number < len(self.records) else None

    def story(self) -> str:
        """Where it is, in words for an assertion."""
        offsets = [record._offset for record in self.records]
        more = f" and {len(offsets) - _SHOWN_MAX} more" if len(offsets) > _SHOWN_MAX else ""
        facts = [f"{self.tenure} key {self.key!r} {self.state.name}"]
        facts.append(f"offsets {offsets[:_SHOWN_MAX]}{more}, {self.done} of them done")
        if self.ahead is not None:
            facts.append(f"behind offset {self.ahead._offset}")
        if self.failure is not None:
            facts.append(f"failed at offset {self.failure[0]._offset}")
        facts += [flag for flag in ("begun", "detached", "abandoned") if getattr(self, flag)]
        return ", ".join(facts)

    def __repr__(self) -> str:
        return f"Lane({self.tenure.tp} {self.key!r} {self.state.name} {len(self.records)} records)"


Entry = Lane | Record
"""What is filed under a key: its lane, or its single."""
LaneTable = dict[Hashable, Entry]
"""What is unfinished of one partition, by key."""


def records_of(entry: Entry) -> list[Record]:
    """All unfinished records of a key, in order, and perhaps some that are finished."""
    if isinstance(entry, Record):
        return [entry]
    return entry.records if entry.ahead is None else [entry.ahead, *entry.records]


def hash_of(entry: Entry) -> int:
    """Where the key of an entry lies in the hash space."""
    return entry._key_hash if isinstance(entry, Record) else entry.key_hash


def next_of(entry: Entry) -> Record:
    """The record that it begins with."""
    return entry.records[entry.done] if isinstance(entry, Lane) else entry


def head_of(entry: Entry) -> Entry | None:
    """What of it an executor may have; None: nothing."""
    if isinstance(entry, Record):
        return entry
    if entry.state is BEHIND:
        return entry.ahead
    return None if entry.state is HELD else entry
