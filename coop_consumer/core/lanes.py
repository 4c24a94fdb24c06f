"""Lanes: the FIFO of every key that has unfinished records, and the set of lanes that are ready.

In: admitted records (from the member's thread), lanes that an executor has finished with. Out:
lanes to run, the oldest ready one first. The ready set is global: no worker idles while any key is
ready. Pure; upholds I4 within a member.

Two parties touch a lane: the member (adds, holds, gives up) and one executor thread that runs it.
What both change is changed under one lock, which comes in as an argument as time does elsewhere.
An executor needs it once a chunk; while it runs a lane it only *iterates* over `lane.records`
(which sees records that are appended meanwhile, and ends early when the member clears them) and
appends to two deques (`finished`, `ended`), which is atomic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from contextlib import AbstractContextManager
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from coop_consumer.core.record import Record
    from coop_consumer.core.tenure import Tenure


class LaneState(Enum):
    """Where a lane is; it is in exactly one place.

    READY: in the ready set. RUNNING: in an executor's hands, though perhaps not begun. HELD: waits
    for a back-off, a decision about a parked record, or a hash that another member still drains.
    """

    READY = auto()
    RUNNING = auto()
    HELD = auto()


READY, RUNNING, HELD = LaneState.READY, LaneState.RUNNING, LaneState.HELD


class Taken(Protocol):
    """Lanes that an executor has taken to run."""

    def append(self, lane: Lane, /) -> None:
        """One more."""

    def remove(self, lane: Lane, /) -> None:
        """Give one back; ValueError: it is too late."""


class Lane:
    """The unfinished records of one key of one partition, in order.

    Attributes:
        records: The records; the first `done` are finished once the executor has ended the lane.
        failure: The record that the handler failed on, and what it raised.
        table: The lanes of its partition, where it is filed while it has records.
        chunk: The executor's queue it waits in while RUNNING, so that it can be taken back; None
            once it is begun.
        detached: Its hash was given up: nothing joins it, and its end is a step of a handover.
        at: The record that runs, of a detached lane.
        abandoned: Its handler took too long: whatever it does now counts for nothing.
        alone: Its first record was in a batch that failed, and nobody knows at which record: it is
            tried by itself.
        in_company: Its first record is in a batch with others now.
    """

    __slots__ = (
        "abandoned",
        "alone",
        "at",
        "chunk",
        "detached",
        "done",
        "failure",
        "in_company",
        "key",
        "key_hash",
        "records",
        "state",
        "table",
        "tenure",
    )

    def __init__(self, tenure: Tenure, table: LaneTable, key: Hashable, record: Record) -> None:
        self.tenure = tenure
        self.table = table
        self.key = key
        self.key_hash = record.key_hash
        self.records = [record]
        self.state = READY
        self.done = 0
        self.failure: tuple[Record, BaseException] | None = None
        self.chunk: Taken | None = None
        self.detached = False
        self.at: Record | None = None
        self.abandoned = False
        self.alone = False
        self.in_company = False

    def __repr__(self) -> str:
        return f"Lane({self.tenure.tp} {self.key!r} {self.state.name} {len(self.records)} records)"


AnyTaken = TypeVar("AnyTaken", bound=Taken)
LaneTable = dict[Hashable, Lane]
"""The lanes of one partition by key. A lane is in it while it has unfinished records."""


class KeyLanes:
    """All lanes of a member.

    Every method is called with `lock` held.

    Args:
        lock: Guards the lanes; the simulation gives a null context.
    """

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self.lock = lock
        self.ready: deque[Lane] = deque()
        self.finished: deque[Record] = deque()
        self.ended: deque[Lane] = deque()
        self.failed: deque[Lane] = deque()
        self.drained: deque[Lane] = deque()
        self.given_up: set[Lane] = set()
        self._tables: dict[object, LaneTable] = {}

    def table(self, partition: object) -> LaneTable:
        """The lanes of one partition, made when first asked for."""
        return self._tables.setdefault(partition, {})

    @property
    def in_use(self) -> bool:
        """Whether there is a lane at all: with unfinished records, or whose handler runs on."""
        return bool(self.given_up) or any(self._tables.values())

    def take(self, records_max: int, chunk: AnyTaken) -> AnyTaken:
        """Move ready lanes into `chunk`, the oldest first: at least one if any is ready.

        No more than `records_max` records, unless the first lane alone has more. O(lanes taken).
        """
        self.settle()
        ready, count = self.ready, 0
        while ready and (count == 0 or count + len(ready[0].records) <= records_max):
            lane = ready.popleft()
            count += len(lane.records)
            lane.state = RUNNING
            lane.chunk = chunk
            chunk.append(lane)
        return chunk

    def settle(self) -> None:
        """Put every lane that an executor ended where it belongs now. O(lanes ended)."""
        ended = self.ended
        while ended:
            self._settle(ended.popleft())

    def _settle(self, lane: Lane) -> None:
        lane.chunk = None
        if lane.abandoned:
            return
        if lane.detached:
            self.given_up.discard(lane)
            self.drained.append(lane)
            return
        if lane.done:
            del lane.records[: lane.done]
            lane.done = 0
        if lane.failure is not None:
            lane.state = HELD
            self.failed.append(lane)
        elif lane.records:
            lane.state = READY
            self.ready.append(lane)
        else:
            del lane.table[lane.key]

    def release_hold(self, lane: Lane) -> None:
        """A HELD lane may run again (or ends, if nothing is left in it)."""
        assert lane.state is HELD, f"I4: {lane} is not held"
        lane.failure = None
        if lane.detached:
            return
        if lane.records:
            lane.state = READY
            self.ready.append(lane)
        else:
            del lane.table[lane.key]

    def give_up(self, lane: Lane) -> bool:
        """Take the lane away from its key. True: nothing of it runs; False: it ends later.

        Its queued records are forgotten. A lane that an executor has begun stays RUNNING until it
        ends, and then turns up in `drained`.
        """
        if lane.table.get(lane.key) is lane:
            del lane.table[lane.key]
        lane.detached = True
        if lane.state is READY:
            self.ready.remove(lane)
            return True
        if lane.state is HELD:
            return True
        pending = lane.tenure.pending
        lane.at = next((record for record in lane.records if record.offset in pending), None)
        lane.records.clear()  # ends the executor's iteration after the record it is at
        if self._taken_back(lane):
            return True
        self.given_up.add(lane)
        return False

    def abandon(self, lane: Lane, record: Record, error: BaseException) -> None:
        """Leave a running lane to the handler that is stuck in it, at `record`.

        If it was not given up, what it has from there on fails and goes on in a lane of its own. In
        a batch nobody knows who is to blame: each is tried by itself, and has not failed yet.
        """
        lane.abandoned = True
        self.given_up.discard(lane)
        if lane.detached:
            return
        heir = Lane(lane.tenure, lane.table, lane.key, record)
        heir.records = lane.records[lane.records.index(record) :]
        heir.alone = True
        lane.table[lane.key] = heir
        lane.detached = True
        lane.records.clear()
        if lane.in_company:
            self.ready.append(heir)
        else:
            heir.state = HELD
            heir.failure = (record, error)
            self.failed.append(heir)

    @staticmethod
    def _taken_back(lane: Lane) -> bool:
        if lane.chunk is None:
            return False
        try:
            lane.chunk.remove(lane)
        except ValueError:  # the executor got there first
            return False
        return True

    def give_up_all(self, lanes: list[Lane]) -> list[Lane]:
        """Give up many lanes; returns those that still run. One pass over the ready set."""
        gone = {id(lane) for lane in lanes if lane.state is READY}
        if gone:
            kept = [lane for lane in self.ready if id(lane) not in gone]
            self.ready.clear()
            self.ready.extend(kept)
        running = []
        for lane in lanes:
            if id(lane) in gone:
                lane.detached = True
                lane.table.pop(lane.key, None)
            elif not self.give_up(lane):
                running.append(lane)
        return running

    def check(self) -> None:
        """Assert that every lane is in the one place its state says (I4, I8)."""
        ready = {id(lane) for lane in self.ready}
        assert len(ready) == len(self.ready), "I4: a lane is ready twice"
        for table in self._tables.values():
            for key, lane in table.items():
                assert lane.key == key, f"I4: {lane} is filed under {key!r}"
                assert not lane.detached, f"I4: {lane} was given up but still takes records"
                assert (lane.state is READY) == (id(lane) in ready), f"I4: {lane} is misplaced"
                offsets = [record.offset for record in lane.records]
                assert offsets == sorted(offsets), f"I4: {lane} is out of order: {offsets}"
