"""Breaths: how often a thread that computes lets others have the interpreter.

In: a call between the steps of long work. Out: now and then, a moment in which others run. Where
many threads want the interpreter such a moment lasts for as long as all of them take, and whoever
took one after each step would fall behind: 256 workers then wait for records that nobody takes in.
So a breath lasts no longer, all in all, than the work between two of them: a thread that breathes
keeps half of its time, however many others there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def _let_go() -> None:
    time.sleep(0)


class Breath:
    """The breaths of one thread.

    Args:
        clock: Seconds that only ever grow.
        let_go: Gives the interpreter up, and comes back with it.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        let_go: Callable[[], None] = _let_go,
    ) -> None:
        self._clock = clock
        self._let_go = let_go
        self._next_s = 0.0

    def take(self) -> None:
        """Let others run, unless the last breath was longer than the work since."""
        begun_s = self._clock()
        if begun_s >= self._next_s:
            self._let_go()
            ended_s = self._clock()
            self._next_s = ended_s + (ended_s - begun_s)
