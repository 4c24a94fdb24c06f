"""The processes of one run of a system, as their parent sees them.

In: a command and a job for each. Out: what they say, as it comes, and their reports. A process that
says nothing new for a minute is stuck; all are gone at the end of the block.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.job import GO, HANDLED, JOINED, READY, REPORT, STOP, Report
from benchmarks.processes import of_group

_ROOT = Path(__file__).parent.parent
_SILENT_S = 60.0
_END_S = 60.0
_LOG_SHOWN = 400


class StuckError(Exception):
    """A process fell, or does not go on; the text says which, and the end of its log."""


class Child:
    """One process.

    Attributes:
        handled: How many records, as far as it has told.
        fetched: How many brokers have sent, as far as it has told; None: it has not.
        report: Its last word.
    """

    def __init__(self, command: Sequence[str], log: Path, news: threading.Condition) -> None:
        self.command = command
        self.handled = 0
        self.fetched: int | None = None
        self.is_ready = self.has_joined = False
        self.report: Report | None = None
        self._has_ended = False
        self._idle_cpu_s = 0.0
        self._log = log
        self._news = news
        with log.open("ab") as errors:
            self.process = subprocess.Popen(  # noqa: S603 - the command is ours
                command,
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                env={**os.environ, "PYTHONHASHSEED": "0"},  # a key's hash is its name in rows
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def go(self) -> None:
        """Let it begin."""
        self._idle_cpu_s = of_group(self.process.pid).cpu_s
        self.say(GO)

    def so_far(self) -> Report:
        """What can be told of it before its last word; what it has fetched is up to 0.1 s old."""
        usage = of_group(self.process.pid)
        return Report(
            handled=self.handled,
            first_ns=0,
            committed_ns=0,
            cpu_s=usage.cpu_s - self._idle_cpu_s,
            resident_mb=usage.resident_mb,
            fetched=self.fetched if self.handled else 0,
        )

    def say(self, word: str) -> None:
        """Tell it; one that has gone hears nothing."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{word}\n".encode())
            self.process.stdin.flush()

    def kill(self) -> None:
        """End it as the out-of-memory killer would, with what it has left behind of its own."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def check(self) -> None:
        """StuckError if it ended without its last word."""
        if self._has_ended and self.report is None:
            raise StuckError(f"its process ended with {self.process.wait()}: {self.log()}")

    def log(self) -> str:
        """The end of it."""
        return " ".join(self._log.read_text(errors="replace")[-_LOG_SHOWN:].split())

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, _, rest = line.decode(errors="replace").strip().partition(" ")
            with self._news:
                if word == READY:
                    self.is_ready = True
                elif word == JOINED:
                    self.has_joined = True
                elif word == HANDLED:
                    handled, _, fetched = rest.partition(" ")
                    self.handled, self.fetched = int(handled), int(fetched) if fetched else None
                elif word == REPORT:
                    self.report = Report.parsed(rest)
                # some peers print, too
                self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()


class Children:
    """All processes of one run.

    Args:
        folder: Where their logs go.

    Attributes:
        all: Those that live.
        fallen: What those came to that were killed.
    """

    def __init__(self, folder: Path) -> None:
        self.all: list[Child] = []
        self.fallen: list[Report] = []
        self._news = threading.Condition()
        self._folder = folder
        self._started = 0

    def __enter__(self) -> Self:
        """Nothing runs yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave no process behind."""
        for child in self.all:
            child.kill()

    @property
    def handled(self) -> int:
        """By all of them."""
        return sum(child.handled for child in self.all)

    def start(self, command: Sequence[str]) -> Child:
        """Start one; it waits for `go`."""
        self._started += 1
        child = Child(command, self._folder / f"{self._started}.log", self._news)
        self.all.append(child)
        return child

    def replace(self, child: Child) -> Child:
        """Kill one, and start it again."""
        self.fallen.append(child.so_far())
        child.kill()
        self.all.remove(child)
        return self.start(child.command)

    def go(self) -> int:
        """Let all begin once all are ready; when that was, by the monotonic clock."""
        self.wait(lambda: all(child.is_ready for child in self.all))
        for child in self.all:
            child.go()
        return time.monotonic_ns()

    def stop(self) -> list[Report]:
        """Ask all to end; their reports."""
        for child in self.all:
            child.say(STOP)
        self.wait(lambda: all(child.report for child in self.all), _END_S)
        return [child.report for child in self.all if child.report]

    def wait(self, seen: Callable[[], bool], silent_s: float = _SILENT_S) -> None:
        """Wait until `seen()`; it is asked whenever a process has said something.

        Raises:
            StuckError: A process fell, or none has said anything for too long.
        """
        with self._news:
            while not seen():
                for child in self.all:
                    child.check()
                if not self._news.wait(silent_s):
                    logs = "; ".join(child.log() for child in self.all)
                    raise StuckError(f"nothing happened for {silent_s:.0f} s: {logs}")

    def wait_until(self, seen: Callable[[], bool], until_s: float) -> bool:
        """The same, but no longer than until a moment of the monotonic clock; whether it was."""
        moment = threading.Timer(max(0.0, until_s - time.monotonic()), self._wake)
        moment.daemon = True
        moment.start()
        try:
            self.wait(lambda: seen() or time.monotonic() >= until_s)
        finally:
            moment.cancel()
        return seen()

    def _wake(self) -> None:
        with self._news:
            self._news.notify_all()
