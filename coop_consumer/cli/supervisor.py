"""The small parent of `coop-consumer run`, which outlives its worker process.

Room: `coop_consumer.cli`; without Kafka and click, to save memory. In: this process's command line,
signals, the worker process's messages and its end. Out: the same command line run again as the
worker process, as often as `Restarts` says; an exit code. It passes signals on, and reaps orphans
if it is process 1. It answers probes while no worker process does. It takes no part in the work.
What must hold: no worker process outlives it for long.

The worker process has its own process group, so that it gets a Ctrl-C of the terminal once, from
here.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from types import FrameType

from coop_consumer.cli import HEALTH_FILE, LOG_FORMAT, seat
from coop_consumer.cli.kept_port import KeptPort
from coop_consumer.cli.restarts import Again, EndCommand, Restarts
from coop_consumer.cli.seat import VARIABLE, ParentsOrders
from coop_consumer.errors import ConfigError, OutOfResourceError, lacking
from coop_consumer.log_events import Facts, LogEvent
from coop_consumer.ops.health import Diagnosis, restarting
from coop_consumer.ops.health_file import EVERY_S, written
from coop_consumer.ops.log_format import VARIABLE as FORMAT_VARIABLE
from coop_consumer.ops.log_format import formatter_of
from coop_consumer.signals import TakenSignals

log = logging.getLogger(__name__)

_LEAVE_TIMEOUTS_S = (15.0, 15.0, 5.0)
"""How long a dead process's member may take to leave, by the signals to end that have come. Most
of the second that it takes is the start of Python. After a third signal nobody waits."""
_WORDS_MAX = 65_536
_SOCKETS_MAX = 4
ALLOCATOR = {"MALLOC_ARENA_MAX": "2"}
"""glibc has an arena for nearly each thread, and returns little of its memory. A member that saw
six outages of its broker held 282 MB by default, and 159 MB with this setting."""
_ENDS_BY = (signal.SIGTERM, signal.SIGINT)


def supervise() -> int:
    """Run this process's command line in a worker process until it has ended; its exit code."""
    handler = logging.StreamHandler()
    log_format = option_of(sys.argv, "--log-format") or os.environ.get(FORMAT_VARIABLE) or "text"
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    with contextlib.suppress(ConfigError):  # the worker process reports it
        handler.setFormatter(formatter_of(log_format, LOG_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    path = option_of(sys.argv, HEALTH_FILE)
    with Supervisor(None if path is None else Path(path)) as supervisor:
        return supervisor.run()


def option_of(words: Sequence[str], name: str) -> str | None:
    """The value of an option on a command line; None: it is not there. The last one counts."""
    found = None
    for at, word in enumerate(words):
        if word == name and at + 1 < len(words):
            found = words[at + 1]
        elif word.startswith(f"{name}="):
            found = word.partition("=")[2]
    return found


class Supervisor:
    """One worker process at a time, on the main thread: signals come to no other.

    Args:
        health_file: The file of `--health-file`: written here while no worker process writes it.
    """

    def __init__(self, health_file: Path | None = None) -> None:
        self._health_file = health_file
        self._restarts = Restarts()
        self._facts: Facts = {}  # group and member of the worker process, once it has said them
        self._process: subprocess.Popen[bytes] | None = None
        self._port = KeptPort()
        self._unread = b""
        self._ends_asked = 0  # signals to end that have come
        self._unheeded: list[int] = []  # signals that came while a member left
        self._sockets: list[int] = []  # that have come, and no word about them yet
        self._started_s = 0.0
        self._is_told = True  # the worker process tells probes how it is, or nobody does
        self._woken, self._wakes = socket.socketpair()

    def __enter__(self) -> Supervisor:
        """Listen to signals."""
        self._woken.setblocking(False)
        self._wakes.setblocking(False)
        signal.set_wakeup_fd(self._wakes.fileno())
        TakenSignals((*_ENDS_BY, signal.SIGHUP), _ignore_signal)
        signal.signal(signal.SIGCHLD, _ignore_signal)  # also if it was ignored: we need exit codes
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._port.close()
        signal.set_wakeup_fd(-1)
        self._woken.close()
        self._wakes.close()

    def run(self) -> int:
        """Start the worker process, and again; the exit code of the last one."""
        next_step: Again | EndCommand = Again(0.0)
        while isinstance(next_step, Again):
            number = self._pause(next_step.pause_s)
            if number:
                next_step = self._restarts.interrupted(number)
                break
            next_step = self._run_once(next_step.takes_over)
        if next_step.leaves:
            self._health_file = None  # the worker process has written that it has ended
            self._leave(next_step.leaves)
        return next_step.exit_code

    def _pause(self, pause_s: float) -> int:
        """Wait; a signal to end by, or 0."""
        until_s = monotonic() + pause_s
        if pause_s > 0:
            self._port.fallen(pause_s)
        while True:
            for number in self._signals():
                if number in _ENDS_BY:
                    self._ends_asked += 1
                    return number
            left_s = until_s - monotonic()
            if left_s <= 0:
                return 0
            self._tell_health(left_s)
            every_s = left_s if self._health_file is None else min(left_s, EVERY_S)
            select.select([self._woken], [], [], every_s)

    def _tell_health(self, pause_s: float = 0.0) -> None:
        """Answer probes in place of a worker process that is not there, or has not begun."""
        if self._health_file is not None:
            with contextlib.suppress(OSError):  # the worker process says it when it begins
                written(self._health_file, Diagnosis(), restarting(pause_s))

    def _run_once(self, takes_over: str) -> Again | EndCommand:
        """One worker process, from its start to its end; what to do then."""
        try:
            started = self._start(takes_over)
        except OSError as error:  # no process, no memory or no file is left for it
            found = lacking(error)
            if found is None:
                raise
            next_step = self._restarts.ended(found.exit_code, 0.0)
            _report_failed_start(found, next_step, self._facts)
            if isinstance(next_step, Again) and next_step.leaves:
                self._leave(next_step.leaves)
            return next_step
        return self._follow(*started)

    def _start(self, takes_over: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
        worker, theirs = socket.socketpair()
        self._unread, self._started_s = b"", monotonic()
        orders = ParentsOrders(
            theirs.fileno(),
            takes_over=takes_over,
            listener=self._port.number,
            listens_at=self._port.address,
        )
        with theirs:
            self._process = _run_again(orders)
        return self._process, worker

    def _follow(
        self, process: subprocess.Popen[bytes], worker: socket.socket
    ) -> Again | EndCommand:
        """Pass on what comes until the worker process has ended; what to do then."""
        ears = [self._woken, worker]
        self._is_told = self._health_file is None
        self._port.fallen()  # after the start: the new process needs longer for its own
        while (code := process.poll()) is None:
            if not self._is_told:
                self._tell_health()
            heard, _, _ = select.select(ears, [], [], None if self._is_told else EVERY_S)
            if worker in heard and not self._read_messages(worker):
                ears.remove(worker)
            for number in self._signals():
                if number in _ENDS_BY:
                    self._ends_asked += 1
                    self._restarts.told_to_end()
                with contextlib.suppress(OSError):  # it has just ended
                    worker.sendall(bytes([number]))
        worker.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self._read_messages(worker):
                pass
        worker.close()
        self._process = None
        reap_orphans()
        ran_s = monotonic() - self._started_s
        next_step = self._restarts.ended(code, ran_s)
        if not self._restarts.ending:
            _report_end(process.pid, code, ran_s, next_step, self._facts)
        if isinstance(next_step, Again) and next_step.leaves:
            self._port.fallen(next_step.pause_s)
            self._leave(next_step.leaves)
        return next_step

    def _read_messages(self, worker: socket.socket) -> bool:
        """Take in what the worker process says; False: nothing more will come."""
        try:
            said, sockets, _, _ = socket.recv_fds(worker, _WORDS_MAX, _SOCKETS_MAX)
        except ConnectionResetError:  # it has ended, and never read what we said
            return False
        self._sockets += sockets
        *lines, self._unread = (self._unread + said).split(b"\n")
        for line in lines:
            word, _, what = line.decode().partition(" ")
            match word:
                case seat.JOINED:
                    self._restarts.joined(what)
                    self._port.joined()
                case seat.PORT:
                    self._port.keep(what, socket.socket(fileno=self._sockets.pop(0)))
                case seat.HEALTH:
                    self._is_told = True
                case seat.NAMED:
                    self._facts = json.loads(what)
                case _:
                    self._restarts.left()
        return bool(said)

    def _signals(self) -> list[int]:
        """The signals that have come from outside."""
        before, self._unheeded = self._unheeded, []
        try:
            come = self._woken.recv(_WORDS_MAX)
        except BlockingIOError:
            return before
        if signal.SIGCHLD in come:
            reap_orphans(self._process.pid if self._process is not None else 0)
        return [*before, *(number for number in come if number != signal.SIGCHLD)]

    def _leave(self, member: str) -> None:
        """Have a dead process's member leave, by a short-lived process that knows Kafka."""
        facts: Facts = {"member": member, **self._facts}  # `member` is an id
        try:
            has_left = self._has_left(member)
        except OSError as error:
            has_left = False
            told = "no process could be started for member %s to leave: %s"
            failed: Facts = {**facts, "error": error}
            extra = LogEvent.PROCESS_NOT_STARTED.extra(**failed)
            log.error(told, member, error, extra=extra)  # noqa: TRY400 - the text says it all
        if not has_left:
            extra = LogEvent.MEMBER_NOT_LEFT.extra(**facts)
            told = "member %s has not left the group: its ranges wait until its session ends"
            log.error(told, member, extra=extra)

    def _has_left(self, member: str) -> bool:
        """Run a process that has the member leave; whether it could.

        Raises:
            OSError: No process can be started.
        """
        ours, theirs = socket.socketpair()
        began_s, heard = monotonic(), []
        with ours, theirs:
            leaving = self._process = _run_again(ParentsOrders(theirs.fileno(), leaves=member))
            while leaving.poll() is None and (left_s := began_s + self._leave_s - monotonic()) > 0:
                self._tell_health()
                select.select([self._woken], [], [], min(left_s, EVERY_S))
                come = self._signals()
                self._ends_asked += sum(number in _ENDS_BY for number in come)
                heard += come
            self._unheeded, self._process = heard, None
            if leaving.returncode is None:
                leaving.kill()
                leaving.wait()
            return leaving.returncode == 0

    @property
    def _leave_s(self) -> float:
        """How long a member may take to leave, as of now."""
        asked = self._ends_asked
        return _LEAVE_TIMEOUTS_S[asked] if asked < len(_LEAVE_TIMEOUTS_S) else 0.0


def reap_orphans(own: int = 0) -> None:
    """Take the exit codes of dead children, as process 1 of a container has to.

    The worker's programs leave processes behind, and process 1 becomes the parent of those.

    Args:
        own: A child that somebody here waits for: its exit code stays, and so do those that come
            behind it.
    """
    while hasattr(os, "waitid"):  # not on every system, nor are containers
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == own:
            return
        os.waitpid(found.si_pid, os.WNOHANG)


def _ignore_signal(_: int, __: FrameType | None) -> None:
    """Without a handler the wake-up socket would hear nothing of a signal."""


def _run_again(orders: ParentsOrders) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - this process's own command line
        sys.orig_argv,
        executable=sys.executable,
        env={**ALLOCATOR, **os.environ, VARIABLE: orders.told()},
        pass_fds=[it for it in (orders.socket, orders.listener) if it >= 0],
        process_group=0,
    )


def _report_failed_start(
    found: OutOfResourceError, next_step: Again | EndCommand, facts: Facts
) -> None:
    failed: Facts = {**facts, "error": found}
    extra = LogEvent.PROCESS_NOT_STARTED.extra(**failed)
    if isinstance(next_step, EndCommand):
        log.error("no worker process could be started: %s", found, extra=extra)
        return
    log.error(
        "no worker process could be started: %s (%s). Trying again in %g s. %s.",
        found.lacks, found.detail, next_step.pause_s, found.remedy,
        extra=extra,
    )  # fmt: skip


def _report_end(
    pid: int, code: int, ran_s: float, next_step: Again | EndCommand, facts: Facts
) -> None:
    """Say what happened, if the worker process cannot have said it itself."""
    extra = LogEvent.PROCESS_FELL.extra(**facts)
    how = f"was killed by {_name(-code)}" if code < 0 else f"ended with exit code {code}"
    if isinstance(next_step, Again):
        when = f"again in {next_step.pause_s:g} s" if next_step.pause_s else "again now"
        left = "; its member leaves the group" if next_step.leaves else ""
        told = "worker process %d %s after %.0f s%s; starting %s"
        log.error(told, pid, how, ran_s, left, when, extra=extra)
    elif code < 0:
        told = "worker process %d %s after %.0f s; not started again"
        log.error(told, pid, how, ran_s, extra=extra)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
