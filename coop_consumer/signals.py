"""Signals: handlers of ours are put in place, and taken away again. No Kafka in here.

In: numbers and a handler. Out: the handler in place, except where the signal is ignored: whoever
starts a program with a signal ignored (nohup, a background job of a shell) wants it ignored.
A forked child gets back what was there before, else `Process.terminate()` would not end it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from coop_consumer import forks

_held: set[Taken]
"""Those in place: a forked child must find them, whoever has forgotten them."""


class Taken:
    """Signals that a handler of ours has taken. On the main thread only.

    Args:
        numbers: The signals.
        handler: Handles them.
    """

    def __init__(
        self, numbers: Iterable[int], handler: Callable[[int, FrameType | None], object]
    ) -> None:
        self._before: dict[int, Any] = {}
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, handler)
        _held.add(self)
        forks.watch(self)

    def give_back(self) -> None:
        """Let what was there before handle them again; a handler written in C is lost."""
        before, self._before = self._before, {}
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        _held.discard(self)

    def shut_in_fork(self) -> None:
        """The handler is the parent's; the child is another program."""
        self.give_back()


_held = set()
