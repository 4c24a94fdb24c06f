"""Several child processes of the demo: started together, heard, killed, and always ended.

In: tasks. Out: their latest reports. A crew is a context manager: leaving it in any way (Ctrl-C
too) ends its processes, first by closing their standard input, then by force. They have their own
sessions, so that only the parent gets Ctrl-C, and ends them in order.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Self

from coop_consumer.demo.report import ChildReport, MemberTask
from coop_consumer.errors import ExitCode, FatalError

_END_WITHIN_S = 30.0
_LOG_TAIL_LINES = 15


@dataclass(eq=False)
class MemberFailedError(FatalError):
    """A child ended by itself."""

    role: str
    status: int
    log: str

    exit_code = ExitCode.BROKEN

    def __str__(self) -> str:
        return (
            f"demo: a process ({self.role}) ended by itself with status {self.status}. "
            f"All others were ended. The last it said:\n{self.log}"
        )


class Crew:
    """Runs tasks, each in a process of its own.

    Args:
        tasks: What they do.
    """

    def __init__(self, tasks: Sequence[MemberTask]) -> None:
        self._tasks = tasks
        self._children: list[_Child] = []

    def __enter__(self) -> Self:
        try:
            self._children.extend(_Child(task) for task in self._tasks)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def reports(self) -> list[ChildReport]:
        """The latest report of each process, a killed one's too.

        Raises:
            MemberFailedError: A process has ended that was neither killed nor asked to end.
        """
        for child in self._children:
            child.check()
        return [child.report for child in self._children]

    def kill(self, position: int) -> int:
        """End a process as a crash would (SIGKILL); returns its id. It is gone on return."""
        return self._children[position].kill()

    def finish(self) -> list[ChildReport]:
        """Tell all to finish and commit, wait until they have, and return their last reports.

        Raises:
            MemberFailedError: One ended with an error.
        """
        for child in self._children:
            child.tell_to_end()
        for child in self._children:
            child.wait()
        return self.reports()

    def _end(self) -> None:
        for child in self._children:
            child.tell_to_end()
        for child in self._children:
            child.end()


class _Child:
    """One process, and the thread that reads what it reports."""

    def __init__(self, task: MemberTask) -> None:
        self.report = ChildReport()
        self._task = task
        self._told = self._killed = False
        self._log: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by end()
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "coop_consumer.demo.member", task.encode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name="demo-reports", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # a kill may cut the last one
                self.report = ChildReport.decode(line)

    def check(self) -> None:
        code = self._process.poll()
        if code is not None and not self._killed and (code or not self._told):
            raise MemberFailedError(self._task.role, code, self._log_tail())

    def _log_tail(self) -> str:
        self._log.seek(0)
        return "".join(self._log.readlines()[-_LOG_TAIL_LINES:])

    def kill(self) -> int:
        self._killed = True
        self._process.kill()
        self._process.wait()
        return self._process.pid

    def tell_to_end(self) -> None:
        self._told = True
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        self._process.wait(_END_WITHIN_S)
        self._reader.join()

    def end(self) -> None:
        """Wait for its end, or force it; nothing of it is left on return."""
        try:
            self._process.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()
