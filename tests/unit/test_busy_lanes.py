"""A key that never catches up: of what it has finished little is kept, and it stops nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from assignors import WHOLE
from coop_consumer.core import events
from coop_consumer.core.lane import TURN_MAX, Lane
from coop_consumer.core.record import Record
from coop_consumer.executors import (
    BatchThreadExecutor,
    EventLoopExecutor,
    InlineExecutor,
    PoolExecutor,
    ThreadExecutor,
    Workplace,
)
from tests.support.journal import WAIT_S
from tests.unit.core_member import T0, TableMember

RECORDS = 20 * TURN_MAX


class Spring:
    """A member whose key `hot` always has a record more when one of it is being processed.

    Attributes:
        kept_max: How many records its lane ever held, beside those that were to be done.
        done: Keys in the order in which they were processed.
    """

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.member = TableMember(lock=self.condition)
        self.member.assign(WHOLE)
        self.kept_max = 0
        self.done: list[bytes | None] = []
        self.is_dry = threading.Event()
        self.lanes = self.member.core.lanes
        self.place = Workplace(self.lanes, self.condition, 1, lambda: None, 9, "test")
        self.member.produce(b"hot", b"hot")

    def process(self, record: Record) -> None:
        """Handle one, while the next one comes; in the middle there is one of another key."""
        self.done.append(record.key)
        if len(self.done) < RECORDS:
            self.member.produce(b"other" if len(self.done) == RECORDS // 2 else b"hot")
        lane = self.lanes.tables.of(T0).get(b"hot")
        if isinstance(lane, Lane):
            self.kept_max = max(self.kept_max, len(lane.records) - 2)
        if len(self.done) == RECORDS + 1:
            self.is_dry.set()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs."""
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


def on_a_thread(spring: Spring, _: asyncio.AbstractEventLoop) -> PoolExecutor:
    return ThreadExecutor(spring.place, spring.process)


def in_batches(spring: Spring, _: asyncio.AbstractEventLoop) -> PoolExecutor:
    def process(records: object) -> None:
        assert isinstance(records, list)
        for record in records:
            spring.process(record)

    return BatchThreadExecutor(spring.place, process, 3)


def on_a_loop(spring: Spring, loop: asyncio.AbstractEventLoop) -> PoolExecutor:
    async def process(record: Record) -> None:
        spring.process(record)

    return EventLoopExecutor(spring.place, process, loop)


def inline(spring: Spring, _: asyncio.AbstractEventLoop) -> PoolExecutor:
    return InlineExecutor(spring.place, spring.process)


@pytest.mark.parametrize("style", [on_a_thread, in_batches, on_a_loop, inline])
def test_of_a_key_that_never_catches_up_little_is_kept_and_others_have_their_turn(
    style: Callable[[Spring, asyncio.AbstractEventLoop], PoolExecutor],
    loop: asyncio.AbstractEventLoop,
) -> None:
    spring = Spring()
    executor = style(spring, loop)
    executor.start()
    if isinstance(executor, InlineExecutor):
        executor.drive(0)
    assert spring.is_dry.wait(WAIT_S)
    executor.stop()
    spring.member.tell(events.Tick())
    assert spring.member.core.state.counters.finished == len(spring.done) == RECORDS + 1
    assert spring.kept_max <= TURN_MAX
    assert spring.done.index(b"other") - RECORDS // 2 <= TURN_MAX
    assert not spring.lanes.in_use
