"""The threads and files that this machine allows a command; checked before any client starts.

In: how many threads it will need. Out: nothing, or an error with an exit code of its own. If a
client in C gets no thread or file in the middle of its start, it aborts the process, and the abort
does not name the reason. So threads and files are asked for here first.
"""

from __future__ import annotations

import os
import resource
import threading
from _thread import start_new_thread
from pathlib import Path

from coop_consumer.errors import OutOfFilesError, OutOfMemoryError, OutOfThreadsError

FILES_MIN = 40
"""Open files of a command's clients at the start, with one broker and some room."""
CLIENT_THREADS = 40
"""Those of the clients, and ours besides the workers."""
LOOK_THREADS = 20
"""The most threads of a command that joins no group; `status` has 19."""
SET_THREADS, SET_FILES = 40, 90
"""The most threads and files of one of the sets of clients by which many groups are watched, with
three brokers. With one it has 25 and 46, if some of the groups work with exactly once: then it has
readers of both kinds."""
_OPEN_FILES = Path("/proc/self/fd")
_SIZES = Path("/proc/self/statm")
_MOST_THREADS = (Path("/proc/sys/kernel/threads-max"), Path("/proc/sys/kernel/pid_max"))
"""What Linux has for all processes together."""
_STACK_BYTES = 8 << 20
"""Address space for a thread's stack, if no limit says otherwise."""
_ARENA_BYTES = 128 << 20
"""glibc reserves so much for a new thread's first allocation, and gives half of it back at once."""


def refuse_too_little(workers: int, *, has_threads: bool) -> None:
    """See that a member can start; 5 ms for 100 threads.

    Args:
        workers: How many it has.
        has_threads: Whether each of them is a thread of this process.

    Raises:
        OutOfFilesError, OutOfMemoryError, OutOfThreadsError: It cannot.
    """
    _refuse_few_files()
    _refuse_beyond_the_machine(workers)
    _refuse_few_threads((workers if has_threads else 0) + CLIENT_THREADS)


def refuse_too_little_for_a_look() -> None:
    """See that the clients of a command can start that joins no group; 1 ms.

    Raises:
        OutOfFilesError, OutOfMemoryError, OutOfThreadsError: They cannot.
    """
    _refuse_few_files()
    _refuse_few_threads(LOOK_THREADS)


def refuse_too_little_for_watches(groups: int, sets: int) -> None:
    """See that so many groups can be watched, whose looks share so many sets of clients; 5 ms.

    A group takes a thread, and no file. So the usual limit of 1,024 files is enough for any number.

    Raises:
        OutOfFilesError, OutOfMemoryError, OutOfThreadsError: They cannot.
    """
    _refuse_few_files(sets * SET_FILES)
    refuse_too_few_threads_for_watches(groups, sets)


def refuse_too_few_threads_for_watches(groups: int, sets: int) -> None:
    """The same of threads alone: of groups that come while others are watched.

    Clients are made when they are needed. So there must be room for all of them, also later.

    Raises:
        OutOfMemoryError, OutOfThreadsError: They cannot be watched.
    """
    _refuse_few_threads(sets * SET_THREADS + groups)


def _refuse_few_files(count: int = FILES_MIN) -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or not _OPEN_FILES.exists():
        return
    try:
        left = limit - len(os.listdir(_OPEN_FILES))
    except OSError as error:
        raise OutOfFilesError(str(error)) from error
    if left < count:
        raise OutOfFilesError(f"the limit is {limit}, which leaves {left}")


def _refuse_beyond_the_machine(count: int) -> None:
    """Refuse what cannot be, before trying takes all threads and all memory from others."""
    for path in _MOST_THREADS:
        if path.exists() and count > (most := int(path.read_text(encoding="ascii"))):
            wanted = f"{count:,} of {most:,} that this machine has for all processes"
            raise OutOfThreadsError(f"{wanted} were to be started")


def _refuse_few_threads(count: int) -> None:
    """Start so many threads at once, for a moment: this meets every kind of limit.

    Not by `threading`: its `start` waits for ever for a thread that gets no memory.
    """
    go = threading.Event()
    begun = 0
    try:
        for begun in range(count):  # noqa: B007 - the error names it if the next one cannot begin
            start_new_thread(go.wait, ())
    except (RuntimeError, MemoryError) as error:
        detail = f"{error}; {begun} of {count} could be started"
        if isinstance(error, MemoryError) or _has_no_room_for_a_stack():
            detail += f", and the limit is {_address_space()}"
            raise OutOfMemoryError(detail) from error
        raise OutOfThreadsError(detail) from error
    finally:
        go.set()


def _has_no_room_for_a_stack() -> bool:
    """Whether the address space is used up. The system then says the same as without a thread."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or not _SIZES.exists():
        return False
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    used = int(_SIZES.read_text().split()[0]) * resource.getpagesize()
    stacks = 2 * (_STACK_BYTES if stack == resource.RLIM_INFINITY else stack)
    return limit - used < stacks + _ARENA_BYTES


def _address_space() -> str:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return "none" if limit == resource.RLIM_INFINITY else f"{limit >> 20} MiB (ulimit -v)"
