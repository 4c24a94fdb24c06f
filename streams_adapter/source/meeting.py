"""Where the tasks of an executor meet, and who of a scan is there.

In: the names of a scan and a partition. Out: a folder in which all tasks meet that read key ranges
of it, for as long as one of them runs. A task's lock on its scan's folder says that it is there;
the kernel gives it back however the task ends. Then the janitor clears up.
"""

from __future__ import annotations

import fcntl
import inspect
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coop_consumer.log_events import LogEvent
from streams_adapter.source import janitor

log = logging.getLogger(__name__)

_TRIES = 10


def meeting_place() -> Path:
    """The folder of all scans: on the disk that the executor shuffles by, or the system's.

    Spark names each executor's own folders to its tasks, so those of another one, be it on the same
    host, meet elsewhere.
    """
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    return Path(local) / f"coop-keyrange-{os.getuid()}"


@contextmanager
def present(root: Path, scan: str, partition: str) -> Iterator[Path]:
    """Be there, for a block; gives the partition's folder.

    The last of a scan removes the scan's folder if it is empty, or if its task is broken off.

    Raises:
        OSError: There can be no such folder.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise PermissionError(f"{root} is another user's")
    folder = root / scan
    descriptor = _held(folder)
    try:
        place = folder / partition
        place.mkdir(mode=0o700, exist_ok=True)
        os.utime(folder)
        summon(root)
        is_broken_off = False
        try:
            yield place
        except GeneratorExit:
            is_broken_off = True
            raise
        finally:
            with suppress(OSError):  # others are there, or other partitions
                os.utime(folder)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_broken_off:
                    shutil.rmtree(folder, ignore_errors=True)
                else:
                    folder.rmdir()
    finally:
        os.close(descriptor)


def _held(folder: Path) -> int:
    """A shared lock of the folder that is there now: somebody may just clear it away."""
    for _ in range(_TRIES):
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), folder.stat()):
                return descriptor
        os.close(descriptor)
    raise FileNotFoundError(f"{folder} is cleared again and again")


def summon(root: Path) -> None:
    """See that a janitor is there; it outlives this process, which may be killed at any time."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)
    command = [sys.executable, "-I", "-S", "-c", inspect.getsource(janitor), str(root)]
    nothing = subprocess.DEVNULL
    try:
        subprocess.run(  # noqa: S603 - our own interpreter and code
            command,
            cwd="/",
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            start_new_session=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        told = "%s: nobody clears it before the application ends (%s). Nothing is lost"
        extra = LogEvent.SPARK_FOLDER_STAYS.extra(error=error)
        log.warning(told, root, error, extra=extra)
