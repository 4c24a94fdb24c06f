"""Breaths: how often a thread that computes lets others have the interpreter.

In: a call between the steps of long work. Out: now and then, a moment in which other threads run.
If many threads want the interpreter, such a moment lasts as long as all of them take. A thread that
paused after each step would fall behind: 256 workers would wait for records that nobody takes in.
So the breaths take, in total, no longer than the work between them: a thread keeps half of its
    time.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def _yield_interpreter() -> None:
    time.sleep(0)


class Breath:
    """The breaths of one thread.

    Args:
        clock: Monotonic seconds.
        let_go: Gives up the interpreter for a moment.

    Attributes:
        callers: How many wait for an answer over HTTP. Each answer needs the interpreter on several
            threads, one after the other, and each of these waits 5 ms for a thread that computes.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        let_go: Callable[[], None] = _yield_interpreter,
    ) -> None:
        self._clock = clock
        self._yield_interpreter = let_go
        self._next_s = 0.0
        self.callers = 0

    def between(self, *, waits: bool) -> None:
        """Between two steps: let others run, if they rarely could otherwise.

        Args:
            waits: Whether handlers wait for something, so that many threads come and go. If not,
                few threads want the interpreter, and those that make an answer get it at once.
        """
        if waits:
            self.take()
        elif self.callers:
            self._yield_interpreter()

    def take(self) -> None:
        """Let other threads run, unless the last breath was longer than the work since."""
        begun_s = self._clock()
        if begun_s >= self._next_s:
            self._yield_interpreter()
            ended_s = self._clock()
            self._next_s = ended_s + (ended_s - begun_s)
