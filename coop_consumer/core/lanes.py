"""Lanes: the FIFO of every key that has unfinished records, and the set of what is ready.

In: admitted records (from the member's thread), what an executor has finished with. Out: what is to
run, the oldest first. The ready set is global: no worker idles while any key is ready. Pure;
upholds I4 within a member.

A record whose key has nothing else unfinished needs no lane: it is filed as itself, a *single*.
What comes of its key before it is done waits in a lane *behind* it. Singles are made and ended
without an object of their own, which is most of what a cheap record costs.

Two parties touch what is filed: the member (adds, holds, gives up) and one executor thread that
runs it. What both change is changed under one lock, which comes in as an argument as time does
elsewhere. An executor needs it once a chunk. Without the lock it does three things: it goes through
the *turn* of its lane, it appends to `finished` and `ended`, and it takes the next of `ready`. They
rest on what Python promises: an append to a deque, and a pop at its end, are atomic. So are an
append to a list, its `clear`, and a read of one item.

A lane's turn ends after so many records or so much time, and the rest of the lane waits for its
next turn: a key that never catches up holds up nobody, and what it has finished is let go (I8).

Where handlers are so quick that the member's own thread runs them, even filing costs more than they
do. What comes while nothing of its partition is unfinished stays *fresh*: it is run straight away,
in the order in which it came, and so in order by key. It is filed as soon as anybody looks at what
is filed, so nobody else has to know of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence, Sized
from contextlib import AbstractContextManager, suppress
from enum import Enum, auto
from itertools import compress, groupby, islice, repeat
from operator import is_, is_not
from typing import TYPE_CHECKING, Protocol, TypeVar

from coop_consumer.core.ready import TURN_MAX, TURN_S, Ready, snapshot
from coop_consumer.core.record import KEY, TENURE, Record, as_it_came

if TYPE_CHECKING:
    from coop_consumer.core.failure import Failure
    from coop_consumer.core.tenure import Tenure


class LaneState(Enum):
    """Where a lane is; it is in exactly one place.

    READY: in the ready set. RUNNING: in an executor's hands, though perhaps not begun. HELD: waits
    for a back-off, a decision about a parked record, or a hash that another member still drains.
    BEHIND: waits for the single of its key.
    """

    READY = auto()
    RUNNING = auto()
    HELD = auto()
    BEHIND = auto()


READY_ONE_BY_ONE, READY_TOGETHER = 32, 512
"""So many records are kept ready at least where a worker takes one at a time, and where it takes
all that are ready: few, as partitions take turns in them, and many, as that makes them cheap."""

_DONE_MAX = 1_024
"""So many finished records a lane keeps at most: it may be long, and is not moved up each time."""

READY, RUNNING, HELD = LaneState.READY, LaneState.RUNNING, LaneState.HELD
BEHIND = LaneState.BEHIND


class Taken(Protocol):
    """What an executor has taken to run, and has not begun."""

    def append(self, entry: Entry, /) -> None:
        """One more."""

    def remove(self, entry: Entry, /) -> None:
        """Give one back; ValueError: it is too late."""

    def __iter__(self) -> Iterator[Entry]:
        """All of it."""
        ...


class Lane:
    """The unfinished records of one key of one partition, in order.

    Attributes:
        records: The records, behind some that are finished.
        done: So many of them are, once the executor has ended the lane; none while it is HELD.
        settled: So many of them were done when its last turn was settled.
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
        self.state = READY
        self.done = self.settled = 0
        self.failure: tuple[Record, Failure] | None = None
        self.begun = False
        self.detached = False
        self.at: Record | None = None
        self.abandoned = False
        self.alone = False
        self.in_company = False

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

    def __repr__(self) -> str:
        return f"Lane({self.tenure.tp} {self.key!r} {self.state.name} {len(self.records)} records)"


Entry = Lane | Record
"""What is filed under a key: its lane, or its single."""
AnyTaken = TypeVar("AnyTaken", bound=Taken)
LaneTable = dict[Hashable, Entry]
"""What is unfinished of one partition, by key."""


