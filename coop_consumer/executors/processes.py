"""The process executor: handlers that compute run in child processes, on cores of their own.

In: lanes (under the lanes' lock, once a chunk). Out: finished records, ended and failed lanes, and
a wake-up for the member when it should look. A key belongs to one child while the child lives. So
a handler finds again what it keeps of a key in memory, and a slow record holds up the keys of its
child. One thread here drives one child. A child that dies is replaced. The record that it ran has
failed once, and the next child runs its other records. Upholds I4 with `KeyLanes`.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from coop_consumer.core import effects
from coop_consumer.core.failure import Failure, failure_of
from coop_consumer.core.lane import Lane, hash_of
from coop_consumer.core.lanes import READY_ONE_BY_ONE, READY_TOGETHER
from coop_consumer.executors.batches import Batch
from coop_consumer.executors.child import End, Parcel, Sent, Soon, Traced, parcel
from coop_consumer.executors.workplace import (
    ChildDiedError,
    ChildError,
    ConditionExecutor,
    Workplace,
)
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from coop_consumer.core.lane import Entry
    from coop_consumer.core.lanes import KeyLanes
    from coop_consumer.core.record import Record
    from coop_consumer.executors.children import Child, Children
    from coop_consumer.ops.carriers import Carried
    from coop_consumer.ops.record_spans import RecordSpans, SpanOfBatch

log = logging.getLogger(__name__)

CHUNK_S = 0.02
"""A chunk's worth of work. A round trip takes a millisecond while all cores compute."""
CHUNK_RECORDS_MAX = 512
_COST_FADES = 0.9
SLOTS = 4_096
"""Keys are dealt to children by the slot that their hash falls into."""
_LOOK_S = 0.05
"""How often a thread looks how far its child is with a chunk that takes long."""
_PAUSE_S, _PAUSE_MAX_S = 0.5, 30.0
"""The time between two tries to start a child whose `setup` fails: at first, and at most."""


class _Waiting:
    """The entries that wait for a child; each can be taken back in O(1).

    Lanes that go on take turns with new keys, as in the run queue: an entry of one kind, then one
    of the other.
    """

    def __init__(self) -> None:
        self._lines: deque[OrderedDict[Entry, None]] = deque((OrderedDict(), OrderedDict()))
        self._new, self._going_on = self._lines

    def __len__(self) -> int:
        return len(self._new) + len(self._going_on)

    def __iter__(self) -> Iterator[Entry]:
        return chain(self._new, self._going_on)

    def append(self, entry: Entry) -> None:
        """Let an entry wait."""
        line = self._going_on if isinstance(entry, Lane) else self._new
        line[entry] = None

    def remove(self, entry: Entry) -> None:
        """Take an entry back; ValueError: it does not wait any more."""
        for line in self._lines:
            if entry in line:
                del line[entry]
                return
        raise ValueError(f"{entry} does not wait")

    def first(self) -> Entry:
        """The entry whose turn is next; it goes on waiting."""
        if not self._lines[0]:
            self._lines.rotate()
        return next(iter(self._lines[0]))

    def pop_first(self) -> Entry:
        """Take the entry whose turn is next."""
        first = self.first()
        del self._lines[0][first]
        self._lines.rotate()
        return first


