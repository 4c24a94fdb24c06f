"""Lanes while threads take from them without the lock: no entry is had twice, none is left."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from assignors import KEY_HASH_MAX, WHOLE, KeyRange
from coop_consumer.core import events
from coop_consumer.core.actions import MAIN
from coop_consumer.core.lane import Entry
from coop_consumer.core.lane_tables import Straight
from coop_consumer.core.lanes import KeyLanes
from coop_consumer.core.ready import snapshot
from coop_consumer.core.record import Record
from tests.simulation.data_log import SimMessage
from tests.support.journal import WAIT_S
from tests.unit.core_member import T0, TableMember

LOWER = KeyRange(0, KEY_HASH_MAX // 2)


class Contended(deque[Entry]):
    """What is ready, where another thread takes the oldest whenever somebody looks."""

    def __init__(self, entries: deque[Entry]) -> None:
        super().__init__(entries)
        self.taken: list[Entry] = []

    def _lose_one(self) -> None:
        if self:
            self.taken.append(super().popleft())

    def popleft(self) -> Entry:
        """The other one was faster."""
        self._lose_one()
        return super().popleft()

    def __iter__(self) -> Iterator[Entry]:
        """What it was before the other one came."""
        entries = list(super().__iter__())
        self._lose_one()
        return iter(entries)


def test_what_another_thread_takes_while_ranges_are_given_up_stays_with_that_thread() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(*(b"%d" % number for number in range(40)))
    lanes = member.core.lanes
    lanes.ready.new = contended = Contended(lanes.ready.new)
    member.shared = True
    member.assign(LOWER)
    left = [*deque.__iter__(contended)]
    assert contended.taken
    assert not {id(entry) for entry in left} & {id(entry) for entry in contended.taken}
    drains = {entry.key_hash for entry in contended.taken if entry.key_hash not in LOWER}
    [tenure] = member.core.state.partitions[T0].tenures
    assert set(tenure.draining) == drains


class EndsMeanwhile(SimMessage):
    """A message in whose intake the handler of the record before it ends."""

    ends: list[tuple[KeyLanes, Entry]]

    def key(self) -> bytes | None:
        """Its key."""
        while self.ends:
            lanes, before = self.ends.pop()
            lanes.ended.append(before)
        return super().key()


def test_a_record_whose_predecessor_ends_while_it_is_filed_is_ready_at_once() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a")
    lanes = member.core.lanes
    stream = member.core.state.partitions[T0].streams[MAIN]
    assert stream is not None
    message = EndsMeanwhile(0, 1, b"a")
    message.ends = [(lanes, lanes.begin())]
    member.tell(events.Fetched(T0, stream.number, 1, 2, [message], at_end=True))
    assert [entry.key for entry in lanes.ready] == [b"a"]


class FinishesLate(deque[Record]):
    """What is finished; when somebody looks, a handler ends, and another thread settles that."""

    def __init__(self, lanes: KeyLanes, entry: Entry, record: Record) -> None:
        super().__init__()
        self.ends = [(lanes, entry, record)]

    def __len__(self) -> int:
        found = super().__len__()
        while self.ends:
            lanes, entry, record = self.ends.pop()
            self.append(record)
            lanes.ended.append(entry)
            lanes.settle()
        return found


def test_what_runs_while_its_range_goes_keeps_its_order() -> None:
    """Else a seed of the simulation would not replay exactly."""
    member = TableMember()
    member.assign(WHOLE)
    member.produce(*(b"%d" % number for number in range(60)))
    member.start()
    running = [entry for entry, *_ in member.running.values()]
    order = sorted(running, key=id, reverse=True)  # not that of their addresses
    lanes = member.core.lanes
    lanes.give_up_all(order)
    assert list(lanes.given_up) == order


def test_what_a_handler_finished_is_told_with_the_release_though_another_thread_settled_it() -> (
    None
):
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    entry, record, _ = member.running[b"a", 0]
    member.assign(KeyRange(0, record.key_hash - 1))
    lanes = member.core.lanes
    lanes.finished = FinishesLate(lanes, entry, record)
    member.after(1)
    member.after(1)
    assert not lanes.given_up
    assert member.store.progress().is_done(record.key_hash, 0)


class Pair:
    """Two threads that meet before each round, and act at the same time."""

    def __init__(self, *acts: Callable[[], None]) -> None:
        self._barrier = threading.Barrier(len(acts))
        self._acts = acts

    def act(self) -> None:
        """Let each of them act once."""
        threads = [threading.Thread(target=self._act, args=(act,)) for act in self._acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)

    def _act(self, act: Callable[[], None]) -> None:
        self._barrier.wait(WAIT_S)
        act()


ROUNDS = 300
"""So often threads meet; without the interpreter's lock a few rounds show what it would hide."""


@pytest.mark.usefixtures("restless")
def test_each_record_that_runs_straight_is_begun_by_one_thread_or_left_to_the_other() -> None:
    member = TableMember()
    member.assign(WHOLE)
    lanes = member.core.lanes
    lanes.tables.goes_straight = True
    for _ in range(ROUNDS):
        lanes.tables.fresh.clear()
        records = [
            Record(member.core.state.partitions[T0].tenures[0], n, b"", 0, SimMessage(0, n, b""))
            for n in range(100)
        ]
        lanes.tables.fresh += records
        run = lanes.tables.take_straight(100)
        begun: list[Record] = []
        rest: list[Record] = []
        last: list[Record | None] = []

        def split(run: Straight = run, rest: list[Record] = rest, last: list[Any] = last) -> None:
            running, left = run.split()
            last.append(running)
            rest.extend(left)

        Pair(partial(begun.extend, run), split).act()
        assert begun + rest == records
        assert run.records == begun
        assert last == [begun[-1] if begun else None]


@pytest.mark.usefixtures("restless")
def test_each_ready_entry_is_had_by_one_thread_while_others_take_and_it_is_looked_at() -> None:
    member = TableMember()
    member.assign(WHOLE)
    lanes = member.core.lanes
    for _ in range(ROUNDS // 3):
        member.produce(*(b"%d" % number for number in range(60)))
        entries = list(lanes.ready)
        had: list[Entry] = []

        def take(had: list[Entry] = had) -> None:
            had.extend(iter(lanes.begin_next, None))

        Pair(take, take, lanes.waiting, lanes.waiting).act()
        assert sorted(map(id, had)) == sorted(map(id, entries))
        for entry in had:
            assert isinstance(entry, Record)
            lanes.finished.append(entry)
            lanes.ended.append(entry)
        member.tell(events.Tick())


def test_a_copy_of_what_changes_meanwhile_is_made_again() -> None:
    class Changing(deque[int]):
        """A deque from which another thread takes while it is copied."""

        changes = 2

        def __iter__(self) -> Iterator[int]:
            for item in super().__iter__():
                if self.changes:
                    self.changes -= 1
                    self.popleft()
                yield item

    assert snapshot(Changing([1, 2, 3, 4])) == [3, 4]  # type: ignore[arg-type]
