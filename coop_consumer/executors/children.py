"""Worker processes: started, called, ended, and replaced when they die. No Kafka in here.

In: a worker, calls of its methods. Out: children that each hold a copy of it. A new child is set up
like the one before it, and notified of the ranges that are held. Children end with their parent,
because its pipes close.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from time import monotonic, sleep
from typing import TYPE_CHECKING

from assignors import subtract, union
from coop_consumer import forks
from coop_consumer.errors import MisuseError, OutOfMemoryError, lacking
from coop_consumer.executors import child
from coop_consumer.executors.workplace import ChildDiedError, ChildError
from coop_consumer.log_events import LogEvent
from coop_consumer.worker import Worker

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from assignors import KeyRange, TopicPartition

log = logging.getLogger(__name__)

_END_S = 5.0
_LOOK_S = 1.0
"""How often we look whether a child that does not answer is alive."""
_DEATH_LOOK_S = 0.05
_NOTED_S = 1.0
"""How long another thread may take to note an exit code that it got from the system."""
_STACK_S = 0.5
_CALLS_MAX = 64


_known_to_multiprocessing: set[BaseProcess] = multiprocessing.process._children  # type: ignore[attr-defined]
"""multiprocessing sends these a SIGTERM at our end. Only so can it be made to forget one."""


def raised_in_child(text: str) -> ChildError:
    """An error from its description, named as the error in the child was."""
    name, _, message = text.partition(": ")
    kind: type[ChildError] = type(name, (ChildError,), {})
    return kind(message)


class Child:
    """A worker process, and once it is dead another one in its place.

    Args:
        context: It spawns, because to fork a process with threads is not safe.
        worker: The worker, pickled.
        name: The process's.
        environment: Variables of its environment, beside those of this process.

    Attributes:
        work: Takes chunks, brings results.
        is_killed: Whether we have killed its present process.
    """

    def __init__(
        self, context: SpawnContext, worker: bytes, name: str, environment: Mapping[str, str]
    ) -> None:
        self._context = context
        self._environment = environment
        self._worker = worker
        self._name = name
        self._lock = threading.Lock()
        self._call_number = 0
        self._has_ended = True
        self._start()

    def _start(self) -> None:
        try:
            self._spawn()
        except OSError as error:  # no memory, or too many processes or files
            raise ChildDiedError(f"a worker process cannot be started: {error}") from error
        self._has_ended = self.is_killed = False

    def _spawn(self) -> None:
        context, progress = self._context, self._context.RawValue("q", -1)
        root = logging.getLogger()
        level = root.getEffectiveLevel() if root.hasHandlers() else 0
        with ExitStack() as open_pipes:
            ends = [open_pipes.enter_context(end) for _ in range(2) for end in context.Pipe()]
            own_work, work, own_calls, calls = ends
            home = child.Home(level, _formatter(root), _folder())
            arguments = (self._worker, work, calls, progress, home)
            process = context.Process(
                target=child.main, args=arguments, name=self._name, daemon=True
            )
            with _environment(self._environment):
                process.start()
            open_pipes.pop_all()
        work.close()
        calls.close()
        self.work, self._calls = own_work, own_calls
        self._process, self._progress = process, progress

    def restart(self) -> None:
        """Put another process in the place of a dead one.

        Raises:
            ChildDiedError: No process can be started now; try again later.
        """
        self.end()
        with self._lock:
            self._start()

    @property
    def progress(self) -> int:
        """How many records of its chunk are done, also after its death; -1: it has no chunk."""
        return int(self._progress.value)

    def call(self, name: str, *arguments: object) -> None:
        """Call a method of its worker.

        Raises:
            ChildError: The method raised.
            ChildDiedError: The child died.
        """
        with self._lock:
            try:
                error, _ = self._asked(name, arguments, None) or (None, "")
            except (EOFError, OSError) as cause:
                raise ChildDiedError(f"{self.obituary()} during {name}") from cause
        if error is not None:
            raise raised_in_child(error)

    def stack(self) -> str:
        """The stack of its handler; "" if the child does not answer at once."""
        if not self._lock.acquire(timeout=_STACK_S):
            return ""
        try:
            _, stack = self._asked("stack", (), _STACK_S) or (None, "")
        except (EOFError, OSError):
            return ""
        finally:
            self._lock.release()
        return stack

    def _asked(
        self, name: str, arguments: tuple[object, ...], timeout_s: float | None
    ) -> tuple[str | None, str] | None:
        """The error and the answer; None: no answer in time, and a late one will be ignored."""
        self._call_number += 1
        self._calls.send((self._call_number, name, arguments))
        while True:
            if self._calls.poll(_LOOK_S if timeout_s is None else timeout_s):
                number, error, answer = self._calls.recv()
                if number == self._call_number:
                    return error, answer
            elif timeout_s is not None:
                return None
            else:
                self._refuse_dead(self._calls)

    def refuse_dead(self) -> None:
        """Look whether the child is alive; a process that it has forked may hold its pipes open.

        Raises:
            EOFError: It is dead, and the pipe is empty.
        """
        self._refuse_dead(self.work)

    def _refuse_dead(self, pipe: Connection) -> None:
        if not self._lives() and not pipe.poll():
            raise EOFError

    def _lives(self) -> bool:
        try:
            if not self._process.is_alive():
                return False
            # A program that ignores SIGCHLD, or waits for any child, leaves us no exit code.
            os.kill(self._process.pid or 0, 0)
        except (ValueError, ProcessLookupError):  # ValueError: it was closed meanwhile
            return False
        return True

    def _exit_code(self) -> int | None:
        # A thread that starts a process makes multiprocessing look after all others, too. Such a
        # thread may have taken the exit code from the system, and not noted it yet.
        until_s = monotonic() + _NOTED_S
        while (code := self._process.exitcode) is None and not self._lives():
            if monotonic() > until_s:
                break
            sleep(_DEATH_LOOK_S)
        return code

    def disown(self) -> None:
        """This process is a fork: close its copies of the pipes, or the child would not end."""
        with suppress(OSError):
            self.ask_to_end()

    def _has_died_within(self, timeout_s: float) -> bool:
        # Wait in short steps: a process that it forked may hold open what a long wait waits for.
        until_s = monotonic() + timeout_s
        while self._lives():
            if monotonic() > until_s:
                return False
            self._process.join(_DEATH_LOOK_S)
        return True

    def kill(self) -> None:
        """End it at once; reads of its results fail then."""
        self.is_killed = True
        if not self._has_ended:
            self._process.kill()

    def ask_to_end(self) -> None:
        """Let it end once it has nothing to do."""
        self.work.close()
        self._calls.close()

    def end(self) -> None:
        """Let it end; returns when it has."""
        if self._has_ended:
            return
        self._has_ended = True
        self.ask_to_end()
        if not self._has_died_within(_END_S):
            self._process.kill()
            self._process.join()
        try:
            self._process.close()
        except ValueError:  # its exit code is unknown, so multiprocessing believes it alive
            _known_to_multiprocessing.discard(self._process)

    @property
    def was_killed(self) -> bool:
        """Whether it has ended by SIGKILL, and not by ours."""
        return self._exit_code() == -signal.SIGKILL and not self.is_killed

    @property
    def name(self) -> str:
        """Its name for people, by which tools find it."""
        return f"worker process {self._process.pid}"

    def obituary(self) -> str:
        """How it ended, for people."""
        self._has_died_within(_END_S)
        code = self._exit_code()
        name = self.name
        if code is None and self._lives():
            return f"{name} has closed its pipe"
        if code is None:
            return f"{name} has ended (its exit code is not known: this program ignores SIGCHLD?)"
        if code >= 0:
            return f"{name} ended with exit code {code}"
        if self.is_killed:
            return f"{name} was ended, because a handler took too long"
        hint = " (by the kernel, if memory was short)" if code == -9 else ""
        return f"{name} was killed by signal {-code}{hint}"


def _formatter(root: logging.Logger) -> bytes:
    """What formats the log here, pickled; b"" if it is logging's own, or cannot be pickled."""
    formatter = next((it.formatter for it in root.handlers if it.formatter is not None), None)
    if formatter is None or type(formatter) is logging.Formatter:
        return b""  # its text would not say which child a line is of
    try:
        return pickle.dumps(formatter)
    except Exception:  # noqa: BLE001 - a stranger's: whatever it holds, children do without
        return b""


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


