"""Signals: puts our handlers in place, and removes them. No Kafka in here.

In: numbers and a handler. Out: the handler in place, unless the signal is ignored: a program that
was started with an ignored signal (nohup, a background job of a shell) keeps ignoring it. A forked
child gets back the handlers before ours; otherwise `Process.terminate()` would not end it.
"""

from __future__ import annotations

import _thread
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from coop_consumer import forks
from coop_consumer.errors import MisuseError
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from concurrent.futures import Future

log = logging.getLogger(__name__)

_BY_SIGNAL = 128
"""Exit codes above this stand for a signal, as in every shell: 130 for SIGINT, 143 for SIGTERM."""
_held: set[TakenSignals]
"""Handlers in place. A forked child must find them, even if their owner has forgotten them."""


class TakenSignals:
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

    @property
    def numbers(self) -> Iterable[int]:
        """The signals that were taken."""
        return tuple(self._before)

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


def refuse_other_threads(call: str, remedy: str) -> None:
    """See that this is the main thread.

    Raises:
        MisuseError: It is another one.
    """
    if threading.current_thread() is not threading.main_thread():
        raise MisuseError(call, "signals come to the main thread alone", remedy)


class EndSignals:
    """Counts signals that ask a process for its end, by their ways: sent to it, or passed on.

    A service manager sends one signal to a parent and its child, and the parent passes it on. So
    the child gets two for one. A signal counts as the second only if it is the second on its way.
    """

    def __init__(self) -> None:
        self._came = {True: False, False: False}  # passed on by a parent, sent to us

    def is_second(self, *, passed_on: bool) -> bool:
        """Count one that came on this way; whether a person has asked twice."""
        found = self._came[passed_on] or not self._came[not passed_on]
        self._came[passed_on] = True
        return found


def end_process(number: int, which: str) -> NoReturn:
    """End the process at once, as if nobody had caught this signal."""
    name = signal.Signals(number).name
    extra = LogEvent.PROCESS_ENDED_BY_SIGNAL.extra()
    log.warning("%s %s: ends now, what was running comes again", which, name, extra=extra)
    os._exit(_BY_SIGNAL + number)


_masks: dict[int, set[int]] = {}
"""Of threads that fork now: what was blocked before."""


def _before_fork() -> None:
    """Hold signals back until a child has its own handlers: Python forgets what comes before."""
    numbers = {number for taken in list(_held) for number in taken.numbers}
    if numbers:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        _masks[threading.get_ident()] = set(map(int, before))


def _after_fork() -> None:
    before = _masks.pop(threading.get_ident(), None)
    if before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# `forks` has registered before, so in a child the handlers are given back by then.
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def in_handler() -> bool:
    """Whether a signal handler is the caller. It may have interrupted code that holds any lock.

    If a handler waits for another thread, it may wait for ever. Python does not mark a handler's
    frame, but it gives the handler the interrupted frame.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_back is not None and _has_argument(frame, frame.f_back):
            return True
        frame = frame.f_back
    return False


def _has_argument(frame: FrameType, interrupted: FrameType) -> bool:
    """Whether this is among the arguments of a frame's function, also as one of `*arguments`."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & _HAS_VARARGS)
    if not count:
        return False
    values = frame.f_locals
    for name in code.co_varnames[:count]:
        value = values.get(name)
        if value is interrupted or (
            isinstance(value, tuple) and any(it is interrupted for it in value)
        ):
            return True
    return False


_HAS_VARARGS = 0x04  # inspect.CO_VARARGS, without all that inspect imports


def elsewhere(call: Callable[[], object]) -> None:
    """Call on a thread of its own, which the interpreter's end waits for. Takes no lock here."""

    def begin() -> None:
        threading.Thread(target=call, name="coop-close").start()

    _thread.start_new_thread(begin, ())


class Latch:
    """Opens when a future is done. To wait for it is safe in a handler of a signal, too.

    `Future.done` and `concurrent.futures.wait` hold a lock for a moment. A handler that interrupts
    them there and waits would wait for ever.

    Attributes:
        is_open: Whether it is done.
    """

    def __init__(self, future: Future[Any]) -> None:
        self.is_open = False
        self._closed = threading.Lock()
        self._closed.acquire()
        future.add_done_callback(self._open)

    def _open(self, _: object) -> None:
        self.is_open = True
        self._closed.release()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until it is open, but no longer than so many seconds. Whether it is open."""
        if self._closed.acquire(timeout=-1 if timeout_s is None else max(0.0, timeout_s)):
            self._closed.release()
        return self.is_open
