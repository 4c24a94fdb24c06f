"""Lanes: every key's unfinished records, and what executors and member do with them. Pure.

In: admitted records (from the member's thread), what an executor has finished with. Out: what is to
run, the oldest first. The run queue is global: no worker idles while any key is ready. Upholds I4
within a member.

Two parties touch what is filed: the member (adds, holds, gives up) and one executor thread that
runs it. What both change is changed under one lock, which comes in as an argument as time does
elsewhere. An executor needs it once a chunk. Without the lock it does three things: it goes through
the *turn* of its lane, it appends to `finished` and `ended`, and it takes the next of `ready`. They
rest on what Python promises: an append to a deque, and a pop at its end, are atomic. So are an
append to a list, its `clear`, and a read of one item.

A lane's turn ends after so many records or so much time, and the rest of the lane waits for its
next turn: a key that never catches up holds up nobody, and its finished records are dropped (I8).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence, Sized
from contextlib import AbstractContextManager
from itertools import groupby, repeat
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from coop_consumer.core.chunks import Chunk, Chunks
from coop_consumer.core.effects import new_attempt
from coop_consumer.core.lane import (
    HELD,
    READY,
    RUNNING,
    TURN_S,
    Entry,
    Lane,
    LaneTable,
    head_of,
)
from coop_consumer.core.lane_tables import LaneTables
from coop_consumer.core.ready import Holder, RunQueue
from coop_consumer.core.record import KEY, TENURE, Record
from coop_consumer.core.trace import TraceOutcome, tell_end
from coop_consumer.core.work_time import WorkTime

if TYPE_CHECKING:
    from coop_consumer.core.failure import Failure

READY_ONE_BY_ONE, READY_TOGETHER = 32, 512
"""How many records are kept ready at least: few for workers that take one at a time, as partitions
take turns in them, and many for workers that take all that are ready, as that makes them cheap."""

_DONE_MAX = 1_024
"""How many finished records a lane keeps at most: a long list is not moved up each time."""

AnyChunk = TypeVar("AnyChunk", bound=Chunk)


class Census(NamedTuple):
    """What is in the lanes at one moment.

    Attributes:
        keys: Keys with unfinished records.
        running: Keys of which a handler runs a record.
    """

    keys: int
    running: int


class KeyLanes:
    """All lanes and singles of a member.

    Every method is called with `lock` held, but for `begin_next`, `is_followed`, `startable`,
    `is_over`, and what executors may append to.

    Args:
        lock: Guards them; the simulation gives a null context.

    Attributes:
        queue: What can run.
        ready: Of the queue, what is not held back: executors take from it.
        tables: Where unfinished records are filed.
        lines: Where an executor keeps what it has taken and cannot run yet, if it is much.
        finished: Records that are done; executors append to it.
        ended: Lanes and singles that executors are through with; they append to it.
        errors: What singles raised that have failed, by whoever appends them to `ended`; None:
            something of their batch has failed, and nobody knows what.
        failed: Lanes with a failure to be decided about.
        drained: What was given up while it ran, and has ended.
        given_up: The same while it still runs.
        abandoned: Singles that nobody listens to any more, though their handlers run.
        in_batches: Whether singles run in batches, in company.
        ready_min: How many records are kept ready at least; executors set it.
        work: How long handlers take; executors add to it.
    """

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self.lock = lock
        self.queue = RunQueue()
        self.ready = self.queue.ready
        self.tables = LaneTables(self.queue)
        self.lines: Sequence[Sized] = ()
        self.finished: deque[Record] = deque()
        self.ended: deque[Entry] = deque()
        self.errors: dict[Record, Failure | None] = {}
        self.failed: deque[Lane] = deque()
        self.drained: deque[Entry] = deque()
        self.given_up: dict[Entry, None] = {}  # in their order: a seed replays exactly
        self.abandoned: set[Record] = set()
        self.in_batches = False
        self.ready_min = READY_TOGETHER
        self.work = WorkTime()
        self._chunks = Chunks()

    @property
    def in_use(self) -> bool:
        """Whether anything is unfinished, or a handler runs on."""
        tables = self.tables
        return bool(self.given_up or tables.fresh) or any(tables.by_partition.values())

    @property
    def startable(self) -> int:
        """How many entries could be begun now."""
        ready = self.ready
        return len(ready.new) + len(ready.going_on) + len(self.tables.fresh)

    @property
    def waiting_for_workers(self) -> int:
        """The same, with those that wait in an executor's lines, or are held back."""
        waiting, held_back = self.startable, self.queue.held_back
        if self.lines:
            waiting += sum(map(len, self.lines))
        if held_back:
            waiting += len(held_back)
        return waiting

    def census(self) -> Census:
        """Count keys, and handlers that run; fresh records count as a key each. O(entries).

        What is fresh stays fresh: to file it would cost more than its handlers.
        """
        self.settle()
        tables = self.tables
        filed = held = 0
        for table in tables.by_partition.values():
            filed += len(table)
            held += sum(isinstance(it, Lane) and it.state is HELD for it in table.values())
        ready = len(self.ready) + len(self.queue.held_back or ())
        taken = sum(1 for _ in self._chunks)  # what waits for child processes, too
        running = filed - held - ready - taken + len(self.given_up)
        return Census(filed + len(tables.fresh), max(running, 0))

    def is_over(self, turn_s: float) -> bool:
        """Whether a turn that has lasted so long ends: if anything else is ready, or held back."""
        if self.queue.held_back is not None:
            return True
        return turn_s >= TURN_S and self.startable > 0

    # ---- executors take and end ----------------------------------------------------------------

    def take(self, records_max: int, chunk: AnyChunk) -> AnyChunk:
        """Move what is ready into `chunk`, in its order: at least one entry if there is one.

        No more than `records_max` records, unless the first lane alone has more. What nobody has
        begun may be taken back from there. O(entries taken).
        """
        self.settle()
        self.tables.file_fresh()
        self._chunks.add(chunk)
        pop, count = self.ready.pop_many, 0
        while count < records_max:
            try:
                entry = pop()  # not looked at before: others take without the lock
            except IndexError:
                break
            if type(entry) is Lane:
                waiting = len(entry.records) - entry.done
                if count and count + waiting > records_max:
                    self.ready.going_on.appendleft(entry)
                    break
                count += waiting
                entry.state = RUNNING
            else:
                count += 1
            chunk.append(entry)
        return chunk

    def deal(self, chunk_of: Callable[[Entry], Chunk]) -> bool:
        """Move each ready entry to the chunk that `chunk_of` names. False: nothing was ready."""
        self.settle()
        self.tables.file_fresh()
        is_dealt = False
        while self.ready:
            entry = self.ready.popleft()
            chunk = chunk_of(entry)
            self._chunks.add(chunk)
            if isinstance(entry, Lane):
                entry.state = RUNNING
            chunk.append(entry)
            is_dealt = True
        return is_dealt

    def begin_next(self) -> Entry | None:
        """Take the next ready entry, to begin it at once; without the lock. None: there is none.

        If the member gives it up in the same moment, the entry counts as running. Of a lane nothing
        is left to run then.
        """
        try:
            entry = self.ready.popleft()
        except IndexError:
            return None
        if isinstance(entry, Lane):
            entry.state = RUNNING
        return entry

    def is_followed(self, ended: Entry) -> bool:
        """Whether an entry appended to `ended` has to be settled soon; without the lock.

        It need not be if nothing of its key waits: whoever files something later settles it.
        """
        if isinstance(ended, Lane):
            has_failed = ended.failure is not None
            return has_failed or ended.detached or ended.done != len(ended.records)
        table = self.tables.by_partition.get(ended.tenure.tp)
        return table is None or table.get(ended._key) is not ended

    def put_back(self, chunk: Chunk) -> None:
        """Make ready again what an executor has taken and not begun; it fills the chunk no more."""
        self.queue.inlet.put_back(self._as_ready(self._chunks.empty(chunk)))

    def begin(self) -> Entry:
        """Take the next ready entry, to begin it at once. IndexError: nothing is ready."""
        return self.begun(self.ready.popleft())

    @staticmethod
    def begun(entry: Entry) -> Entry:
        """An entry that was taken out of the queue, as begun."""
        if type(entry) is Lane:
            entry.state, entry.begun = RUNNING, True
        return entry

    def settle(self) -> None:
        """Put each entry that an executor ended where it belongs now. O(entries ended)."""
        ended = self.ended
        if not ended:
            return
        taken = [ended.popleft() for _ in range(len(ended))]
        singles = [entry for entry in taken if isinstance(entry, Record)]
        if len(singles) < len(taken):
            for entry in taken:
                if isinstance(entry, Lane):
                    self._settle(entry)
        filed_of = self.tables.filed
        if self.errors or self.given_up or self.abandoned:  # a key may have two of them
            for record in singles:
                table = filed_of(record.tenure.tp)
                self._settle_single(record, table.pop(record._key, None), table)
            return
        for tenure, group in groupby(singles, TENURE):
            table, records = filed_of(tenure.tp), list(group)
            filed = list(map(table.pop, map(KEY, records), repeat(None)))
            if filed != records:
                for record, other in zip(records, filed, strict=True):
                    if other is not record:
                        self._settle_single(record, other, table)

    def _settle(self, lane: Lane) -> None:
        lane.begun, ran = False, lane.done - lane.settled
        if lane.abandoned:
            return
        if lane.detached:
            self.given_up.pop(lane, None)
            self.drained.append(lane)
            return
        if lane.failure is not None or lane.done >= min(_DONE_MAX, len(lane.records) / 2):
            del lane.records[: lane.done]
            lane.done = 0
        lane.settled = lane.done
        if lane.failure is not None:
            lane.move(HELD)
            self.failed.append(lane)
        elif lane.records:
            if lane.alone:  # something of its batch has failed: what it left behind is void
                lane.records[lane.done] = new_attempt(lane.records[lane.done])
            lane.state = READY
            self.queue.inlet.go_on(lane, ran)
        else:
            del lane.table[lane.key]

    def _settle_single(self, record: Record, filed: Entry | None, table: LaneTable) -> None:
        """Settle a single that has failed, was given up or abandoned, or has a lane behind it."""
        key = record._key
        has_failed = record in self.errors
        error = self.errors.pop(record, None)
        if filed is not record and filed is not None:
            table[key] = filed
        is_ahead = isinstance(filed, Lane) and filed.ahead is record
        if filed is not record and not is_ahead:
            if record in self.abandoned:
                self.abandoned.discard(record)
            else:
                self.given_up.pop(record, None)
                self.drained.append(self._ended_apart(record, error))
            return
        if is_ahead:
            assert isinstance(filed, Lane)
            lane, lane.ahead = filed, None
            if has_failed:
                lane.records.insert(0, record)
        elif has_failed:
            lane = table[key] = Lane(record.tenure, table, key, record)
        else:
            return
        if error is not None:
            lane.move(HELD)
            lane.failure = (record, error)
            self.failed.append(lane)
        else:
            lane.state, lane.alone = READY, has_failed
            if has_failed:
                lane.records[0] = new_attempt(record)
            self.queue.inlet.go_on(lane, 1)

    def _ended_apart(self, record: Record, error: Failure | None) -> Entry:
        """A given-up single that has ended; as a lane with its failure, if it failed."""
        if error is None:
            return record
        lane = Lane(record.tenure, {}, record._key, record)
        lane.detached, lane.failure = True, (record, error)
        return lane

    # ---- the member holds, gives up, abandons --------------------------------------------------

    def make_ready(self, lane: Lane, *, first: bool = False) -> None:
        """A lane can run, once it is its turn, or before all other entries."""
        lane.state = READY
        if first:
            self.queue.inlet.put_back((lane,))
        else:
            self.queue.inlet.append(lane)

    def release_hold(self, lane: Lane, *, first: bool = False) -> None:
        """A HELD lane may run again, perhaps before all others; an empty one ends."""
        assert lane.state is HELD, f"I4: a lane is not held: {lane.story()}"
        lane.failure = None
        if lane.detached:
            return
        if lane.records:
            self.make_ready(lane, first=first)
        else:
            del lane.table[lane.key]

    def hold_back(self, holder: Holder) -> None:
        """Let nothing begin from now on: what is ready, taken or becomes ready waits."""
        self.tables.file_fresh()
        self.queue.hold_back(self._as_ready(list(self._chunks.take_back(None))), holder)

    @staticmethod
    def _as_ready(taken_back: list[Entry]) -> list[Entry]:
        for entry in taken_back:
            if isinstance(entry, Lane):
                entry.move(READY)
        return taken_back

    def waiting(self) -> set[int]:
        """The identities of what is ready, or taken and not begun."""
        self.tables.file_fresh()
        return {*map(id, self.queue), *map(id, self._chunks)}

    def give_up_all(self, entries: list[Entry]) -> list[Entry]:
        """Take these away from their keys; returns what still runs, and turns up in `drained`.

        Queued records are forgotten. O(all that is ready or taken).
        """
        heads = {id(head): head for entry in entries if (head := head_of(entry)) is not None}
        idle = self._withdraw(heads)
        running: list[Entry] = []
        for entry in entries:
            head = head_of(entry)
            if isinstance(entry, Lane):
                entry.table.pop(entry.key, None)
                entry.detached, entry.ahead = True, None
            else:
                self.tables.of(entry.tenure.tp).pop(entry._key, None)
            if head is None or id(head) in idle:
                _tell_moved(entry)
                continue
            if isinstance(head, Lane):
                head.at = head.current()
                head.records.clear()  # ends the lane's turn after the one it is at
            self.given_up[head] = None
            running.append(head)
        return running

    def _withdraw(self, heads: dict[int, Entry]) -> set[int]:
        """Take these out of the queue and out of chunks; returns which of them were there."""
        return self.queue.withdraw(heads) | set(map(id, self._chunks.take_back(heads)))

    def abandon(self, entry: Entry, record: Record, error: Failure) -> None:
        """Leave a running entry to the handler that is stuck in it, at `record`.

        If the entry was given up, it has drained with that failure. Otherwise its records from
        there on fail, and go on in a lane of their own. In a batch nobody knows which record is to
        blame: each is tried by itself, and has not failed yet.
        """
        was_given_up = entry in self.given_up
        self.given_up.pop(entry, None)
        if isinstance(entry, Record):
            self.abandoned.add(entry)
            if was_given_up:
                self.drained.append(self._ended_apart(record, error))
                return
            heir, in_company = self.tables.lane_of(entry), self.in_batches
        else:
            entry.abandoned = True
            if entry.detached:
                if was_given_up:
                    self.drained.append(self._ended_apart(record, error))
                return
            heir, in_company = Lane(entry.tenure, entry.table, entry.key, record), entry.in_company
            heir.records = entry.records[entry.records.index(record) :]
            heir.table[heir.key] = heir
            entry.detached = True
            entry.records.clear()
        heir.alone, heir.begun = True, False
        if in_company:
            heir.records[0] = new_attempt(record)
            self.make_ready(heir)
        else:
            heir.move(HELD)
            heir.failure = (record, error)
            self.failed.append(heir)

    def check(self) -> None:
        """Assert that each entry is in the one place that its state says (I4, I8)."""
        self.tables.check()
        self._chunks.check()


def _tell_moved(idle: Entry) -> None:
    """If a record of this entry was tried before, its next attempt is not made here."""
    if isinstance(idle, Lane) and idle.done < len(idle.records):
        tell_end(idle.records[idle.done], TraceOutcome.MOVED)
