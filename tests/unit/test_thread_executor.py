"""The thread executor: what a handler may do wrong, and what becomes of the record and its key."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from operator import sub
from random import Random
from time import monotonic

import pytest

from assignors import KEY_HASH_MAX, WHOLE, KeyRange, key_hash
from coop_consumer.core import events
from coop_consumer.core.record import ASSIGNABLE, OFFSET, Record
from coop_consumer.executors import (
    BatchThreadExecutor,
    InlineExecutor,
    ThreadExecutor,
    Workplace,
    record_threads,
    threads,
)
from coop_consumer.executors.threads import ThreadedExecutor
from tests.support.journal import WAIT_S
from tests.unit.core_member import TableMember

TICK_S = 0.01
LOWER = KeyRange(0, KEY_HASH_MAX // 2)


def attempts_after(handler: Callable[[Record], object]) -> tuple[list[int], dict[int, str]]:
    """Offsets done, and the errors of the others, of a record of `a` and one of `b`."""
    member = TableMember(on_failure="park", max_attempts=1)
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    place = Workplace(member.core.lanes, threading.Condition(), 1, lambda: None, 1, "test")
    executor = ThreadExecutor(place, lambda record: handler(record) if record.key == b"a" else None)
    executor.start()
    executor.stop()  # which lets what is ready be processed, and joins the thread
    done = [OFFSET(record) for record in member.core.lanes.finished]
    member.tell(events.Tick())
    [tenure] = member.core.state.partitions[next(iter(member.core.state.partitions))].tenures
    return done, {offset: attempt.error for offset, attempt in tenure.attempts.items()}


def exits(_: Record) -> None:
    sys.exit(3)


def interrupts(_: Record) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("handler", "error"), [(exits, "SystemExit: 3"), (interrupts, "KeyboardInterrupt")]
)
def test_a_handler_that_would_end_its_thread_fails_its_record_alone(
    handler: Callable[[Record], object], error: str
) -> None:
    assert attempts_after(handler) == ([1], {0: error})


async def awaits(_: Record) -> None:
    await asyncio.sleep(0)


def yields(_: Record) -> Iterator[int]:
    yield 1


async def yields_later(_: Record) -> AsyncIterator[int]:
    yield 1


def promises(_: Record) -> Future[int]:
    return Future()


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (awaits, "coroutine"),
        (yields, "generator"),
        (yields_later, "async_generator"),
        (promises, "Future"),
    ],
)
def test_a_handler_that_returns_what_has_not_run_has_not_processed_its_record(
    handler: Callable[[Record], object], kind: str
) -> None:
    done, errors = attempts_after(handler)
    assert done == [1]
    assert errors[0].startswith(f"TypeError: process returned a {kind}, so the record is not")


@pytest.mark.parametrize("name", ASSIGNABLE)
def test_nothing_rests_on_what_a_handler_assigns_to_its_record(name: str) -> None:
    assert attempts_after(lambda record: setattr(record, name, "changed")) == ([0, 1], {})


def test_nobody_assigns_to_the_hold_that_a_record_was_admitted_by() -> None:
    done, errors = attempts_after(lambda record: setattr(record, "tenure", None))
    assert done == [1]
    assert errors[0].startswith("AttributeError: ")


def test_any_other_value_that_a_handler_returns_means_done() -> None:
    assert attempts_after(lambda record: record.offset) == ([0, 1], {})


def test_quick_work_taken_by_a_thread_that_gets_stuck_is_taken_back_without_any_event() -> None:
    condition = threading.Condition()
    member = TableMember(lock=condition)
    member.assign(WHOLE)
    warm, others, outcome = threading.Event(), threading.Event(), threading.Event()
    quick = [b"quick %d" % number for number in range(2_000)]
    left = set(quick[:50])

    def handler(record: Record) -> None:
        if record.key == b"slow":
            if others.wait(30):
                outcome.set()
        elif record.key == quick[-1]:
            warm.set()
        elif warm.is_set():
            left.discard(record.key or b"")
            if not left:
                others.set()

    place = Workplace(member.core.lanes, condition, 2, lambda: None, 1, "test")
    executor = ThreadExecutor(place, handler)
    with condition:
        member.produce(*quick)
    executor.start()
    assert warm.wait(30)  # from here on a thread takes many of these at once
    with condition:
        member.produce(b"slow", *quick[:50])
    executor.offered()  # the last that the threads hear of the member
    assert outcome.wait(60)
    executor.stop()


@pytest.mark.parametrize("is_batched", [False, True])
def test_what_comes_while_a_quick_thread_is_stuck_gets_another_one_without_any_event(
    monkeypatch: pytest.MonkeyPatch, *, is_batched: bool
) -> None:
    monkeypatch.setattr(threads, "_BACK_S", 0.2)  # what comes, comes within it
    condition = threading.Condition()
    member = TableMember(lock=condition)
    member.assign(WHOLE)
    is_slow, has_come = threading.Event(), threading.Event()

    def handler(record: Record) -> None:
        if record.key == b"slow":
            is_slow.set()
            assert has_come.wait(WAIT_S)
        elif record.key == b"next":
            has_come.set()

    place = Workplace(member.core.lanes, condition, 2, lambda: None, 9, "test")
    executor: ThreadedExecutor = ThreadExecutor(place, handler)
    if is_batched:
        executor = BatchThreadExecutor(place, lambda records: handler(records[0]), 9)
    executor._cost_s = 1e-6  # so far they were quick
    executor.start()
    for key, event in ((b"slow", is_slow), (b"next", has_come)):
        with condition:
            member.produce(key)
        executor.offered()
        assert event.wait(WAIT_S)
    executor.stop()


def test_a_pause_stops_a_chunk_and_what_is_left_of_it_is_taken_back() -> None:
    member = TableMember()
    member.assign(WHOLE)
    place = Workplace(member.core.lanes, threading.Condition(), 1, lambda: None, 1, "test")
    done: list[int] = []

    def handler(record: Record) -> None:
        done.append(record.offset)
        if record.offset == 2:
            executor.pause(True)

    executor = InlineExecutor(place, handler)
    executor.start()
    executor._cost_s = 1e-7  # so that a chunk is large
    member.produce(*[b"k%d" % number for number in range(9)])
    executor.drive(0)
    assert done == [0, 1, 2]
    member.assign(LOWER)  # nobody has what is given up now
    assert not member.core.lanes.given_up
    executor.pause(False)
    executor.drive(0)
    member.tell(events.Tick())
    assert set(done[3:]) == {n for n in range(3, 9) if key_hash(b"k%d" % n) in LOWER}


class Floor:
    """Eight threads that take one record at a time, and the member whose records they are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            record_threads, "CHUNK_S", 1e-9
        )  # no handler is quick enough for chunks
        self.woken = threading.Event()
        condition = threading.Condition()
        self.member = TableMember(lock=condition)
        self.produced = 0
        self.done: list[Record] = []
        self.busy: set[bytes | None] = set()
        self.twice: list[Record] = []
        place = Workplace(self.member.core.lanes, condition, 8, self.woken.set, 1, "test")
        self.executor = ThreadExecutor(place, self.handle)
        self.executor.start()

    def handle(self, record: Record) -> None:
        """Notice it if somebody else is at its key, and let others have a turn meanwhile."""
        if record.key in self.busy:
            self.twice.append(record)
        self.busy.add(record.key)
        os.sched_yield()
        self.busy.discard(record.key)
        self.done.append(record)

    def produce(self, keys: Sequence[bytes]) -> None:
        """Take in records of these keys, whatever the threads are at."""
        self.produced += len(keys)
        self.member.produce(*keys)
        self.executor.offered()

    def end(self) -> None:
        """Let all be done; each once, and each key in order."""
        until_s = monotonic() + WAIT_S
        while len(self.done) < self.produced:
            assert monotonic() < until_s, f"{len(self.done)} of {self.produced} are done"
            self.woken.wait(TICK_S)
            self.woken.clear()
            self.member.after(100)
            self.member.fetch()  # also of streams that have begun since
            self.executor.offered()
        self.executor.stop()
        self.member.tell(events.Tick())
        assert self.twice == []
        assert sorted(record.offset for record in self.done) == list(range(self.produced))
        for key in {record.key for record in self.done}:
            offsets = [record.offset for record in self.done if record.key == key]
            assert offsets == sorted(offsets)
        assert not self.member.core.lanes.in_use
        self.member.core.check()


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("keys", [1, 7, 1_000])
def test_threads_that_take_without_the_lock_keep_the_order_and_leave_nothing(
    keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    floor, rng = Floor(monkeypatch), Random(keys)
    floor.member.assign(WHOLE)
    for _ in range(200):
        floor.produce([b"%d" % rng.randrange(keys) for _ in range(10)])
    floor.end()


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("seed", range(5))
def test_what_is_given_up_while_threads_take_without_the_lock_is_done_once_all_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    floor, rng = Floor(monkeypatch), Random(seed)
    floor.member.assign(WHOLE)
    for _ in range(20):
        floor.produce([b"%d" % rng.randrange(40) for _ in range(30)])
        floor.member.assign(LOWER)
        floor.member.assign(WHOLE)
    floor.produce([b"1"])
    floor.end()


class Door(threading.Condition):
    """A lock that tells when somebody comes for it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def __enter__(self) -> bool:
        self.asked.set()
        return super().__enter__()


def test_what_waits_behind_a_record_gets_another_thread_while_the_first_one_goes_on() -> None:
    door = Door()
    member = TableMember(lock=door)
    member.assign(WHOLE)
    at_work = {offset: threading.Event() for offset in range(3)}
    may_end = {offset: threading.Event() for offset in range(3)}

    def handler(record: Record) -> None:
        at_work[record.offset].set()
        door.asked.set()  # it comes for nothing
        assert may_end[record.offset].wait(WAIT_S)

    place = Workplace(member.core.lanes, door, 2, lambda: None, 9, "test")
    executor = ThreadExecutor(place, handler)
    member.produce(b"a")
    executor.start()
    assert at_work[0].wait(WAIT_S)
    with door:  # the other thread is idle, and hears of nothing
        member.produce(b"a", b"b")
        door.asked.clear()
        may_end[0].set()
        assert door.asked.wait(WAIT_S)
    assert at_work[1].wait(WAIT_S)
    assert at_work[2].wait(WAIT_S)
    may_end[1].set()
    may_end[2].set()
    executor.stop()


def test_a_turn_ends_soon_after_quick_records_have_become_slow() -> None:
    condition = threading.Condition()
    member, now_s = TableMember(lock=condition), [0.0]
    member.assign(WHOLE)
    done: list[bytes | None] = []

    def handler(record: Record) -> None:
        done.append(record.key)
        now_s[0] += 1.0

    place = Workplace(
        member.core.lanes, condition, 1, lambda: None, 999, "test", clock=lambda: now_s[0]
    )
    executor = InlineExecutor(place, handler)
    executor.start()
    executor._cost_s = 1e-5  # so far they were quick
    member.produce(*[b"a"] * 99, *[b"b"] * 99)
    executor.drive(0)
    changes = [number for number in range(1, 198) if done[number] != done[number - 1]]
    assert max(map(sub, changes[1:], changes)) <= record_threads._LOOK_RECORDS_MAX
    assert changes[3:90] == list(range(changes[3], changes[3] + 87)), "they are known to be slow"
