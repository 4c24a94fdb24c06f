"""A clock that stands until a test moves it, for executors whose threads wait for time to pass.

In: moves, from any thread. Out: the time, and a condition whose time-outs pass by that time alone.
So a busy machine makes no handler slow, and no idle thread wakes up too early.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import inf

from tests.support.journal import WAIT_S


class MovedClock(threading.Condition):
    """The clock and the condition of a `Workplace`.

    Attributes:
        now_s: The time.
        after_look: Called after each look at the clock, by the thread that looked.
    """

    def __init__(self) -> None:
        lock = threading.RLock()
        super().__init__(lock)
        self.now_s = 1_000.0
        self.after_look: Callable[[], object] = lambda: None
        self._changed = threading.Condition(lock)
        self._waiting: list[object] = []

    def look(self) -> float:
        """The time, in seconds."""
        now_s = self.now_s
        self.after_look()
        return now_s

    def move(self, by_s: float) -> None:
        """Let time pass. Waits that time out by it go on."""
        with self:
            self.now_s += by_s
            self._changed.notify_all()

    def move_until(self, has_happened: Callable[[], bool], step_s: float = 0.01) -> bool:
        """Let time pass until a condition holds. False: it never holds."""
        pause, until_s = threading.Event(), time.monotonic() + WAIT_S
        while not (has := has_happened()) and time.monotonic() < until_s:
            self.move(step_s)
            pause.wait(0.001)
        return has

    def wait(self, timeout: float | None = None) -> bool:
        """As a condition does."""
        until_s = inf if timeout is None else self.now_s + timeout
        waiter = object()
        self._waiting.append(waiter)
        while waiter in self._waiting and self.now_s < until_s:
            self._changed.wait()
        is_called = waiter not in self._waiting
        if not is_called:
            self._waiting.remove(waiter)
        return is_called

    def notify(self, n: int = 1) -> None:
        """As a condition does."""
        del self._waiting[:n]
        self._changed.notify_all()

    def notify_all(self) -> None:
        """As a condition does."""
        self.notify(len(self._waiting))
