"""The run queue: what can run, and what is next. Pure; upholds I4 within a member.

In: entries that became ready. Out: one entry after the other. Entries are of two kinds: *new* keys,
of which nothing has run since they were idle, and lanes that *go on* after a turn. Each kind is
first in, first out. Both kinds get the same number of records: after a turn of 10 records, 10 new
records run before the next lane goes on. So a busy key waits for the other busy keys only, and not
for the whole backlog; and a crowd of busy keys leaves new keys half of the workers.

Executors may take a ready entry without the lanes' lock. That rests on one guarantee of the
language: appends and pops at either end of a deque are atomic, so one thread gets an entry. The
balance of the two kinds is a hint. Two threads may change it at the same time, and then it is off
by a record.

While the circuit is open, or too many outputs wait, entries are *held back*: they could run, but
none of them begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING

from coop_consumer.core.lane import TURN_MAX, next_of

if TYPE_CHECKING:
    from coop_consumer.core.lane import Entry, Lane


class Ready:
    """What can run.

    Attributes:
        new: Entries of which nothing has run, the oldest first.
        going_on: Lanes that have had a turn, the one that waits longest first.
    """

    __slots__ = ("_owed", "going_on", "new")

    def __init__(self) -> None:
        self.new: deque[Entry] = deque()
        self.going_on: deque[Entry] = deque()
        self._owed = 0  # so many new records run before the next lane goes on

    def __len__(self) -> int:
        return len(self.new) + len(self.going_on)

    def __iter__(self) -> Iterator[Entry]:
        """All of it, as it was at one moment."""
        yield from snapshot(self.new)
        yield from snapshot(self.going_on)

    def append(self, entry: Entry) -> None:
        """A new entry is ready."""
        self.new.append(entry)

    def go_on(self, lane: Lane, ran: int) -> None:
        """A lane waits for its next turn, after a turn of `ran` records."""
        self.going_on.append(lane)
        self._owed = min(self._owed + ran, TURN_MAX) if self.new else 0

    def popleft(self) -> Entry:
        """Take the next entry, with or without the lock; IndexError: nothing is ready. O(1)."""
        if self.going_on and (self._owed <= 0 or not self.new):
            try:
                return self.going_on.popleft()
            except IndexError:  # another thread was faster
                pass
        if self._owed > 0:
            self._owed -= 1
        try:
            return self.new.popleft()
        except IndexError:
            return self.going_on.popleft()

    @property
    def pop_many(self) -> Callable[[], Entry]:
        """A fast `popleft` for a loop with the lock held, so that no lane goes on meanwhile."""
        return self.popleft if self.going_on else self.new.popleft

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Let entries that were taken, the oldest first, be next again."""
        self.new.extendleft(reversed(list(entries)))

    def withdraw(self, heads: dict[int, Entry]) -> set[int]:
        """Take out entries by their identity; returns which of them were there. O(all)."""
        found: set[int] = set()
        for queue in (self.new, self.going_on):
            kept: list[Entry] = []
            try:
                while True:  # one by one: another thread may take the next one
                    entry = queue.popleft()
                    if id(entry) in heads:
                        found.add(id(entry))
                    else:
                        kept.append(entry)
            except IndexError:
                queue.extend(kept)
        return found


class Holder(Enum):
    """Why nothing is begun."""

    CIRCUIT = auto()
    OUTPUTS = auto()


class RunQueue:
    """What can run: ready, or held back. Every method is called with the lanes' lock held.

    Attributes:
        ready: What may begin. It is always the same object.
        held_back: What may not; None: nothing is held back.
        inlet: Which of the two takes an entry that becomes ready.
    """

    __slots__ = ("_holders", "held_back", "inlet", "ready")

    def __init__(self) -> None:
        self.ready = self.inlet = Ready()
        self.held_back: Ready | None = None
        self._holders: set[Holder] = set()

    def __iter__(self) -> Iterator[Entry]:
        """All of it, as it was at one moment."""
        yield from self.ready
        yield from self.held_back or ()

    def withdraw(self, heads: dict[int, Entry]) -> set[int]:
        """Take out entries by their identity; returns which of them were there. O(all)."""
        found = self.ready.withdraw(heads)
        if self.held_back is not None:
            found |= self.held_back.withdraw(heads)
        return found

    def hold_back(self, taken: Iterable[Entry], holder: Holder) -> None:
        """Let nothing begin from now on: neither what is ready nor what was taken and not begun."""
        assert holder not in self._holders, f"I8: held back twice by {holder.name}"
        self._holders.add(holder)
        if self.held_back is None:
            self.held_back = self.inlet = Ready()
        self.held_back.put_back(taken)
        with suppress(IndexError):
            while True:  # one by one: others take without the lock
                self.held_back.append(self.ready.popleft())

    def let_one_begin(self) -> Entry | None:
        """Let one held-back entry begin, if possible one that never failed; None: none may.

        A record that failed may fail for ever; others behind it may not. O(what is held back).
        """
        held = self.held_back
        if not held or len(self._holders) > 1:
            return None
        entry = next((it for it in held if next_of(it)._attempt == 1), next(iter(held)))
        held.withdraw({id(entry): entry})
        self.ready.append(entry)
        return entry

    @property
    def may_begin_one(self) -> bool:
        """Whether `let_one_begin` has one."""
        return bool(self.held_back) and len(self._holders) == 1

    def let_all_begin(self, holder: Holder) -> None:
        """Hold nothing back any more, unless somebody else does."""
        self._holders.discard(holder)
        if self._holders:
            return
        held, self.held_back, self.inlet = self.held_back, None, self.ready
        if held is not None:
            self.ready.new.extend(held.new)
            self.ready.going_on.extend(held.going_on)


def snapshot(queue: Iterable[Entry]) -> list[Entry]:
    """The entries of a deque now. Other threads may take entries meanwhile."""
    while True:
        try:
            return list(queue)
        except RuntimeError:  # it changed while it was copied
            continue
