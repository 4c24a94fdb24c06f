"""Work styles: where a worker's methods run, and what runs its records.

In: a worker. Out: an executor for its records; its other methods as plain calls, which return when
they are done. A handler defined with `def` runs on threads. One with `async def` runs on an event
loop that the style keeps for this worker; so do other methods that are coroutine functions. Or
child processes have a copy of the worker each, and run all of its methods.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from inspect import isawaitable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from coop_consumer import forks
from coop_consumer.config.choices import OnOverdue
from coop_consumer.config.setting import shown
from coop_consumer.core.failure import describe
from coop_consumer.cores import usable_cores
from coop_consumer.errors import (
    ConfigError,
    CoopConsumerError,
    EventLoopStoppedError,
    MisuseError,
)
from coop_consumer.executors import (
    BatchEventLoopExecutor,
    BatchThreadExecutor,
    EventLoopExecutor,
    InlineBatchExecutor,
    InlineExecutor,
    PoolExecutor,
    ProcessExecutor,
    ThreadExecutor,
    Workplace,
)
from coop_consumer.executors.children import Children
from coop_consumer.log_filter import whatever_a_log_does
from coop_consumer.signals import Latch
from coop_consumer.worker import Worker, is_async, takes_batches

log = logging.getLogger(__name__)

ExecutorName: TypeAlias = Literal["thread", "process", "inline"]
EXECUTORS: tuple[ExecutorName, ...] = get_args(ExecutorName)
_TASKS_END_S = 5.0
"""How long tasks that the user has left in the loop may take, once they are cancelled."""
_PROCESSES_MIN, _PROCESSES_PER_CORE = 16, 4
"""More than so many children are taken for a mistake."""

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition
    from coop_consumer.config import Config
    from coop_consumer.core.lanes import KeyLanes
    from coop_consumer.core.record import Record


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
        self.fail: Callable[[CoopConsumerError], None] = lambda error: log.error("%s", error)
        self.die: Callable[[BaseException], None] = lambda error: log.error("%s", error)
        self._ended: Latch | None = None
        self._inside: list[int] = []  # threads on which a method of the worker is called now
        self._runs: PoolExecutor | None = None
        self._is_fork = False
        forks.watch(self)

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
    ) -> PoolExecutor:
        """The executor of its records, with so many workers; see `Workplace`."""
        wake_after = self._config.commit_max_records
        place = Workplace(lanes, condition, workers, wake, wake_after, self.name, clock, self._died)
        self._runs = self._executor(place)
        return self._runs

    def _died(self, error: BaseException) -> None:
        """Note that the records' executor has ended, so that its records would never finish."""
        with whatever_a_log_does():
            log.error("%s: the executor of handlers has failed: %s", self.name, describe(error))
        self.die(error)

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


class ThreadStyle(Style):
    """`def process` or `def process_batch`: on as many threads as there are workers."""

    def _executor(self, place: Workplace) -> PoolExecutor:
        if takes_batches(self.worker):
            records_max = self._config.batch_max_records
            return BatchThreadExecutor(place, self.worker.process_batch, records_max)
        return ThreadExecutor(place, self.worker.process)


class OneThread(ThreadStyle):
    """The same on the thread that waits for the member's end; so is everything else."""

    _inline: InlineExecutor | InlineBatchExecutor | None = None
    _is_heard = False

    def _call(self, method: Callable[..., Any], *arguments: object) -> None:
        """Call it on that thread; before there is an executor, on the one that calls."""
        if self._inline is None:
            method(*arguments)
        else:
            self._inline.call(method, *arguments)

    def await_end(self, ended: Future[Any], timeout_s: float | None) -> None:
        """Process records meanwhile."""
        assert self._inline is not None, "a pool waits once it has started"
        inline = self._inline
        if not self._is_heard:
            self._is_heard = True
            ended.add_done_callback(lambda _: inline.stop())
        inline.drive(timeout_s)

    def _executor(self, place: Workplace) -> PoolExecutor:
        if takes_batches(self.worker):
            records_max = self._config.batch_max_records
            self._inline = InlineBatchExecutor(place, self.worker.process_batch, records_max)
        else:
            self._inline = InlineExecutor(place, self.worker.process)
        return self._inline


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
            log.warning("%s: at the end of the event loop: %s", self.name, describe(error))
            return False
        if any(not task.done() for task in left):
            log.warning("%s: tasks of the event loop do not end when cancelled", self.name)
        return True