class _Chunk:
    """The records that one child runs, and how far it is.

    Attributes:
        items: Its records in the order in which the child takes them, with their lanes.
    """

    def __init__(self, lanes: Sequence[Lane], records_max: int, *, heads: bool) -> None:
        self._batch = Batch(lanes if heads else ())
        self.items: list[tuple[Lane, Record]] = []
        self._left: dict[Lane, int] = {}
        self._sent: dict[int, Sent] = {}
        self._spans: RecordSpans | None = None
        self._span: SpanOfBatch | None = None
        for lane in lanes:
            count = 1 if heads else max(1, records_max - len(self.items))
            records = lane.records[lane.done : lane.done + count]
            self.items += [(lane, record) for record in records]
            self._left[lane] = len(records)
            lane.begun = heads
        lanes[0].begun = True
        self._told = 0

    def parcels(self) -> list[Parcel]:
        """The records as they are sent to the child."""
        numbers = {lane: number for number, lane in enumerate(self._left)}
        return [parcel(numbers[lane], record) for lane, record in self.items]

    def begin_spans(self, spans: RecordSpans) -> list[Carried]:
        """Begin the spans of its records, or of a batch; returns what the child needs of each."""
        self._spans, records = spans, self._batch.records
        if len(records) > 1:
            self._span = spans.start_batch(records)
            return [spans.carried(self._span)]
        return [spans.carried(spans.start(record)) for _, record in self.items]

    @property
    def topic(self) -> str:
        """The topic of its last record."""
        return self.items[-1][1]._tenure.tp.topic

    def runs(self, entry: Entry) -> bool:
        """Whether the child runs this lane, or will."""
        return entry in self._left

    def is_at(self, entry: Entry, count: int) -> bool:
        """Whether the child runs this lane after `count` records; a batch runs all its lanes."""
        if self._batch.entries:
            return self.runs(entry)
        return 0 <= count < len(self.items) and self.items[count][0] is entry

    def sent(self, sent: Sent) -> None:
        """Keep what the handler of a record has sent, until the record counts as done."""
        self._sent[sent.number] = sent

    def _file(self, number: int) -> None:
        record, sent = self.items[number][1], self._sent.pop(number, None)
        if sent is None:
            return
        for output in sent.outputs:
            effects.file(record, output)
        if sent.times is not None and self._spans is not None:
            self._spans.finish(record, sent.times)

    def done(self, lanes: KeyLanes, count: int) -> None:
        """The first `count` records are processed, except for failed ones; -1: none."""
        count = max(count, 0)
        for number in range(self._told, count):
            lane, record = self.items[number]
            if lane not in self._left:
                continue  # it has failed before
            if not lane.abandoned:
                if self._sent:
                    self._file(number)
                lanes.finished.append(record)
                lane.done += 1
            self._left[lane] -= 1
            if not self._left[lane]:
                self._end(lanes, lane)
        self._told = max(self._told, count)
        if count < len(self.items):
            self.items[count][0].begun = True

    def failed(self, lanes: KeyLanes, number: int, failure: Failure) -> None:
        """A record has failed, and the child leaves out the rest of its lane."""
        self.done(lanes, number)
        lane, record = self.items[number]
        if not lane.abandoned:
            lane.failure = (record, failure)
        self._end(lanes, lane)

    def concluded(self, lanes: KeyLanes, failures: Mapping[int, Failure] | None) -> None:
        """A batch has ended; None: something of it failed, and nobody knows what."""
        errors: dict[Record, Failure] | None = None
        if failures is not None:
            records = self._batch.records
            errors = {records[n]: failure for n, failure in failures.items()}
            for number in [n for n in self._sent if n not in failures]:
                self._file(number)
        self._end_span(errors)
        if self._left:
            self._batch.conclude(lanes, errors)
        self._left.clear()

    def died(self, lanes: KeyLanes, count: int, failure: Failure) -> None:
        """The child has died at the record after the first `count`."""
        self.done(lanes, count)
        if 0 <= count < len(self.items) and self.items[count][0] in self._left:
            self.failed(lanes, count, failure)
        self.begin_anew(lanes)

    def begin_anew(self, lanes: KeyLanes) -> None:
        """Let unfinished records begin anew; none of them has failed."""
        self._end_span(None)
        for lane in list(self._left):
            self._end(lanes, lane)

    def _end_span(self, errors: Mapping[Record, Failure] | None) -> None:
        """A batch has ended, and so has its span; a batch of one has its record's."""
        spans, records = self._spans, self._batch.records
        if spans is None:
            return
        if self._span is not None:
            spans.conclude(self._span, errors)
            self._span = None
        elif len(records) == 1 and errors is not None and not errors:
            spans.finish(records[0])

    def _end(self, lanes: KeyLanes, lane: Lane) -> None:
        del self._left[lane]
        lanes.ended.append(lane)


