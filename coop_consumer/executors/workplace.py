"""What an executor gets to work with, and what all executors do."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, cast

from coop_consumer import forks
from coop_consumer.core.lanes import READY_TOGETHER
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from coop_consumer.core.lane import Entry
    from coop_consumer.core.lanes import KeyLanes
    from coop_consumer.ops.record_spans import RecordSpans


log = logging.getLogger(__name__)


class ChildError(Exception):
    """An error that a worker's method raised in a child, as text."""


class ChildDiedError(Exception):
    """A child has ended without being asked."""


def _report(error: BaseException) -> None:
    extra = LogEvent.EXECUTOR_FAILED.extra(error=error)
    told = (
        "what runs handlers has failed, and the member ends. What is not committed comes again, "
        "and nothing is lost. Report this defect, with its traceback"
    )
    log.error(told, exc_info=error, extra=extra)


@dataclass(frozen=True, slots=True)
class Workplace:
    """A member's lanes, and how to reach the member.

    Attributes:
        lanes: The lanes. Their lock must be `condition`.
        condition: Guards the lanes; idle threads wait on it.
        workers: How many records, or batches, are processed at a time, at first.
        wake: Called without the lock when the member should take in what has ended.
        wake_after: How many finished records are worth a wake-up.
        name: Names threads.
        clock: Seconds, to tell how long handlers take.
        died: Called when a thread or loop that runs handlers ends by an error that no handler
            raised. The member must end, too: nobody runs what was running.
        spans: Makes spans of records; None: nobody traces them.
    """

    lanes: KeyLanes
    condition: threading.Condition
    workers: int
    wake: Callable[[], None]
    wake_after: int
    name: str
    clock: Callable[[], float] = perf_counter
    died: Callable[[BaseException], None] = _report
    spans: RecordSpans | None = None


class OnLanes(ABC):
    """The common part of executors that run handlers by themselves; a fork runs none."""

    ready_min = READY_TOGETHER
    """See `KeyLanes`."""

    def __init__(self, place: Workplace) -> None:
        self._lanes = place.lanes
        self._lanes.ready_min = self.ready_min
        self._lanes.work.workers = place.workers
        self._lanes.work.running_s = self._running_s
        self._condition = place.condition
        self._name = place.name
        self._wake = place.wake
        self._wake_after = place.wake_after
        self._clock = place.clock
        self._died = place.died
        self._paused = False
        self._stopping = False
        self._is_fork = False
        forks.watch(self)

    @abstractmethod
    def _look_soon(self) -> None:
        """Have the lanes looked at: something may be ready, or nothing may begin any more."""

    @abstractmethod
    def _running_s(self) -> float:
        """See `WorkTime`; handlers that nobody listens to any more do not count."""

    def help(self, _: Callable[[], None], __: Callable[[], None]) -> bool:
        """See `Executor`; the member's thread is none of the workers."""
        return True

    def pause(self, paused: bool) -> None:
        """Start no further record (the group may have given our ranges away), or go on."""
        if paused != self._paused:
            self._paused = paused
            self._look_soon()

    def serve(self, lanes: KeyLanes, wake: Callable[[], None]) -> None:
        """Go on with the lanes of the member's next run, under the same lock, once one is over."""
        with self._condition:
            lanes.work.workers = self._lanes.work.workers
            lanes.work.running_s = self._running_s
            self._lanes, self._wake = lanes, wake
            lanes.ready_min = self.ready_min
        self._look_soon()

    def shut_in_fork(self) -> None:
        """Only the thread that forked is here: it begins nothing, and ends after its handler."""
        self._is_fork = self._paused = True
        self._condition = cast("threading.Condition", forks.Ending(self._name))

    def _live(self, work: Callable[..., None], *given: object) -> None:
        """Work until the end, or until an error that no handler raised."""
        try:
            work(*given)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the member ends by it
            self._died(error)

    def _end_fork(self, error: BaseException) -> None:
        """A handler has raised: if this is a forked child, that is the child's end."""
        if self._is_fork:
            forks.end(self._name, error)


class ConditionExecutor(OnLanes):
    """The common part of executors whose threads wait on the condition for work."""

    _threads = 0  # that were ever started

    def _look_soon(self) -> None:
        with self._condition:
            self._condition.notify_all()

    def runs_here(self) -> bool:
        """See `PoolExecutor`; the handlers run elsewhere."""
        return False


class Executor(Protocol):
    """An executor as a member sees it: it runs the lanes."""

    @property
    def waits(self) -> bool:
        """Whether handlers wait for something, and want to go on at once when it has come."""
        ...

    def offered(self) -> None:
        """Lanes may have become ready."""

    def help(self, hand_over: Callable[[], None], breathe: Callable[[], None]) -> bool:
        """Run some handlers on the member's own thread, if that is best.

        Args:
            hand_over: Has another thread go on with the member.
            breathe: Lets other threads run; called between two pieces of work.

        Returns:
            Whether the caller is still the member's thread.
        """
        ...

    def pause(self, paused: bool) -> None:
        """Start no further record, or go on. A child process goes on with what it has: 40 ms."""

    def stop(self) -> None:
        """End once running records have ended."""

    def stack(self, entry: Entry) -> str:
        """The stack of the handler that runs it; "" if it cannot be seen."""

    def abandon(self, entry: Entry) -> None:
        """Ignore the handler that runs it from now on, and let another worker take its place."""


class PoolExecutor(Executor, Protocol):
    """An executor as a pool sees it: the pool starts it, for one run after the other."""

    def start(self) -> None:
        """Begin."""

    def runs_here(self) -> bool:
        """Whether this thread runs handlers now, so that it may call from within one."""
        ...

    def resize(self, workers: int) -> None:
        """Process this many records, or batches, at a time from now on; running ones end first."""

    def serve(self, lanes: KeyLanes, wake: Callable[[], None]) -> None:
        """Go on with the lanes of the member's next run, under the same lock, once one is over."""
