"""The style of `async def process`: an event loop that is kept for this worker.

Loaded when a worker needs it: asyncio takes a member 10 ms to import.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, cast

from coop_consumer import forks
from coop_consumer.core.failure import describe
from coop_consumer.errors import EventLoopStoppedError
from coop_consumer.executors.event_loop import BatchEventLoopExecutor, EventLoopExecutor
from coop_consumer.executors.workplace import PoolExecutor, Workplace
from coop_consumer.log_events import LogEvent
from coop_consumer.styles.style import Style
from coop_consumer.worker import takes_batches

if TYPE_CHECKING:
    from coop_consumer.core.record import Record

log = logging.getLogger(__name__)

_TASKS_END_S = 5.0
"""How long tasks that the user has left in the loop may take, once they are cancelled."""


class EventLoop(Style):
    """`async def process` or `async def process_batch`: on one event loop."""

    _loop: asyncio.AbstractEventLoop
    _thread: threading.Thread
    _tasks: EventLoopExecutor | BatchEventLoopExecutor | None = None
    _ending = False

    def start(self) -> None:
        """Start the loop."""
        self._loop = _new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"{self.name}-loop", daemon=True)
        self._thread.start()

    def shut_in_fork(self) -> None:
        """The same; and the loop, whose thread may be this one, runs nothing more."""
        super().shut_in_fork()
        if getattr(self, "_loop", None) is not None:
            forks.end_loop(self._loop, self.name)

    def is_inside(self) -> bool:
        """The same; and all that runs on the loop is the worker's, `setup` and its tasks too."""
        return threading.get_ident() == self._thread.ident or super().is_inside()

    def _call(self, method: Callable[..., Any], *arguments: object) -> None:
        """Call it here, and await what is to be awaited on the loop."""
        result = method(*arguments)
        if isawaitable(result):
            asyncio.run_coroutine_threadsafe(self._awaited(result), self._loop).result()

    async def _awaited(self, result: Awaitable[None]) -> None:
        try:
            await result
        except BaseException as error:
            self._end_fork(error)
            raise

    def end(self) -> None:
        """End the loop, and what the user has left running there."""
        self._ending = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _executor(self, place: Workplace) -> PoolExecutor:
        if takes_batches(self.worker):
            handler = cast(
                "Callable[[Sequence[Record]], Awaitable[object]]", self.worker.process_batch
            )
            self._tasks = BatchEventLoopExecutor(
                place, handler, self._loop, self._config.batch_max_records
            )
        else:
            process = cast("Callable[[Record], Awaitable[None]]", self.worker.process)
            self._tasks = EventLoopExecutor(place, process, self._loop)
        return self._tasks

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._ending:
            self._run_until_stopped()
        while not self._is_cleared():
            pass
        self._loop.close()

    def _run_until_stopped(self) -> None:
        """Run the loop until our code or the user's code stops it.

        If the user's code stops it, run it again: handlers of others are tasks of the loop.
        """
        try:
            self._loop.run_forever()
        # If a task raises one, it leaves the loop, and is also the result of the task.
        except (SystemExit, KeyboardInterrupt) as error:
            log.error(  # noqa: TRY400 - the traceback is the task's
                "%s: a task of the event loop raised %s; the loop continues, and code that awaits "
                "the task fails",
                self.name,
                describe(error),
                extra=self._extra(LogEvent.EVENT_LOOP_INTERRUPTED, error),
            )
            return
        # Another thread raised it in this one. The loop may have lost what it was at.
        except BaseException as error:  # noqa: BLE001
            if self._tasks is not None:
                self._tasks.fall(error)
            return
        if not self._ending:
            self.fail(EventLoopStoppedError(self._config.group_id))

    def _is_cleared(self) -> bool:
        """Cancel what the user has left in the loop. False: something interrupted that."""
        if self._loop.is_closed():
            return True
        try:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=_TASKS_END_S))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        except (SystemExit, KeyboardInterrupt, RuntimeError) as error:  # RuntimeError: of a stop
            told, extra = describe(error), self._extra(LogEvent.EVENT_LOOP_NOT_CLEARED, error)
            log.warning("%s: at the end of the event loop: %s", self.name, told, extra=extra)
            return False
        if any(not task.done() for task in left):
            told = "%s: tasks of the event loop do not end when cancelled"
            log.warning(told, self.name, extra=self._extra(LogEvent.EVENT_LOOP_NOT_CLEARED))
        return True


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop's where it is installed, else of asyncio's."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    new: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return new()
