"""Forks: a forked child shuts its copy of a member at once. No Kafka in here.

A fork copies all memory and shares all sockets, but the child has only the thread that forked. So a
copy of a member has running handlers, and no thread that fetches, commits or answers. In: objects
that must not run in a child (`watch`). Out: in each child, `shut_in_fork` is called on them before
anything else runs there. A child that returns from a handler into our code ends (`end`).

The child keeps a shut object until it ends: a destructor would close what the parent uses.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, Protocol
from weakref import WeakSet

from coop_consumer.errors import MisuseError
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

log = logging.getLogger(__name__)

_END_S = 5.0
"""Last words may wait for a lock: one that some thread held when the process forked."""


class Shuttable(Protocol):
    """An object that must not run in a forked child."""

    def shut_in_fork(self) -> None:
        """This process is a forked child: do nothing more here. Takes no lock, closes nothing."""


_watched: WeakSet[Shuttable] = WeakSet()


def watch(it: Shuttable) -> None:
    """From now on, shut this in every forked child."""
    _watched.add(it)


def keep(*them: object) -> None:
    """Never destroy these in this process."""
    for it in them:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(it))


def _shut_all() -> None:
    for it in list(_watched):
        keep(it)
        it.shut_in_fork()


os.register_at_fork(after_in_child=_shut_all)


def misuse(call: str, what: str) -> MisuseError:
    """The error of a call in a forked child, of what was made before the fork."""
    problem = (
        f"{what} was made before this process ({os.getpid()}) was forked off, and its threads and "
        "clients are its parent's"
    )
    return MisuseError(call, problem, "Make a new one here, after the fork")


class Shut:
    """A substitute for something that a forked child must not use: any use raises.

    Args:
        call: The user's call, for the error.
        what: The owner of the original.
    """

    def __init__(self, call: str, what: str) -> None:
        self._told = call, what

    def __getattr__(self, _: str) -> NoReturn:
        raise misuse(*self._told)

    def __getitem__(self, _: object) -> NoReturn:
        raise misuse(*self._told)

    def __len__(self) -> NoReturn:
        raise misuse(*self._told)

    def __enter__(self) -> NoReturn:
        raise misuse(*self._told)

    def __exit__(self, *_: object) -> None:
        """Never: nobody enters."""


class Ending:
    """In place of a lock that our own code takes: who comes there in a forked child has to end.

    Args:
        name: Whose handler it comes from, for the log.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, _: str) -> NoReturn:
        end(self._name)

    def __enter__(self) -> NoReturn:
        end(self._name)

    def __exit__(self, *_: object) -> None:
        """Never: nobody enters."""


def end(name: str, error: BaseException | None = None) -> NoReturn:
    """End this process, a forked child that has left the user's code.

    Args:
        name: The handler that forked it, for the log.
        error: The error of the user's code; None: the code returned as in the parent. The exit code
            of `sys.exit` holds; any other error gives 1, and no error gives 0.
    """
    code = _exit_code(error)
    end_soon(code)
    with suppress(Exception):
        _report_end(name, error, code)
    flush_streams()
    os._exit(code)


def exit_now(code: int) -> NoReturn:
    """End this process with what it has printed, and nothing else, in 5 s at most."""
    end_soon(code)
    flush_streams()
    os._exit(code)


def end_soon(code: int) -> None:
    """Let this process end within 5 s, whatever its threads do."""
    last = threading.Timer(_END_S, os._exit, (code,))
    last.daemon = True
    last.start()


def _report_end(name: str, error: BaseException | None, code: int) -> None:
    if isinstance(error, SystemExit):
        told = "%s: process %d, forked off here, ends by sys.exit"
        log.info(told, name, os.getpid(), extra=LogEvent.FORK_EXITED.extra())
        return
    log.warning(
        "%s: process %d, which was forked off here, has come back from the worker's code. It is no "
        "member of the group, so it ends now with exit code %d; the member goes on in its parent. "
        "End such a process by os._exit(), or start it by subprocess or multiprocessing",
        name,
        os.getpid(),
        code,
        exc_info=error,
        extra=LogEvent.FORK_CAME_BACK.extra(error=error),
    )


def _exit_code(error: BaseException | None) -> int:
    if not isinstance(error, SystemExit):
        return int(error is not None)
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    with suppress(Exception):
        print(error.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
    return 1


def flush_streams() -> None:
    """Write out what was printed; `os._exit` does not."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):  # it may be None, closed, or a stranger's
            stream.flush()


def end_loop(loop: AbstractEventLoop, name: str) -> None:
    """Let the next thing that an event loop runs be the end of this process, a forked child.

    Its other tasks are copies of the parent's, and its selector is shared with the parent.
    """
    ready: Any = getattr(loop, "_ready", None)
    if ready is None:  # uvloop has its own, which Python does not see as an attribute
        ready = next((it for it in gc.get_referents(loop) if isinstance(it, deque)), None)
    with suppress(RuntimeError):  # it is closed
        loop.call_soon(end, name)
        if ready is not None:
            ready.rotate(1)