@dataclass(slots=True, eq=False)
class _Seat:
    """A child, the thread that drives it, and what waits for it or is at it.

    Attributes:
        chunk: What the child runs.
        begun_s: Since when.
        following: What was sent to the child besides, so that it can go on at once.
        leaves: There are to be fewer children: this one ends after its chunk.
    """

    child: Child
    waiting: _Waiting = field(default_factory=_Waiting)
    chunk: _Chunk | None = None
    begun_s: float = 0.0
    following: _Chunk | None = None
    thread: threading.Thread | None = None
    leaves: bool = False

    @property
    def load(self) -> int:
        """Roughly how much work the child has."""
        sent = (self.chunk, self.following)
        return len(self.waiting) + sum(len(chunk.items) for chunk in sent if chunk is not None)


class ProcessExecutor(ConditionExecutor):
    """Runs lanes in children.

    Args:
        place: What it works with; as many children as workers.
        children: The children, started and set up.
        batch_max: How large a batch may be; 0: the handler takes single records.
    """

    waits = True

    def __init__(self, place: Workplace, children: Children, batch_max: int) -> None:
        self.ready_min = READY_TOGETHER if batch_max else READY_ONE_BY_ONE
        super().__init__(place)
        self._children = children
        self._batch_max = batch_max
        self._spans = place.spans
        self._seats: list[_Seat] = []
        self._seat_of_slot: dict[int, _Seat] = {}
        self._leaving: list[_Seat] = []
        self._cost_s = CHUNK_S  # of one record, by its recent high values; at first: one a chunk

    def start(self) -> None:
        """Start the threads that drive the children."""
        self._seat(self._children.each)

    def _seat(self, children: Iterable[Child]) -> None:
        """Give children seats; ready entries are dealt to them from now on."""
        seats = [_Seat(child) for child in children]
        self._seats += seats
        self._show_lines()
        for seat in seats:
            self._threads += 1
            name = f"{self._name}-{self._threads}"
            work = self._drive, seat
            seat.thread = threading.Thread(target=self._live, args=work, name=name, daemon=True)
            seat.thread.start()

    def resize(self, workers: int) -> None:
        """Let there be this many children from now on; keys are dealt to them anew.

        A surplus child ends after the records that it holds.

        Raises:
            ChildError: `setup` or `on_ranges_assigned` of a new child raised; nothing has changed.
            ChildDiedError: A new child died in one of these; nothing has changed.
        """
        more = self._children.add(workers - len(self._seats))
        with self._condition:
            for seat in self._seats:
                self._lanes.put_back(seat.waiting)
            for seat in self._seats[workers:]:
                seat.leaves = True
            self._lanes.work.workers = workers
            self._leaving += self._seats[workers:]
            del self._seats[workers:]
            self._seat_of_slot.clear()
            self._seat(more)
            self._condition.notify_all()

    def serve(self, lanes: KeyLanes, wake: Callable[[], None]) -> None:
        """Go on with the lanes of the member's next run, under the same lock, once one is over."""
        super().serve(lanes, wake)
        self._show_lines()

    def _show_lines(self) -> None:
        """Show the member what waits for children; otherwise it would fetch without end."""
        self._lanes.lines = [seat.waiting for seat in self._seats]

    def offered(self) -> None:
        """Lanes have become ready."""
        if self._lanes.ready:
            with self._condition:
                self._condition.notify_all()

    def stop(self) -> None:
        """End the threads once what their children run has ended; returns when they have."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        for seat in [*self._seats, *self._leaving]:
            if seat.thread is not None:
                seat.thread.join()

    def _running_s(self) -> float:
        now_s = self._clock()
        seats = [*self._seats, *self._leaving]
        return sum(now_s - seat.begun_s for seat in seats if seat.chunk is not None)

    def stack(self, entry: Entry) -> str:
        """The stack of the child that runs it, below its name; "" if none does."""
        seat = self._seat_of(entry)
        if seat is None:
            return ""
        silent = "  It shows no stack: it has ended, or its handler lets no other thread run.\n"
        return f"  In {seat.child.name}:\n{seat.child.stack() or silent}"

    def abandon(self, entry: Entry) -> None:
        """End the child that runs the entry, which ends the handler for certain.

        The entry must be marked as abandoned. If the child has just gone on to another record, it
        is left alone.
        """
        with self._condition:  # else the child might be replaced meanwhile, and the new one ended
            seat = self._seat_of(entry)
            if seat and seat.chunk and seat.chunk.is_at(entry, seat.child.progress):
                seat.child.kill()

    def _seat_of(self, entry: Entry) -> _Seat | None:
        # (Each chunk is read once: the thread that drives the child may end it meanwhile.)
        seats = ((seat, seat.chunk) for seat in [*self._seats, *self._leaving])
        return next((seat for seat, chunk in seats if chunk and chunk.runs(entry)), None)

    # ---- one thread a child --------------------------------------------------------------------

    def _drive(self, seat: _Seat) -> None:
        while (chunk := seat.following or self._next(seat)) is not None:
            lanes, started = self._lanes, self._clock()
            seat.begun_s, seat.chunk = started, chunk
            try:
                if seat.following is None:
                    self._send(seat, chunk)
                seat.following = None
                self._listen(seat, lanes, chunk)
                spent_s = self._clock() - started
                lanes.work.spent.append((spent_s, len(chunk.items), chunk.topic))
                cost_s = spent_s / len(chunk.items)
                self._cost_s = max(cost_s, self._cost_s * _COST_FADES, 1e-7)
            except (EOFError, OSError):
                self._replace_dead(seat, lanes, chunk)
                if self._stopping:  # nobody was started in its place
                    return
            seat.chunk = None
        if seat.leaves:
            self._children.retire(seat.child)
            with self._condition:
                self._leaving.remove(seat)

    def _send(self, seat: _Seat, chunk: _Chunk) -> None:
        parcels = chunk.parcels()
        sent = tuple(parcels) if self._batch_max else parcels
        if self._spans is None:
            seat.child.work.send(sent)
        else:
            seat.child.work.send(Traced(sent, chunk.begin_spans(self._spans)))

    def _send_following(self, seat: _Seat) -> None:
        """The child is about to end its chunk: send the next one, if anything waits."""
        with self._condition:
            if self._paused or seat.leaves:
                return
            self._lanes.settle()
            self._sort()
            if not seat.waiting:
                return
            seat.following = self._take(seat)
        self._send(seat, seat.following)

    def _next(self, seat: _Seat) -> _Chunk | None:
        """Wait for work; None: there is no more work for this child."""
        with self._condition:
            while True:
                lanes = self._lanes
                lanes.settle()
                if lanes.failed or lanes.drained:
                    self._wake()
                if seat.leaves:
                    self._wake()
                    return None
                if not self._paused:
                    self._sort()
                    if seat.waiting:
                        return self._take(seat)
                if self._stopping:
                    return None
                if lanes.finished:
                    self._wake()  # nothing left to do: what is finished may be all there is
                self._condition.wait()

    def _sort(self) -> None:
        """Deal ready entries to the children that their keys belong to.

        A new slot goes to the child with the least work.
        """
        if self._lanes.deal(self._line_of):
            self._condition.notify_all()

    def _line_of(self, entry: Entry) -> _Waiting:
        slot = hash_of(entry) % SLOTS
        seat = self._seat_of_slot.get(slot)
        if seat is None:
            seat = min(self._seats, key=lambda it: it.load)
            self._seat_of_slot[slot] = seat
        return seat.waiting

    def _take(self, seat: _Seat) -> _Chunk:
        taken: list[Lane] = []
        if self._batch_max:
            while seat.waiting and len(taken) < self._batch_max:
                entry = seat.waiting.first()
                goes_alone = isinstance(entry, Lane) and entry.alone
                if goes_alone and taken:
                    break
                taken.append(self._begin_next(seat))
                if goes_alone:
                    break
            for lane in taken:
                lane.in_company = len(taken) > 1
            return _Chunk(taken, len(taken), heads=True)
        limit = int(max(1.0, min(CHUNK_S / self._cost_s, CHUNK_RECORDS_MAX)))
        count = 0
        while seat.waiting and count < limit:
            lane = self._begin_next(seat)
            taken.append(lane)
            count += len(lane.records) - lane.done
        return _Chunk(taken, limit, heads=False)

    def _begin_next(self, seat: _Seat) -> Lane:
        return self._lanes.tables.lane_of(seat.waiting.pop_first())

    def _listen(self, seat: _Seat, lanes: KeyLanes, chunk: _Chunk) -> None:
        """Take the child's reports about a chunk, until the chunk has ended."""
        child = seat.child
        while True:
            at = child.progress  # read first: failures below it were reported before
            has_news = child.work.poll(_LOOK_S)
            if not has_news:
                child.refuse_dead()
            if has_news:
                told = child.work.recv()
                if self._hear(lanes, chunk, told):
                    break
                if isinstance(told, Soon):
                    self._send_following(seat)
            elif not self._batch_max:
                chunk.done(lanes, at)
            if lanes.ended or lanes.finished:
                self._wake()
        if len(lanes.finished) >= self._wake_after:
            self._wake()

    def _hear(self, lanes: KeyLanes, chunk: _Chunk, told: object) -> bool:
        """Take in what a child reports; returns whether its chunk has ended."""
        if isinstance(told, End):
            if self._batch_max:
                chunk.concluded(lanes, told.failures)
            else:
                chunk.done(lanes, len(chunk.items))
            return True
        if isinstance(told, Sent):
            chunk.sent(told)
        elif isinstance(told, tuple) and not isinstance(told, Soon):
            number, failure = told
            chunk.failed(lanes, number, failure)
        return False

    def _hear_the_rest(self, child: Child, lanes: KeyLanes, chunk: _Chunk) -> None:
        """Take in what a dead child has reported, where we were about to send it something."""
        with suppress(EOFError, OSError):
            while child.work.poll(0) and not self._hear(lanes, chunk, child.work.recv()):
                pass

    def _replace_dead(self, seat: _Seat, lanes: KeyLanes, chunk: _Chunk) -> None:
        """Fail the record that a dead child ran, let the rest begin anew, replace the child."""
        child = seat.child
        with self._condition:
            seat.chunk = None
        self._hear_the_rest(child, lanes, chunk)
        error = ChildDiedError(child.obituary())
        if child.is_killed:  # by us, perhaps a moment too late: the entry at fault is abandoned
            chunk.done(lanes, -1 if self._batch_max else child.progress)
            chunk.begin_anew(lanes)
        elif self._batch_max:
            chunk.concluded(lanes, {0: failure_of(error)} if len(chunk.items) == 1 else None)
        else:
            chunk.died(lanes, child.progress, failure_of(error))
        if seat.following is not None:
            seat.following.begin_anew(lanes)
            seat.following = None
        extra = LogEvent.CHILD_DIED.extra(error=error)
        told = (
            "%s: %s; what it ran has failed, and another one is started. See how it ended: memory "
            "(`dmesg`), or a crash in C"
        )
        log.error(told, self._name, error, extra=extra)
        self._wake()
        pause_s = _PAUSE_S
        while not self._stopping:
            try:
                self._children.replace(child)
                lanes.work.restarts.append(1)
            except (ChildError, ChildDiedError) as again:
                extra = LogEvent.CHILD_NOT_STARTED.extra(error=again)
                told = (
                    "%s: no other child process begins: %s. Its keys wait, nothing is lost, and it "
                    "is tried again in %g s. Correct what `setup` needs, or free memory"
                )
                log.error(told, self._name, again, pause_s, extra=extra)  # noqa: TRY400
                with self._condition:
                    self._condition.wait_for(lambda: self._stopping, pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            else:
                return