class Straight:
    """Fresh records that a thread runs in their order, until another one files what is left.

    Both pop from the left end of one deque, which is atomic: one of them gets a record. Behind the
    records lies an end mark for each of the two.

    Attributes:
        records: What was taken to be run; once it is split, what was begun of it.
    """

    __slots__ = ("_left", "records")

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self._left: deque[Record | None] = deque(records)
        self._left.extend((None, None))

    def __iter__(self) -> Iterator[Record]:
        """Begin one record after the other."""
        return iter(self._left.popleft, None)

    def split(self) -> tuple[Record | None, list[Record]]:
        """The last one that was begun, if one was, and what is left to whoever asks."""
        rest: list[Record] = []
        with suppress(IndexError):  # it was split before
            rest.extend(iter(self._left.popleft, None))
        del self.records[len(self.records) - len(rest) :]
        return (self.records[-1] if self.records else None), rest


class KeyLanes:
    """All lanes and singles of a member.

    Every method is called with `lock` held, but for `begin_next`, `is_followed` and `startable`,
    and what executors may append to.

    Args:
        lock: Guards them; the simulation gives a null context.

    Attributes:
        ready: What can run.
        held_back: What could run too, while nothing but a probe may; None: nothing is held back.
        lines: Where an executor keeps what it has taken and cannot run yet, if it is much.
        fresh: Records that have not been filed, the oldest first. Of their partitions nothing is.
        goes_straight: Whether there may be such: the member's thread is about to run what comes.
        finished: Records that are done; executors append to it.
        ended: Lanes and singles that executors are through with; they append to it.
        errors: Of singles that have failed, by whoever appends them to `ended`: what was raised, or
            None if something of their batch has failed and nobody knows what.
        failed: Lanes with a failure to be decided about.
        drained: What was given up while it ran, and has ended.
        given_up: The same while it still runs.
        abandoned: Singles that nobody listens to any more, though their handlers run.
        in_batches: Whether singles run in batches, in company.
        ready_min: So many records are kept ready at least; executors set it.
    """

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self.lock = lock
        self.ready = Ready()
        self.held_back: Ready | None = None
        self.lines: Sequence[Sized] = ()
        self.fresh: list[Record] = []
        self.goes_straight = False
        self.finished: deque[Record] = deque()
        self.ended: deque[Entry] = deque()
        self.errors: dict[Record, Failure | None] = {}
        self.failed: deque[Lane] = deque()
        self.drained: deque[Entry] = deque()
        self.given_up: set[Entry] = set()
        self.abandoned: set[Record] = set()
        self.in_batches = False
        self.ready_min = READY_TOGETHER
        self._chunks: dict[int, Taken] = {}
        self._tables: dict[object, LaneTable] = {}

    def table(self, partition: object) -> LaneTable:
        """What is unfinished of one partition, now filed; made when first asked for."""
        self._file_fresh()
        return self._table(partition)

    def _table(self, partition: object) -> LaneTable:
        return self._tables.setdefault(partition, {})

    @property
    def in_use(self) -> bool:
        """Whether anything is unfinished, or a handler runs on."""
        return bool(self.given_up or self.fresh) or any(self._tables.values())

    @property
    def startable(self) -> int:
        """How much could be begun now."""
        return len(self.ready) + len(self.fresh)

    @property
    def waiting_for_workers(self) -> int:
        """The same, with what waits in an executor's lines, or is held back."""
        waiting = self.startable
        if self.lines:
            waiting += sum(map(len, self.lines))
        if self.held_back:
            waiting += len(self.held_back)
        return waiting

    def is_over(self, turn_s: float) -> bool:
        """Whether a turn that has lasted so long ends: if anything else is ready. Needs no lock."""
        return turn_s >= TURN_S and self.startable > 0

    # ---- the member adds -----------------------------------------------------------------------

    def add(
        self, partition: object, keys: Sequence[bytes], records: Sequence[Record], *, first: int = 0
    ) -> None:
        """Take in records of one partition: fresh, or filed by their keys.

        They are filed if anything of the partition is: ready, or behind what is there. So many as
        `first` says run before those of others.
        """
        table = self._table(partition)
        if self.goes_straight and not table and self.held_back is None:
            self.fresh += records
        else:
            self._file_fresh()
            if first:
                self._queue.put_back(self._filed(table, keys[:first], records[:first]))
                keys, records = keys[first:], records[first:]
            self._queue.new.extend(self._filed(table, keys, records))

    def _file_fresh(self) -> None:
        if self.fresh:
            fresh, self.fresh = self.fresh, []
            self._file_all(fresh)

    def _file_all(self, records: Iterable[Record]) -> None:
        for tenure, group in groupby(records, TENURE):
            some = list(group)
            keys = list(map(KEY, some))
            self._queue.new.extend(self._filed(self._table(tenure.tp), keys, some))

    def _filed(
        self, table: LaneTable, keys: Sequence[bytes], records: Sequence[Record]
    ) -> list[Record]:
        """File them; returns those that can run."""
        filed = list(map(table.setdefault, keys, records))
        can_run = list(compress(records, map(is_, filed, records)))
        for record in list(compress(records, map(is_not, filed, records))):
            self.follow(table, record, table[record._key])
        return can_run

    def follow(self, table: LaneTable, record: Record, filed: Entry) -> None:
        """Let a record wait for what is filed under its key."""
        if isinstance(filed, Lane):
            filed.records.append(record)
        else:
            lane = table[filed._key] = Lane(record.tenure, table, filed._key, record)
            lane.state, lane.ahead = BEHIND, filed

    # ---- executors take and end ----------------------------------------------------------------

    def take_straight(self, records_max: int) -> Straight:
        """Take the oldest fresh records, to run them on the member's thread in their order."""
        taken = self.fresh[:records_max]
        del self.fresh[:records_max]
        return Straight(taken)

    def end_straight(self, run: Straight) -> None:
        """All that was begun of it has ended well; what is left is as fresh as before."""
        self.fresh[:0] = run.split()[1]

    def file_straight(self, run: Straight) -> Record | None:
        """File what was taken so: it runs, or its handler has failed or is stuck, like any other.

        Returns:
            The record that was begun last, which is now filed as one that runs.
        """
        running, rest = run.split()
        if running is not None:
            self._table(running.tenure.tp)[running._key] = running
        self._file_all(rest)
        self._file_fresh()
        return running

    def take(self, records_max: int, chunk: AnyTaken) -> AnyTaken:
        """Move what is ready into `chunk`, in its order: at least one entry if there is one.

        No more than `records_max` records, unless the first lane alone has more. What nobody has
        begun may be taken back from there. O(entries taken).
        """
        self.settle()
        self._file_fresh()
        self._chunks[id(chunk)] = chunk
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

    def deal(self, whose: Callable[[Entry], Taken]) -> bool:
        """Move everything that is ready to whose it is. False: there is nothing."""
        self.settle()
        self._file_fresh()
        is_dealt = False
        while self.ready:
            entry = self.ready.popleft()
            chunk = whose(entry)
            self._chunks[id(chunk)] = chunk
            if isinstance(entry, Lane):
                entry.state = RUNNING
            chunk.append(entry)
            is_dealt = True
        return is_dealt

    def begin_next(self) -> Entry | None:
        """Take what is next of what is ready, to begin it at once; without the lock. None: no more.

        What is given up in the same moment counts as running; of a lane nothing is left to run.
        """
        try:
            entry = self.ready.popleft()
        except IndexError:
            return None
        if isinstance(entry, Lane):
            entry.state = RUNNING
        return entry

    def is_followed(self, ended: Entry) -> bool:
        """Whether what was appended to `ended` has to be settled soon; without the lock.

        It need not be if nothing of its key waits: who files something later settles it.
        """
        if isinstance(ended, Lane):
            has_failed = ended.failure is not None
            return has_failed or ended.detached or ended.done != len(ended.records)
        table = self._tables.get(ended.tenure.tp)
        return table is None or table.get(ended._key) is not ended

    def put_back(self, chunk: Taken) -> None:
        """Let what was taken there, and nobody has begun, be ready again; no more goes there."""
        entries = snapshot(chunk)
        for entry in entries:
            chunk.remove(entry)
            if isinstance(entry, Lane):
                entry.state = READY
        self._queue.put_back(entries)
        self._chunks.pop(id(chunk), None)

    def begin(self) -> Entry:
        """Take what is next of what is ready, to begin it at once."""
        return self.begun(self.ready.popleft())

    @staticmethod
    def begun(entry: Entry) -> Entry:
        """What was taken out of the ready set, as begun."""
        if type(entry) is Lane:
            entry.state, entry.begun = RUNNING, True
        return entry

    def lane_of(self, entry: Entry) -> Lane:
        """What was taken, as a lane, for an executor that knows only lanes."""
        if isinstance(entry, Lane):
            return entry
        table = self.table(entry.tenure.tp)
        filed = table.get(entry._key)
        if isinstance(filed, Lane):
            lane = filed
            lane.records.insert(0, entry)
            lane.ahead = None
        else:
            lane = table[entry._key] = Lane(entry.tenure, table, entry._key, entry)
        lane.state, lane.begun = RUNNING, True
        return lane

    def settle(self) -> None:
        """Put whatever an executor ended where it belongs now. O(entries ended)."""
        ended = self.ended
        if not ended:
            return
        taken = [ended.popleft() for _ in range(len(ended))]
        singles = [entry for entry in taken if isinstance(entry, Record)]
        if len(singles) < len(taken):
            for entry in taken:
                if isinstance(entry, Lane):
                    self._settle(entry)
        if self.errors or self.given_up or self.abandoned:  # a key may have two of them
            for record in singles:
                table = self._table(record.tenure.tp)
                self._settle_single(record, table.pop(record._key, None), table)
            return
        for tenure, group in groupby(singles, TENURE):
            table, records = self._table(tenure.tp), list(group)
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
            self.given_up.discard(lane)
            self.drained.append(lane)
            return
        if lane.failure is not None or lane.done >= min(_DONE_MAX, len(lane.records) / 2):
            del lane.records[: lane.done]
            lane.done = 0
        lane.settled = lane.done
        if lane.failure is not None:
            lane.state = HELD
            self.failed.append(lane)
        elif lane.records:
            lane.state = READY
            self._queue.go_on(lane, ran)
        else:
            del lane.table[lane.key]

    def _settle_single(self, record: Record, filed: Entry | None, table: LaneTable) -> None:
        """A single that has failed, was given up or abandoned, or has a lane behind it."""
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
                self.given_up.discard(record)
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
            lane.state, lane.failure = HELD, (record, error)
            self.failed.append(lane)
        else:
            lane.state, lane.alone = READY, has_failed
            self._queue.go_on(lane, 1)

    def _ended_apart(self, record: Record, error: Failure | None) -> Entry:
        """What was given up and has ended; with its failure, if it failed."""
        if error is None:
            return record
        lane = Lane(record.tenure, {}, record._key, record)
        lane.detached, lane.failure = True, (record, error)
        return lane

    def release_hold(self, lane: Lane, *, first: bool = False) -> None:
        """A HELD lane may run again (or ends, if nothing is left in it); before all others?"""
        assert lane.state is HELD, f"I4: {lane} is not held"
        lane.failure = None
        if lane.detached:
            return
        if lane.records:
            as_it_came(lane.records[0])
            self.make_ready(lane, first=first)
        else:
            del lane.table[lane.key]

    # ---- the member gives up -------------------------------------------------------------------

    def waiting(self) -> set[int]:
        """The identities of what is ready, or taken and not begun."""
        self._file_fresh()
        found = set(map(id, [*self.ready, *(self.held_back or ())]))
        for chunk in self._chunks.values():
            found.update(map(id, snapshot(chunk)))
        return found

    def give_up_all(self, entries: list[Entry]) -> list[Entry]:
        """Take these away from their keys; returns what still runs, and turns up in `drained`.

        Queued records are forgotten. O(all that is ready or taken).
        """
        heads = {id(head): head for entry in entries if (head := _head(entry)) is not None}
        idle = self._taken_back(heads)
        running: list[Entry] = []
        for entry in entries:
            head = _head(entry)
            if isinstance(entry, Lane):
                entry.table.pop(entry.key, None)
                entry.detached, entry.ahead = True, None
            else:
                self.table(entry.tenure.tp).pop(entry._key, None)
            if head is None or id(head) in idle:
                continue
            if isinstance(head, Lane):
                head.at = head.current()
                head.records.clear()  # ends the lane's turn after the one it is at
            self.given_up.add(head)
            running.append(head)
        return running

    def _taken_back(self, heads: dict[int, Entry]) -> set[int]:
        """Take these out of the ready set and out of chunks; which of them were there."""
        idle = self.ready.withdraw(heads)
        if self.held_back is not None:
            idle |= self.held_back.withdraw(heads)
        idle.update(map(id, self._taken_from_chunks(heads)))
        return idle

    def _taken_from_chunks(self, heads: Container[int] | None) -> Iterator[Entry]:
        """Take these (None: all) out of chunks; those that executors have not begun before."""
        for chunk in self._chunks.values():
            for entry in snapshot(chunk):
                if heads is None or id(entry) in heads:
                    try:
                        chunk.remove(entry)
                    except (ValueError, IndexError):  # the executor got there first
                        continue
                    yield entry

    # ---- the circuit ---------------------------------------------------------------------------

    @property
    def _queue(self) -> Ready:
        """Where what becomes ready goes."""
        return self.ready if self.held_back is None else self.held_back

    def make_ready(self, lane: Lane, *, first: bool = False) -> None:
        """A lane can run, once it is its turn, or before all others."""
        lane.state = READY
        if first:
            self._queue.put_back([lane])
        else:
            self._queue.append(lane)

    def hold_back(self) -> None:
        """Let nothing begin from now on: what is ready, taken or becomes ready waits."""
        assert self.held_back is None, "I8: held back twice"
        self._file_fresh()
        taken = list(self._taken_from_chunks(None))
        for entry in taken:
            if isinstance(entry, Lane):
                entry.state = READY
        self.held_back = Ready()
        self.held_back.put_back(taken)
        with suppress(IndexError):
            while True:  # one by one: others take without the lock
                self.held_back.append(self.ready.popleft())

    def let_one_go(self) -> Entry | None:
        """Let one of what is held back begin, rather one that never failed; None: there is none.

        A record that failed may fail for ever; others behind it may not. O(what is held back).
        """
        held = self.held_back
        if not held:
            return None
        entry = next((it for it in held if next_of(it)._attempt == 1), next(iter(held)))
        held.withdraw({id(entry): entry})
        self.ready.append(entry)
        return entry

    def let_all_go(self) -> None:
        """Hold nothing back any more."""
        held, self.held_back = self.held_back, None
        if held is not None:
            self.ready.new.extend(held.new)
            self.ready.going_on.extend(held.going_on)

    def abandon(self, entry: Entry, record: Record, error: Failure) -> None:
        """Leave what runs to the handler that is stuck in it, at `record`.

        If it was given up, it has drained with that failure. Else what it has from there on fails
        and goes on in a lane of its own. In a batch nobody knows who is to blame: each is tried by
        itself, and has not failed yet.
        """
        was_given_up = entry in self.given_up
        self.given_up.discard(entry)
        if isinstance(entry, Record):
            self.abandoned.add(entry)
            if was_given_up:
                self.drained.append(self._ended_apart(record, error))
                return
            heir, in_company = self.lane_of(entry), self.in_batches
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
            self.make_ready(heir)
        else:
            heir.state = HELD
            heir.failure = (record, error)
            self.failed.append(heir)

    def check(self) -> None:
        """Assert that everything is in the one place its state says (I4, I8)."""
        for record in self.fresh:
            assert not self._table(record.tenure.tp), f"I4: {record} might overtake what is filed"
        queued = [*self.ready, *(self.held_back or ())]
        ready = set(map(id, queued))
        assert len(ready) == len(queued), "I4: something is ready twice"
        assert self.held_back is None or not self.fresh, "I4: what is fresh is not held back"
        for table in self._tables.values():
            for key, entry in table.items():
                if isinstance(entry, Record):
                    assert entry._key == key, f"I4: {entry} is filed under {key!r}"
                    continue
                assert entry.key == key, f"I4: {entry} is filed under {key!r}"
                assert not entry.detached, f"I4: {entry} was given up but still takes records"
                assert (entry.state is READY) == (id(entry) in ready), f"I4: {entry} is misplaced"
                assert (entry.state is BEHIND) == (entry.ahead is not None), f"I4: {entry}: who?"
                assert entry.state is not HELD or not entry.done, f"I4: {entry} begins with others"
                offsets = [record._offset for record in records_of(entry)]
                assert offsets == sorted(offsets), f"I4: {entry} is out of order: {offsets}"


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


def _head(entry: Entry) -> Entry | None:
    """What of it an executor may have; None: nothing."""
    if isinstance(entry, Record):
        return entry
    if entry.state is BEHIND:
        return entry.ahead
    return None if entry.state is HELD else entry
