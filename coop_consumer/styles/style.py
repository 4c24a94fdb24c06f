"""A style: how a worker's methods are called, and what runs its records.

In: calls of the worker's methods, from any thread. Out: returns when they are done; an executor for
the worker's records.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from time import perf_counter
from typing import TYPE_CHECKING, Any

from coop_consumer import forks
from coop_consumer.core.failure import describe
from coop_consumer.errors import CoopConsumerError
from coop_consumer.executors.workplace import PoolExecutor, Workplace
from coop_consumer.log_events import LogEvent
from coop_consumer.log_filter import whatever_a_log_does
from coop_consumer.signals import Latch
from coop_consumer.worker import Worker

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition
    from coop_consumer.config import Config
    from coop_consumer.core.lanes import KeyLanes
    from coop_consumer.ops.record_spans import RecordSpans

log = logging.getLogger(__name__)


class Style(ABC):
    """How a worker is called. By default its methods run on the thread that calls them.

    Args:
        worker: The worker.
        config: Its pool's configuration.

    Attributes:
        fail: Ends the member by an error, in order; its pool puts it here.
        die: Ends it by an error at once; its pool puts it here, too.
    """

    def __init__(self, worker: Worker, config: Config) -> None:
        self.worker = worker
        self.name = f"coop-worker-{config.group_id}"
        self._config = config
        self.fail: Callable[[CoopConsumerError], None] = self._report
        self.die: Callable[[BaseException], None] = self._report
        self._ended: Latch | None = None
        self._inside: list[int] = []  # threads on which a method of the worker is called now
        self._runs: PoolExecutor | None = None
        self._is_fork = False
        forks.watch(self)

    figures = ""
    """The directory in which child processes keep figures of their own; "": there are none."""

    def shut_in_fork(self) -> None:
        """This is a forked child: it ends once it comes back from a call."""
        self._is_fork = True

    def start(self) -> None:  # noqa: B027 - threads need nothing
        """Make ready for calls, and for an executor."""

    def executor(
        self,
        lanes: KeyLanes,
        condition: threading.Condition,
        *,
        workers: int,
        wake: Callable[[], None],
        clock: Callable[[], float] = perf_counter,
        spans: RecordSpans | None = None,
    ) -> PoolExecutor:
        """The executor of its records, with so many workers; see `Workplace`."""
        wake_after = self._config.commit_at_records
        place = Workplace(
            lanes,
            condition,
            workers,
            wake,
            wake_after,
            name=self.name,
            clock=clock,
            died=self._died,
            spans=spans,
        )
        self._runs = self._executor(place)
        return self._runs

    def _died(self, error: BaseException) -> None:
        """Note that the records' executor has ended, so that its records would never finish."""
        with whatever_a_log_does():
            extra = self._extra(LogEvent.EXECUTOR_FAILED, error)
            told = (
                "%s: the executor of handlers has failed (%s), and the member ends. What is not "
                "committed comes again, and nothing is lost"
            )
            log.error(told, self.name, describe(error), extra=extra)
        self.die(error)

    def _report(self, error: BaseException) -> None:
        """Report what ends the member; without a pool nobody else would."""
        log.error("%s", error, extra=self._extra(LogEvent.MEMBER_FAILED, error))

    def _extra(self, event: LogEvent, error: BaseException | None = None) -> dict[str, object]:
        return event.extra(group=self._config.group_id, error=error)

    @abstractmethod
    def _executor(self, place: Workplace) -> PoolExecutor: ...

    def call(self, method: Callable[..., Any], *arguments: object) -> None:
        """Call a method of the worker, from any thread; returns when it is done."""
        here = threading.get_ident()
        self._inside.append(here)
        try:
            self._call(method, *arguments)
        except BaseException as error:
            self._end_fork(error)
            raise
        finally:
            self._inside.remove(here)
        self._end_fork(None)

    def _end_fork(self, error: BaseException | None) -> None:
        """A method of the worker is over: if this is a forked child, that is the child's end."""
        if self._is_fork:
            forks.end(self.name, error)

    def _call(self, method: Callable[..., Any], *arguments: object) -> None:
        method(*arguments)

    def await_end(self, ended: Future[Any], timeout_s: float | None) -> None:
        """Wait until the member has ended, but no longer than so many seconds."""
        if self._ended is None:
            self._ended = Latch(ended)
        self._ended.wait(timeout_s)

    def is_inside(self) -> bool:
        """Whether the worker's own code is the caller: there, waiting for the end never ends."""
        return threading.get_ident() in self._inside or (
            self._runs is not None and self._runs.runs_here()
        )

    def end(self) -> None:  # noqa: B027 - as above
        """There are no more calls."""

    # ---- what a member calls, on threads of its own --------------------------------------------

    def flush(self) -> None:
        """`Worker.flush`."""
        self.call(self.worker.flush)

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """`Worker.on_ranges_assigned`."""
        self.call(self.worker.on_ranges_assigned, tp, ranges)

    def on_ranges_revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """`Worker.on_ranges_revoked`."""
        self.call(self.worker.on_ranges_revoked, tp, ranges)

    def on_ranges_lost(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """`Worker.on_ranges_lost`."""
        self.call(self.worker.on_ranges_lost, tp, ranges)
