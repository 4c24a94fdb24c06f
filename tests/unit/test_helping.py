"""The member's own thread works off quick records; if one of them keeps it, another takes over."""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from random import Random

import pytest

from assignors import WHOLE
from coop_consumer.core import events
from coop_consumer.core.failure import Failure
from coop_consumer.core.lane import Lane
from coop_consumer.core.record import Record
from coop_consumer.executors import BatchThreadExecutor, ThreadExecutor, Workplace
from coop_consumer.executors.threads import ThreadedExecutor
from tests.support.journal import WAIT_S
from tests.support.moved_clock import MovedClock
from tests.unit.core_member import T0, TableMember

Handler = Callable[[Record], object]


class Shop:
    """A member whose thread produces its records, sees to the member, and helps.

    A handler takes no time unless it moves the clock.

    Attributes:
        clock: The executor's.
        leaders: Every thread that was the member's.
        followed: Set when one of them was replaced.
        closed: Set when all is done.
        by: Which thread processed which record.
        straight: What was run without anything being filed.
        of_key: What was processed of each key, in that order.
        crowd: How many handlers ran at the same time, at most.
    """

    def __init__(
        self,
        handler: Handler,
        batches: Iterable[Iterable[bytes]],
        *,
        workers: int,
        is_batched: bool = False,
    ) -> None:
        self.clock = MovedClock()
        self.member = TableMember(lock=self.clock)
        self.member.assign(WHOLE)
        self.woken = threading.Event()
        self.followed = threading.Event()
        self.closed = threading.Event()
        self.leaders: list[threading.Thread] = []
        self.breaths = 0
        self.by: dict[int, threading.Thread] = {}
        self.straight: set[int] = set()
        self.of_key: defaultdict[bytes | None, list[int]] = defaultdict(list)
        self.crowd = 0
        self._handler = handler
        self._workers = workers
        self._running: set[int] = set()
        self._batches = deque(batches)
        self._produced = 0
        place = Workplace(
            self.member.core.lanes,
            self.clock,
            workers,
            self.woken.set,
            wake_after=9,
            name="worker",
            clock=self.clock.look,
        )
        self.executor: ThreadedExecutor = ThreadExecutor(place, self._handle)
        if is_batched:
            self.executor = BatchThreadExecutor(place, lambda rs: [self._handle(r) for r in rs], 9)
        self.executor._cost_s = 1e-6  # so far they were quick
        self.executor.start()
        while self.executor._idle < workers:
            os.sched_yield()

    def _handle(self, record: Record) -> None:
        if not self.member.core.lanes.tables.filed(T0):
            self.straight.add(record.offset)
        self._running.add(record.offset)
        self.crowd = max(self.crowd, len(self._running))
        try:
            self._handler(record)
        finally:
            self._running.discard(record.offset)
        self.of_key[record.key].append(record.offset)
        self.by[record.offset] = threading.current_thread()

    def open(self) -> None:
        """Let all be produced and processed."""
        self._begin_thread()
        assert self.closed.wait(WAIT_S)
        self.check(self._produced)
        self.member.tell(events.Tick())
        self.member.core.check()
        assert not self.member.core.lanes.in_use

    def check(self, count: int) -> None:
        """So many records were processed once, in order by key."""
        offsets = sorted(offset for of_key in self.of_key.values() for offset in of_key)
        assert offsets == list(range(count)), "each is processed once"
        assert all(offsets == sorted(offsets) for offsets in self.of_key.values()), "in order"

    def _lead(self) -> None:
        self.leaders.append(threading.current_thread())
        while self._batches or len(self.by) < self._produced:
            if self._batches:
                keys = list(self._batches.popleft())
                self._produced += len(keys)
                self.member.produce(*keys)
            else:
                self.woken.wait(0.01)
                self.woken.clear()
                self.member.after(100)
            self.executor._cost_s = 1e-6  # or no leader would dare to help again after a slow one
            if not self.executor.help(self.hand_over, self.breathe):
                return
            self.executor.offered()
        self.executor.stop()
        self.closed.set()

    def help(self, *keys: bytes) -> None:
        """Produce records, and work off what is ready on this thread, as the member's."""
        self.member.produce(*keys)
        while self.executor._idle < self._workers:  # one has been called to watch
            os.sched_yield()
        assert self.executor.help(self.hand_over, self.breathe)

    def breathe(self) -> None:
        """Let others run, if they could."""
        self.breaths += 1

    def hand_over(self) -> None:
        """Let another thread lead."""
        self.followed.set()
        self._begin_thread()

    def _begin_thread(self) -> None:
        threading.Thread(target=self._lead, name="leader").start()


