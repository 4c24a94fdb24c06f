"""An executor may itself end by an error: its member hears of it, and does not stand still.

An error that no handler has raised comes from outside: a program raises it in our thread
(`PyThreadState_SetAsyncExc`, as some libraries for time-outs do), or a log's handler raises.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from typing import NoReturn, cast
from unittest.mock import Mock

import pytest

from assignors import WHOLE
from coop_consumer.errors import CoopConsumerError
from coop_consumer.executors import (
    BatchThreadExecutor,
    EventLoopExecutor,
    PoolExecutor,
    ProcessExecutor,
    ThreadExecutor,
    Workplace,
)
from coop_consumer.executors.children import Child, Children
from coop_consumer.member.range_calls import RangeCallbacks, RangeCalls
from tests.support.journal import WAIT_S
from tests.unit.core_member import T0, TableMember


class LateError(Exception):
    """Raised where no handler is."""


def raise_late() -> NoReturn:
    raise LateError


def at_once(_: object) -> None: ...


async def soon(_: object) -> None: ...


class DeadChild:
    """Cannot be sent anything."""

    def __init__(self) -> None:
        self.work = self

    def send(self, _: object) -> NoReturn:
        raise LateError


class OneDeadChild:
    def __init__(self) -> None:
        self.each = [cast("Child", DeadChild())]


def threads(place: Workplace, _: asyncio.AbstractEventLoop) -> PoolExecutor:
    return ThreadExecutor(place, at_once)


def batches(place: Workplace, _: asyncio.AbstractEventLoop) -> PoolExecutor:
    return BatchThreadExecutor(place, at_once, 3)


def event_loop(place: Workplace, loop: asyncio.AbstractEventLoop) -> PoolExecutor:
    return EventLoopExecutor(place, soon, loop)


def processes(place: Workplace, _: asyncio.AbstractEventLoop) -> PoolExecutor:
    return ProcessExecutor(place, cast("Children", OneDeadChild()), 0)


@pytest.mark.parametrize("make", [threads, batches, event_loop, processes])
def test_a_member_hears_that_what_runs_its_handlers_has_ended(
    make: Callable[[Workplace, asyncio.AbstractEventLoop], PoolExecutor],
) -> None:
    condition, told = threading.Condition(), Future[BaseException]()
    member = TableMember(lock=condition)
    member.assign(WHOLE)
    member.produce(b"a")

    def died(error: BaseException) -> None:
        if not told.done():
            told.set_result(error)

    with closing(asyncio.new_event_loop()) as loop:
        loop.set_exception_handler(lambda *_: None)
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        place = Workplace(member.core.lanes, condition, 1, raise_late, 1, "test", died=died)
        make(place, loop).start()
        assert isinstance(told.result(WAIT_S), LateError)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


class Raising(logging.Handler):
    """A log's handler that fails."""

    def emit(self, _: logging.LogRecord) -> NoReturn:
        raise SystemExit


class Fails:
    def on_ranges_assigned(self, *_: object) -> NoReturn:
        raise OSError("no table")


def test_a_callback_that_fails_is_told_though_the_log_cannot_be_written() -> None:
    told, ended = Future[CoopConsumerError | None](), Future[CoopConsumerError | None]()
    calls = RangeCalls("billing", cast("RangeCallbacks", Fails()), None, ended)
    log, handler = logging.getLogger("coop_consumer"), Raising()
    log.addHandler(handler)
    try:
        calls.start(Mock())
        calls.assigned(T0, (WHOLE,), after=None, told=told.set_result)
        assert "OSError: no table" in str(told.result(WAIT_S))
        calls.end()
        calls.join()
    finally:
        log.removeHandler(handler)
