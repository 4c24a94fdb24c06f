"""What an executor is given to work with, and what it does, whatever its style."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, cast

from coop_consumer import forks
from coop_consumer.core.lanes import READY_TOGETHER

if TYPE_CHECKING:
    from coop_consumer.core.lane import Entry
    from coop_consumer.core.lanes import KeyLanes


log = logging.getLogger(__name__)


def _report(error: BaseException) -> None:
    log.error("what runs handlers has ended", exc_info=error)


@dataclass(frozen=True, slots=True)
class Workplace:
    """A member's lanes, and how to reach the member.

    Attributes:
        lanes: The lanes. Their lock must be `condition`.
        condition: Guards the lanes; idle threads wait on it.
        workers: How many records, or batches, are processed at a time, at first.
        wake: Called without the lock when the member should take in what has ended.
        wake_after: So many finished records are worth a wake-up.
        name: Names threads.
        clock: Seconds, to tell how long handlers take.
        died: Called when what runs handlers ends by an error that no handler raised. The member
            must end by it: what was running is in nobody's hands.
    """

    lanes: KeyLanes
    condition: threading.Condition
    workers: int
    wake: Callable[[], None]
    wake_after: int
    name: str
    clock: Callable[[], float] = perf_counter
    died: Callable[[BaseException], None] = _report


class EndsInFork:
    """What executors have in common that run handlers in this process: a forked child runs none."""

    def __init__(self, place: Workplace) -> None:
        self._condition = place.condition
        self._name = place.name
        self._died = place.died
        self._paused = False
        self._is_fork = False
        forks.watch(self)

    def shut_in_fork(self) -> None:
        """Only the thread that forked is here: it begins nothing, and ends once it comes back."""
        self._is_fork = self._paused = True
        self._condition = cast("threading.Condition", forks.Ending(self._name))

    def _live(self, work: Callable[..., None], *given: object) -> None:
        """Work until the end, or until something raises that no handler has raised."""
        try:
            work(*given)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the member ends by it
            self._died(error)

    def _end_fork(self, error: BaseException) -> None:
        """A handler has raised: if this is a forked child, that is the child's end."""
        if self._is_fork:
            forks.end(self._name, error)


class ConditionExecutor(EndsInFork):
    """What executors have in common whose threads wait on the condition until there is work."""

    ready_min = READY_TOGETHER
    """See `KeyLanes`."""

    def __init__(self, place: Workplace) -> None:
        self._lanes = place.lanes
        self._lanes.ready_min = self.ready_min
        super().__init__(place)
        self._wake = place.wake
        self._wake_after = place.wake_after
        self._clock = place.clock
        self._threads = 0  # that were ever started
        self._stopping = False

    def runs_here(self) -> bool:
        """See `PoolExecutor`; the handlers run elsewhere."""
        return False

    def serve(self, lanes: KeyLanes, wake: Callable[[], None]) -> None:
        """Go on with the lanes of the member's next run, under the same lock, once one is over."""
        with self._condition:
            self._lanes, self._wake = lanes, wake
            lanes.ready_min = self.ready_min
            self._condition.notify_all()

    def help(self, _: Callable[[], None]) -> bool:
        """See `Executor`; the member's thread is none of the workers."""
        return True

    def pause(self, paused: bool) -> None:
        """Start no further record (the group may have given our ranges away), or go on."""
        if paused != self._paused:
            with self._condition:
                self._paused = paused
                self._condition.notify_all()


class Executor(Protocol):
    """What runs the lanes, as a member sees it."""

    @property
    def waits(self) -> bool:
        """Whether handlers wait for something, and want to go on at once when it has come."""
        ...

    def offered(self) -> None:
        """Lanes may have become ready."""

    def help(self, hand_over: Callable[[], None]) -> bool:
        """Do some of the work on the member's own thread, if that is best.

        Args:
            hand_over: Has another thread go on with the member.

        Returns:
            Whether the caller is still the member's thread.
        """
        ...

    def pause(self, paused: bool) -> None:
        """Start no further record, or go on. What a child process was sent is started: 40 ms."""

    def stop(self) -> None:
        """End once running records have ended."""

    def stack(self, entry: Entry) -> str:
        """What the handler that runs it is doing now; "" if that cannot be seen."""

    def abandon(self, entry: Entry) -> None:
        """Listen to the handler that runs it no more, and let another worker take its place."""


class PoolExecutor(Executor, Protocol):
    """The same, as a pool sees it, which starts it and has it serve one run after the other."""

    def start(self) -> None:
        """Begin."""

    def runs_here(self) -> bool:
        """Whether this thread is one that runs handlers now, and so perhaps calls from one."""
        ...

    def resize(self, workers: int) -> None:
        """Process so many records, or batches, at a time from now on; what runs is finished."""

    def serve(self, lanes: KeyLanes, wake: Callable[[], None]) -> None:
        """Go on with the lanes of the member's next run, under the same lock, once one is over."""
