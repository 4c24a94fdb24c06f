"""A child process that ends when its parent ends, even by kill -9.

Room: `coop_consumer.broker`. In: a command and a log file. Out: a handle to signal it and
wait for it, and `ProcessIdentity`, which outlives the parent. Touches processes only. What must
hold: no child outlives its parent unless `release` was called, and no signal goes to a process that
merely has the number of one that ended.

The parent holds one end of a pipe. A tiny shell in the child's process group holds the other. When
the pipe closes, for any reason, the shell kills the group. The shell belongs to the group, so the
group's number cannot be given away while it waits. The kernel's parent-death signal is no
alternative: it is tied to the thread that started the child, and unsafe in a threaded process. A
process forked from the parent without exec holds the pipe too; the child then ends with the last of
them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_GUARDED = """\
exec 3<&0 </dev/null
( read -r released <&3 || kill -KILL 0 ) &
exec "$@" 3<&-
"""
"""Start the guard, then become the command. A line in the pipe releases; the pipe's end kills."""

_POLL_S = 0.02


class GuardedProcess:
    """A running child with a guard. One thread; made by `start`."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    @classmethod
    def start(cls, command: Sequence[str], log_path: Path) -> GuardedProcess:
        """Start `command` in a session of its own; what it prints is appended to `log_path`.

        Raises:
            OSError: The shell or the log file cannot be opened. A command that cannot be run ends
                at once with exit code 126 or 127 and says so in the log.
        """
        with log_path.open("ab") as log:
            popen = subprocess.Popen(  # noqa: S603 - the command is ours
                ["/bin/sh", "-c", _GUARDED, "guard", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is the parent's to handle
            )
        return cls(popen)

    @property
    def pid(self) -> int:
        """The command's process id; the shell before it had the same."""
        return self._popen.pid

    def exit_code(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs. Does not wait."""
        return self._popen.poll()

    def terminate(self) -> None:
        """Ask it to end (SIGTERM). Returns at once; does nothing if it ended already."""
        self._popen.terminate()

    def kill(self) -> None:
        """End it and everything in its group (SIGKILL), and wait until it is gone."""
        if self._popen.poll() is None:
            os.killpg(self._popen.pid, signal.SIGKILL)
        self.wait()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end, and return the exit code; the guard ends with it.

        Raises:
            subprocess.TimeoutExpired: It still runs after `timeout_s`.
        """
        code = self._popen.wait(timeout_s)
        self._close_pipe()
        return code

    def release(self) -> ProcessIdentity:
        """Let it live on without this process, which no longer needs to wait for it."""
        identity = ProcessIdentity.of(self.pid)
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(b"released\n")
            self._popen.stdin.flush()
        self._close_pipe()
        # Python must not warn that nobody waited for it, nor reap it and free its number.
        self._popen.returncode = 0
        return identity

    def _close_pipe(self) -> None:
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.close()


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process for good: its id, and its start time, because ids are used again.

    `started` is opaque text of the operating system; empty if there was no such process.
    """

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """The process that has this id now."""
        return cls(pid, _start_mark(pid))

    def is_alive(self) -> bool:
        """Whether this very process runs; one that ended and was not waited for does not."""
        return self.started != "" and _start_mark(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if it is alive."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it ended; False if it still runs after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while self.is_alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True


def _start_mark(pid: int) -> str:
    """When `pid` started, as text that is equal only for the same process; empty if it ended."""
    if Path("/proc/self/stat").exists():
        return _start_mark_of_stat(pid)
    answer = subprocess.run(  # noqa: S603 - a number is all that is passed
        ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else started.strip()


def _start_mark_of_stat(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # The name in parentheses may hold anything: the fields are counted from its end.
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
