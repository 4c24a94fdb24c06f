"""Kills processes at random moments, and starts them again under their names.

In: the processes of a run, and the rows that they write. Out: who was killed. Moments are counted
in records handled, so that each falls into the work, however fast a system is.
"""

from __future__ import annotations

import time
from random import Random
from threading import Event

from benchmarks.case import Case
from benchmarks.children import Children
from benchmarks.row_files import RowFiles

_EARLIEST, _LATEST = 0.05, 0.9
_LOOK_S = 0.02


def moments(case: Case, rng: Random) -> list[int]:
    """After how many records each kill comes, ascending."""
    return sorted(round(case.records * rng.uniform(_EARLIEST, _LATEST)) for _ in range(case.kills))


class Killer:
    """Kills until there were enough kills, and waits until all is handled.

    Attributes:
        killed: The process ids, in order.
    """

    def __init__(self, case: Case, children: Children, files: RowFiles, rng: Random) -> None:
        self.killed: list[int] = []
        self._case = case
        self._children = children
        self._files = files
        self._rng = rng
        self._moments = moments(case, rng)

    def run(self, until_s: float) -> bool:
        """Go on until all records are handled; False: they are not within the limit.

        Raises:
            StuckError: A process fell by itself.
        """
        pause = Event()
        while time.monotonic() < until_s:
            self._files.read()
            handled = len(self._files.places)
            if self._moments and handled >= self._moments[0]:
                self._moments.pop(0)
                self._kill()
            elif handled >= self._case.records and not self._moments:
                return True
            for child in self._children.all:
                child.check()
            pause.wait(_LOOK_S)
        return False

    def _kill(self) -> None:
        """Kill one of those that are at work, and start it again."""
        victim = self._rng.choice(self._children.all)
        self.killed.append(victim.process.pid)
        successor = self._children.replace(victim)
        self._children.wait(lambda: successor.is_ready)
        successor.go()