both = pytest.mark.parametrize("is_batched", [False, True])


@both
def test_quick_work_is_done_on_the_members_thread(*, is_batched: bool) -> None:
    batches = [[b"%d" % n for n in range(50)]] * 20
    shop = Shop(lambda record: record.value, batches, workers=4, is_batched=is_batched)
    shop.open()
    assert set(shop.by.values()) == set(shop.leaders)
    assert len(shop.leaders) == 1
    # Where it may (not the first, of whose kind nothing is known) it does not even file them.
    assert shop.straight == (set() if is_batched else set(range(50, 1_000)))


@both
def test_a_handler_that_keeps_the_members_thread_keeps_nothing_but_its_key(
    *, is_batched: bool
) -> None:
    go_on = threading.Event()

    def handler(record: Record) -> None:
        if record.key == b"slow":
            assert shop.clock.move_until(go_on.is_set), "the member stands still"
        elif record.key == b"last":
            go_on.set()

    batches = [[b"%d" % n for n in range(9)], [b"slow"], [b"next"], [b"last"]]
    shop = Shop(handler, batches, workers=2, is_batched=is_batched)
    shop.open()
    assert shop.followed.is_set()
    assert len(shop.leaders) >= 2
    assert shop.crowd <= 2


def test_who_is_kept_by_a_handler_is_a_worker_from_then_on_and_can_be_seen() -> None:
    go_on, slow, seen = threading.Event(), list[Record](), list[str]()

    def handler(record: Record) -> None:
        if record.key == b"slow":
            slow.append(record)
            assert shop.clock.move_until(go_on.is_set)
        elif record.key == b"look":
            seen.append(shop.executor.stack(slow[0]))
            go_on.set()

    shop = Shop(handler, [[b"slow"], [b"look"]], workers=2, is_batched=False)
    shop.open()
    assert "move_until(go_on.is_set)" in seen[0]
    assert shop.leaders[0].name.startswith("worker-")


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("workers", [1, 2, 5])
@both
def test_no_more_handlers_run_than_there_are_workers_however_often_the_thread_changes(
    workers: int, *, is_batched: bool
) -> None:
    rng = Random(workers)

    def handler(record: Record) -> None:
        if record.offset == 0 or rng.random() < 0.01:
            leader = shop.leaders[-1]
            if threading.current_thread() is leader:
                assert shop.clock.move_until(lambda: shop.leaders[-1] is not leader)
            for _ in range(50):
                os.sched_yield()

    batches = [[b"%d" % rng.randrange(40) for _ in range(30)] for _ in range(60)]
    shop = Shop(handler, batches, workers=workers, is_batched=is_batched)
    shop.open()
    assert shop.crowd <= workers
    assert len(shop.leaders) >= 2


def test_what_comes_behind_a_record_that_keeps_the_members_thread_waits_for_it_alone() -> None:
    go_on = threading.Event()

    def handler(record: Record) -> None:
        if record.key == b"slow" and not go_on.is_set():
            assert shop.clock.move_until(go_on.is_set), "others wait for it"
        elif record.key == b"last":
            go_on.set()

    batches = [[b"first"], [b"a", b"slow", b"b", b"slow", b"a"], [b"a", b"slow", b"last", b"b"]]
    shop = Shop(handler, batches, workers=2)
    shop.open()
    assert shop.of_key[b"slow"] == [2, 4, 7]


def test_a_record_that_fails_on_the_members_thread_is_tried_again_before_the_rest_of_its_key() -> (
    None
):
    attempts: list[tuple[int, int]] = []

    def handler(record: Record) -> None:
        attempts.append((record.offset, record.attempt))
        if record.offset == 2 and record.attempt < 3:
            raise ValueError(record.key)

    shop = Shop(handler, [], workers=1)
    shop.help(b"first")
    shop.help(b"a", b"bad", b"b", b"bad", b"a")
    assert shop.straight == {1, 2}
    while len(attempts) < 8:
        shop.member.after(1_000)
        shop.help()
    shop.check(6)
    assert [tried for tried in attempts if tried[0] in (2, 4)] == [(2, 1), (2, 2), (2, 3), (4, 1)]
    shop.executor.stop()