class Processes(Style):
    """`def process` or `def process_batch`: one child process for each worker.

    Each child has a copy of the worker. A member's calls go to all copies.
    """

    def __init__(self, worker: Worker, config: Config, workers: int) -> None:
        super().__init__(worker, config)
        self._children = Children(worker, workers, self.name)

    def start(self) -> None:
        """Start the children."""
        self._children.start()

    def _call(self, method: Callable[..., Any], *arguments: object) -> None:
        """Have all children call it."""
        name = method.__name__
        match name, arguments:
            case "setup", _:
                self._children.setup(*arguments)
            case "flush", _:
                self._children.flush()
            case "on_ranges_assigned", (tp, ranges):
                self._children.ranges_assigned(tp, ranges)  # type: ignore[arg-type] # see the worker
            case "on_ranges_revoked" | "on_ranges_lost", (tp, ranges):
                self._children.ranges_gone(name, tp, ranges)  # type: ignore[arg-type] # see the worker
            case _:
                self._children.call(name, *arguments)

    def end(self) -> None:
        """End the children."""
        self._children.end()

    def _executor(self, place: Workplace) -> PoolExecutor:
        batch_max = self._config.batch_max_records if takes_batches(self.worker) else 0
        return ProcessExecutor(place, self._children, batch_max)


def style_of(worker: Worker, config: Config, workers: int, executor: str) -> Style:
    """The style that a worker is written in, and is to run in.

    Args:
        worker: The worker.
        config: Its pool's configuration.
        workers: How many records, or batches, are processed at a time.
        executor: "thread", "process" or "inline".

    Raises:
        MisuseError: The one does not go with the other.
    """
    executor = checked_executor(executor)
    if executor == "thread":
        return (EventLoop if is_async(worker) else ThreadStyle)(worker, config)
    if is_async(worker):
        raise MisuseError(
            f"WorkerPool({type(worker).__name__}, executor={executor!r})",
            "its handler is async, and needs an event loop",
            "Define the handler with def, or leave executor out",
            "Nothing was started",
        )
    if executor == "inline":
        if config.on_overdue is OnOverdue.FAIL:
            raise ConfigError(
                "on.overdue",
                "=fail has another thread go on, and executor='inline' has none",
                "Choose leave or exit, or another executor",
            )
        return OneThread(worker, config)
    return Processes(worker, config, workers)


def checked_executor(executor: object) -> ExecutorName:
    """The name of an executor.

    Raises:
        MisuseError: There is none of this name.
    """
    found = next((name for name in EXECUTORS if executor == name), None)
    if found is None:
        raise MisuseError(
            f"WorkerPool(executor={shown(executor)})",
            "there is no such executor",
            f"Use {', '.join(EXECUTORS[:-1])} or {EXECUTORS[-1]}",
            "Nothing was started",
        )
    return found


def refuse_useless(workers: object, executor: str) -> None:
    """Check that there are workers, and that all of them can be of use.

    Raises:
        ConfigError: They cannot.
    """
    cores = usable_cores()
    if not isinstance(workers, int) or isinstance(workers, bool):
        problem = f"={workers!r} ({type(workers).__name__}) is not a whole number"
        raise ConfigError("workers", problem, "Use 1 or more")
    if workers < 1:
        raise ConfigError("workers", f"={workers} processes nothing", "Use 1 or more")
    if executor == "inline" and workers > 1:
        raise ConfigError(
            "workers",
            f"={workers} contradicts executor='inline', which processes on one thread",
            "Leave workers out, or choose another executor",
        )
    if executor == "process" and workers > max(_PROCESSES_MIN, _PROCESSES_PER_CORE * cores):
        raise ConfigError(
            "workers",
            f"={workers} processes are more than {cores} cores can use",
            "Use about as many as there are cores; for handlers that wait, leave executor out",
        )


def refuse_state(config: Config, executor: str) -> None:
    """Check that a worker with `keyed_state` can have it.

    Raises:
        MisuseError: Of child processes none has the store.
        ConfigError: A key has no owner, or no order.
    """
    if executor == "process":
        raise MisuseError(
            "WorkerPool(executor='process')",
            "keyed state lies in this process, and its children do not reach it",
            "Leave executor out, and run several processes",
            "Nothing was started",
        )
    if config.ordering == "none":
        raise ConfigError(
            "ordering",
            "=none gives records of a key to several workers at once, and keyed_state wants one",
            "Set ordering=key",
        )


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop's where it is installed, else of asyncio's."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    new: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return new()
