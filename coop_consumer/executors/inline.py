"""The inline executors: the thread that waits for a pool's end runs everything.

In: lanes (under the lanes' lock), calls of the worker's other methods from any thread, a thread
that drives. Out: the same as of the thread executors; these have a single runner. While no thread
drives, nothing is processed, and calls wait. Upholds I4 with `KeyLanes`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from time import monotonic
from types import TracebackType
from typing import Any

from coop_consumer.executors.batch_threads import BatchThreadExecutor
from coop_consumer.executors.record_threads import ThreadExecutor
from coop_consumer.executors.threads import Runner, ThreadedExecutor


class Inline(ThreadedExecutor):
    """A single runner, for the thread that drives.

    Ctrl-C in a handler fails its record, as any exception does. `drive` raises it again.
    """

    _process: Callable[[Any], object]
    _new_context = staticmethod(copy_context)  # handlers see the variables of the driving thread

    def start(self) -> None:
        """Make the runner, for this thread until another one drives."""
        self._runner = Runner(threading.current_thread())
        self._runners.append(self._runner)
        self._calls: deque[Callable[[], None]] = deque()
        self._until_s: float | None = None
        self._interrupted: tuple[KeyboardInterrupt, TracebackType | None] | None = None
        self._drives = False
        self._process = self._noting(self._process)

    def stop(self) -> None:
        """Let `drive` return once no work is left."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def resize(self, workers: int) -> None:
        """Nothing changes: there is one thread, and it is the user's."""
        assert workers == 1, "one thread drives"

    def help(self, _: Callable[[], None], __: Callable[[], None]) -> bool:
        """See `Executor`; only the driving thread works."""
        return True

    def abandon(self, entry: object) -> None:
        """Never called: no thread could take its place, so a pool refuses such settings."""
        raise AssertionError(f"{entry} cannot be abandoned")

    def drive(self, timeout_s: float | None = None) -> None:
        """Process records, and make calls, on this thread, until `stop` or a time-out.

        Raises:
            KeyboardInterrupt: It came while a handler ran, or while there was nothing to do.
        """
        self._until_s = None if timeout_s is None else monotonic() + timeout_s
        self._runner.thread = threading.current_thread()
        self._drives = True
        try:
            self._drive()
        finally:
            self._drives = False

    def runs_here(self) -> bool:
        """See `PoolExecutor`; a signal handler must not drive what it has interrupted, either."""
        return self._drives and super().runs_here()

    def _drive(self) -> None:
        while self._next(self._runner):
            while self._calls:
                self._calls.popleft()()
            self._work_off(self._runner)
            if len(self._lanes.finished) >= self._wake_after:
                self._wake()
            if self._interrupted is not None:
                (error, traceback), self._interrupted = self._interrupted, None
                raise error.with_traceback(traceback)

    def call(self, method: Callable[..., object], *arguments: object) -> None:
        """Let the driving thread make a call; return, or raise, once it is made."""
        if self._stopping or self._runner.thread is threading.current_thread():
            method(*arguments)
            return
        answer: Future[None] = Future()

        def make() -> None:
            try:
                method(*arguments)
            except BaseException as error:  # noqa: BLE001 - its caller's, whatever it is
                answer.set_exception(error)
            else:
                answer.set_result(None)

        with self._condition:
            self._calls.append(make)
            self._condition.notify_all()
        answer.result()

    def _takes(self, runner: Runner, take: Callable[[Runner], bool]) -> bool:
        return bool(self._calls) or super()._takes(runner, take)

    def _wait(self) -> bool:
        left_s = None if self._until_s is None else self._until_s - monotonic()
        if left_s is not None and left_s <= 0:
            return False
        self._idle += 1
        try:
            self._condition.wait(left_s)
        finally:  # Ctrl-C comes here
            self._idle, self._called = self._idle - 1, 0
        return True

    def _noting(self, process: Callable[..., object]) -> Callable[..., object]:
        """The handler, in a wrapper that remembers Ctrl-C."""

        def noting(records: object) -> object:
            try:
                return process(records)
            except KeyboardInterrupt as error:
                self._interrupted = error, error.__traceback__
                raise

        return noting


class InlineExecutor(Inline, ThreadExecutor):
    """Runs lanes record by record."""


class InlineBatchExecutor(Inline, BatchThreadExecutor):
    """Runs batches of one record of each of several lanes."""

    def _work_off(self, runner: Runner) -> None:
        if runner.batch.entries:  # else only a call has come
            super()._work_off(runner)
