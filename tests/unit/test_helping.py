"""The member's own thread works off quick records; if one of them keeps it, another takes over."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from random import Random

import pytest

from assignors import WHOLE
from coop_consumer.core import events
from coop_consumer.core.record import Record
from coop_consumer.executors import BatchThreadExecutor, ThreadExecutor, Workplace, threads
from coop_consumer.executors.threads import Threads
from tests.journal import WAIT_S
from tests.unit.core_member import TableMember

Handler = Callable[[Record], object]


class Shop:
    """A member whose thread produces its records, sees to the member, and helps.

    Attributes:
        leaders: Every thread that was the member's.
        followed: Set when one of them was replaced.
        closed: Set when all is done.
        by: Which thread processed which record.
        crowd: How many handlers ran at the same time, at most.
    """

    def __init__(
        self,
        handler: Handler,
        batches: Iterable[Iterable[bytes]],
        *,
        workers: int,
        is_batched: bool,
    ) -> None:
        self.condition = threading.Condition()
        self.member = TableMember(lock=self.condition)
        self.member.assign(WHOLE)
        self.woken = threading.Event()
        self.followed = threading.Event()
        self.closed = threading.Event()
        self.leaders: list[threading.Thread] = []
        self.by: dict[int, threading.Thread] = {}
        self.crowd = 0
        self._handler = handler
        self._running: set[int] = set()
        self._batches = deque(batches)
        self._produced = 0
        place = Workplace(
            self.member.core.lanes, self.condition, workers, self.woken.set, 9, "worker"
        )
        self.executor: Threads = ThreadExecutor(place, self._handle)
        if is_batched:
            self.executor = BatchThreadExecutor(place, lambda rs: [self._handle(r) for r in rs], 9)
        self.executor._cost_s = 1e-6  # so far they were quick
        self.executor.start()
        while self.executor._idle < workers:
            os.sched_yield()

    def _handle(self, record: Record) -> None:
        self._running.add(record.offset)
        self.crowd = max(self.crowd, len(self._running))
        try:
            self._handler(record)
        finally:
            self._running.discard(record.offset)
            self.by[record.offset] = threading.current_thread()

    def open(self) -> None:
        """Let all be produced and processed."""
        self._begin_thread()
        assert self.closed.wait(WAIT_S)
        assert sorted(self.by) == list(range(self._produced)), "each is processed once"
        self.member.tell(events.Tick())
        self.member.core.check()
        assert not self.member.core.lanes.in_use

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
            if not self.executor.help(self.hand_over):
                return
            self.executor.offered()
        self.executor.stop()
        self.closed.set()

    def hand_over(self) -> None:
        """Let another thread lead."""
        self.followed.set()
        self._begin_thread()

    def _begin_thread(self) -> None:
        threading.Thread(target=self._lead, name="leader").start()


both = pytest.mark.parametrize("is_batched", [False, True])


@both
def test_quick_work_is_done_on_the_members_thread(
    monkeypatch: pytest.MonkeyPatch, *, is_batched: bool
) -> None:
    monkeypatch.setattr(threads, "_BACK_S", WAIT_S)  # however long the machine stands still
    monkeypatch.setattr(threads, "_HELP_S", WAIT_S)
    batches = [[b"%d" % n for n in range(50)]] * 20
    shop = Shop(lambda record: record.value, batches, workers=4, is_batched=is_batched)
    shop.open()
    assert set(shop.by.values()) == set(shop.leaders)
    assert len(shop.leaders) == 1


@both
def test_a_handler_that_keeps_the_members_thread_keeps_nothing_but_its_key(
    *, is_batched: bool
) -> None:
    go_on = threading.Event()

    def handler(record: Record) -> None:
        if record.key == b"slow":
            assert go_on.wait(WAIT_S), "the member stands still"
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
            assert go_on.wait(WAIT_S)
        elif record.key == b"look":
            seen.append(shop.executor.stack(slow[0]))
            go_on.set()

    shop = Shop(handler, [[b"slow"], [b"look"]], workers=2, is_batched=False)
    shop.open()
    assert "go_on.wait" in seen[0]
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
            shop.followed.clear()
            if threading.current_thread() is shop.leaders[-1]:
                assert shop.followed.wait(WAIT_S), "nobody follows"
            for _ in range(50):
                os.sched_yield()

    batches = [[b"%d" % rng.randrange(40) for _ in range(30)] for _ in range(60)]
    shop = Shop(handler, batches, workers=workers, is_batched=is_batched)
    shop.open()
    assert shop.crowd <= workers
    assert len(shop.leaders) >= 2


def test_while_the_executor_is_paused_the_members_thread_processes_nothing() -> None:
    shop = Shop(lambda record: record.value, [], workers=1, is_batched=False)
    shop.member.produce(b"a")
    shop.executor.pause(True)
    assert shop.executor.help(shop.hand_over)
    assert not shop.by
    shop.executor.pause(False)
    assert shop.executor.help(shop.hand_over)
    assert list(shop.by) == [0]
    shop.executor.stop()