_changing = threading.Lock()


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """Add variables for the length of a block: multiprocessing passes on what is there then.

    A child imports the program's main module before any code of ours runs there. So what is set
    later comes too late.
    """
    if not more:
        yield
        return
    with _changing:
        before = {name: os.environ.get(name) for name in more}
        os.environ.update(more)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


class Children:
    """A number of children, and what a new one needs to catch up.

    Args:
        worker: The worker; each child gets a copy.
        count: How many.
        name: Names the processes.

    Attributes:
        environment: Variables of the children's environment, beside those of this process; set
            before `start`.

    Raises:
        MisuseError: The worker cannot be pickled.
    """

    def __init__(self, worker: Worker, count: int, name: str) -> None:
        self.environment: Mapping[str, str] = {}
        try:
            self._worker = pickle.dumps(worker)
        except Exception as error:
            raise MisuseError(
                f"WorkerPool({type(worker).__name__}, executor='process')",
                f"the worker cannot be pickled ({error})",
                "Define its class at the top of a module, and open files and connections in setup",
            ) from error
        self._count = count
        self._name = name
        kind = type(worker)
        self._own = {n for n in vars(Worker) if getattr(kind, n) is not getattr(Worker, n)}
        if "on_ranges_revoked" in self._own:
            self._own.add("on_ranges_lost")  # which calls it
        self._lost_output = ""
        self._abandoned = False
        self._context = multiprocessing.get_context("spawn")
        self._setup: tuple[object, ...] = ()
        self._ranges: dict[TopicPartition, tuple[KeyRange, ...]] = {}
        self._lock = threading.Lock()
        self._callers = ThreadPoolExecutor(_CALLS_MAX, thread_name_prefix=f"{name}-calls")
        self._made = 0
        self.each: list[Child] = []

    def start(self) -> None:
        """Start the children; returns when all have answered.

        Raises:
            OutOfResourceError: This machine gives too little for them.
            MisuseError: A child ends at once.
        """
        atexit.register(self._abandon)
        forks.watch(self)
        try:
            for _ in range(self._count):
                self.each.append(self._new())
            for it in self.each:
                it.call("ready")
        except ChildDiedError as error:
            was_killed = any(it.was_killed for it in self.each)
            self.end()
            if (shortage := lacking(error.__cause__ or error)) is not None:
                raise shortage from error
            if was_killed:  # by the kernel: nobody else knows it yet
                raise OutOfMemoryError(str(error)) from error
            raise MisuseError(
                "WorkerPool(executor='process')",
                f"its processes cannot start ({error}; stderr has more)",
                "Start the pool below if __name__ == '__main__': a child imports the main module",
            ) from error

    def shut_in_fork(self) -> None:
        """The children are the parent's: this process must not end them."""
        atexit.unregister(self._abandon)
        for it in self.each:
            it.disown()

    def _new(self) -> Child:
        self._made += 1
        name = f"{self._name}-{self._made}"
        return Child(self._context, self._worker, name, self.environment)

    def setup(self, *arguments: object) -> None:
        """Call `setup` in all of them, and later in each new one."""
        self._setup = arguments
        self.call("setup", *arguments)

    def call(self, method: str, *arguments: object) -> None:
        """Call a method in all of them, if the worker has one of its own.

        The first error is raised once all have answered.
        """
        if method not in self._own:
            return
        with self._lock:  # else a child that is replaced meanwhile is called twice, or never
            calls = self._called(method, *arguments)
        for call in calls:
            call.result()

    def _called(self, method: str, *arguments: object) -> list[Future[None]]:
        calls = [self._callers.submit(it.call, method, *arguments) for it in self.each]
        wait(calls)
        return calls

    def flush(self) -> None:
        """Flush all of them.

        Raises:
            ChildDiedError: A child has died before its output was flushed.
        """
        self.call("flush")
        if self._lost_output:
            raise ChildDiedError(f"{self._lost_output}, and what it had buffered is lost")

    def ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Notify all children, and later each new one.

        A dead child is no error: the next one in its place is notified.
        """
        with self._lock:
            self._ranges[tp] = union([*self._ranges.get(tp, ()), *ranges])
            self._notify("on_ranges_assigned", tp, ranges)

    def ranges_gone(self, method: str, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Notify all children by this method; a child that dies in it has no ranges any more."""
        with self._lock:
            self._ranges[tp] = subtract(self._ranges.get(tp, ()), ranges)
            self._notify(method, tp, ranges)

    def _notify(self, method: str, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        for call in self._called(method, tp, ranges) if method in self._own else ():
            try:
                call.result()
            except (
                ChildDiedError
            ) as error:  # the thread that drives the child notices, too, and replaces it
                extra = LogEvent.CHILD_DIED.extra(tp=tp, error=error)
                told = "%s: %s; another one is started. See how it ended: `dmesg`, or a crash in C"
                log.error(told, self._name, error, extra=extra)  # noqa: TRY400

    def replace(self, dead: Child) -> None:
        """Give a dead child a new process, set up as the dead one was.

        Raises:
            ChildError: Its `setup`, or `on_ranges_assigned`, raised.
            ChildDiedError: It died in one of these, or no process can be started now.
        """
        with self._lock:
            if self._abandoned:
                raise ChildDiedError("the process is about to end")
            if "flush" in self._own and not self._lost_output:
                self._lost_output = dead.obituary()
            dead.restart()
            self._prepare(dead)

    def add(self, count: int) -> list[Child]:
        """Start `count` more children, set up as the others; none if `count` is below 1.

        Raises:
            ChildError, ChildDiedError: As in `replace`; then there are as many as before.
        """
        made: list[Child] = []
        with self._lock:
            try:
                for _ in range(count):
                    made.append(self._new())
                    self._prepare(made[-1])
            except (ChildError, ChildDiedError):
                for it in made:
                    it.end()
                raise
            self.each += made
        return made

    def _prepare(self, it: Child) -> None:
        it.call("ready")
        if "setup" in self._own:
            it.call("setup", *self._setup)
        for tp, ranges in self._ranges.items():
            if ranges and "on_ranges_assigned" in self._own:
                it.call("on_ranges_assigned", tp, ranges)

    def retire(self, it: Child) -> None:
        """End a child that has no work any more, as all children end with their pool.

        Errors of its last calls are reported. If its output could not be flushed, the next flush
        ends the member.
        """
        calls: list[tuple[str, tuple[object, ...]]] = [("flush", ())]
        calls += [("on_ranges_revoked", held) for held in self._ranges.items() if held[1]]
        calls.append(("teardown", ()))
        with self._lock:
            for name, arguments in calls:
                try:
                    if name in self._own:
                        it.call(name, *arguments)
                except (ChildError, ChildDiedError) as error:
                    told = (
                        "%s: one process fewer: its %s failed. If that was flush, the member ends, "
                        "and what was not flushed comes again. Correct the method"
                    )
                    extra = LogEvent.CHILD_NOT_RETIRED.extra(error=error)
                    log.exception(told, self._name, name, extra=extra)
                    if name == "flush" and not self._lost_output:
                        self._lost_output = f"a worker process that had to end: {error}"
            self.each.remove(it)
        it.end()

    def end(self) -> None:
        """End all."""
        atexit.unregister(self._abandon)
        self._callers.shutdown()
        for it in self.each:
            it.ask_to_end()
        for it in self.each:
            it.end()

    def _abandon(self) -> None:
        """Kill the children: this process ends without `end`, and would wait for them for ever."""
        self._abandoned = True
        for it in self.each:
            it.kill()