def test_a_pause_ends_what_the_members_thread_is_at_and_the_rest_can_be_given_away() -> None:
    shop = Shop(lambda record: shop.executor.pause(record.key == b"stop"), [], workers=1)
    shop.help(b"first")
    shop.help(b"a", b"stop", b"b", b"stop")
    shop.check(3)
    shop.executor.pause(False)
    shop.help()
    shop.check(5)
    assert shop.straight == {1, 2, 3, 4}
    shop.executor.pause(False)
    shop.help(b"stop", b"b")
    shop.member.assign()
    assert not shop.member.core.lanes.in_use
    shop.member.core.check()
    shop.executor.stop()


def test_who_keeps_the_members_thread_too_long_counts_for_nothing_once_abandoned() -> None:
    go_on = threading.Event()
    shop = Shop(lambda record: go_on.wait(WAIT_S) if record.key == b"slow" else None, [], workers=1)
    lanes = shop.member.core.lanes
    shop.help(b"first")
    shop.member.produce(b"a", b"slow", b"slow")
    shop.hand_over = shop.followed.set  # type: ignore[method-assign]
    thread = threading.Thread(target=shop.executor.help, args=(shop.hand_over, shop.breathe))
    thread.start()
    assert shop.clock.move_until(shop.followed.is_set)
    with shop.clock:
        lane = lanes.tables.of(T0)[b"slow"]
        assert isinstance(lane, Lane)
        assert lane.ahead is not None
        lanes.abandon(lane.ahead, lane.ahead, Failure("E", "too long"))
    go_on.set()
    shop.executor.stop()
    thread.join(WAIT_S)
    shop.member.tell(events.Tick())
    shop.member.core.check()
    assert sorted(shop.member.core.state.partitions[T0].tenures[0].pending) == [2, 3]


def test_a_machine_that_stands_still_while_a_thread_looks_leaves_no_handler_unwatched() -> None:
    """The thread finds the handler quick, and before it waits again much time has passed."""
    go_on, has_stood = threading.Event(), threading.Event()

    def stand_still() -> None:
        if threading.current_thread() not in (main, member):
            shop.clock.after_look = lambda: None
            shop.clock.move(9.0)
            has_stood.set()

    def handler(record: Record) -> None:
        if record.key == b"slow":
            shop.clock.after_look = stand_still
            assert shop.clock.move_until(has_stood.is_set, step_s=1e-4)
            assert go_on.wait(WAIT_S)

    shop = Shop(handler, [], workers=1)
    main = threading.current_thread()
    member = threading.Thread(target=lambda: shop.executor.help(shop.followed.set, shop.breathe))
    shop.help(b"first")
    shop.clock.move_until(lambda: shop.executor._guarded, step_s=0.0)
    shop.clock.move(0.004)  # of 5 ms after which the thread looks
    shop.member.produce(b"slow")
    member.start()
    assert has_stood.wait(WAIT_S)
    assert shop.clock.move_until(shop.followed.is_set)
    go_on.set()
    shop.executor.stop()
    member.join(WAIT_S)


def test_while_the_executor_is_paused_the_members_thread_processes_nothing() -> None:
    shop = Shop(lambda record: record.value, [], workers=1, is_batched=False)
    shop.member.produce(b"a")
    shop.executor.pause(True)
    assert shop.executor.help(shop.hand_over, shop.breathe)
    assert not shop.by
    shop.executor.pause(False)
    assert shop.executor.help(shop.hand_over, shop.breathe)
    assert list(shop.by) == [0]
    shop.executor.stop()


def test_between_two_pieces_of_work_other_threads_may_run() -> None:
    shop = Shop(lambda _: None, [], workers=1)
    shop.help(b"first")
    before = shop.breaths
    shop.help(b"a", b"b")
    assert shop.breaths > before
    shop.executor.stop()
