"""Where the stores of a process lie: a directory that no other process uses at the same time.

In: `state.dir`, a group, a member's lasting name if it has one. Out: a locked directory: the one
that a member of this name had last, if it is free, else any free one. The lock is the kernel's, so
it is released when its owner dies. The directory's last owner is noted in it. Unused directories
are deleted after some time, whoever left them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path
from stat import S_ISDIR
from time import time
from urllib.parse import quote

_KEPT_S = 7 * 86_400
"""A directory unused for so long is deleted: it is older than a changelog's memory of deletions."""
_LOCK = "lock"
_TEMPORARY = "coop-state-"


class Folder:
    """A directory for stores, until `close`.

    Args:
        root: `state.dir`; None: a temporary directory, deleted at the end.
        group: The group's id.
        name: The member's lasting name, if it has one.

    Attributes:
        path: The directory.
    """

    def __init__(self, root: str | None, group: str, name: str | None) -> None:
        self._is_temporary = root is None
        if root is None:
            _delete_unused(Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*"), 0)
            self._lock_first_free(Path(tempfile.mkdtemp(prefix=_TEMPORARY)) for _ in count())
            return
        home = Path(root) / f"group-{quote(group, safe='')}"
        home.mkdir(parents=True, exist_ok=True)
        _delete_unused(home.iterdir(), _KEPT_S)
        noted = "" if name is None else name
        found = sorted(
            (_last_owner(path) != noted, _last_owner(path), path) for path in home.iterdir()
        )
        if not self._lock_first_free(path for *_, path in found):
            self._lock_first_free(_made(home / f"slot-{number}") for number in count())
        os.truncate(self._lock, 0)
        os.pwrite(self._lock, noted.encode(), 0)
        os.utime(self._lock)
        self._clear()

    def _lock_first_free(self, paths: Iterable[Path]) -> bool:
        """Lock the first free directory."""
        for self.path in paths:
            lock = _locked(self.path)
            if lock is not None:
                self._lock = lock
                return True
        return False

    def _clear(self) -> None:
        old_s = time() - _KEPT_S
        for path in self.path.iterdir():
            if path.is_dir() and path.stat().st_mtime < old_s:
                shutil.rmtree(path, ignore_errors=True)

    def store(self, topic: str, partition: int, topic_id: bytes) -> Path:
        """The directory of a partition's store."""
        return self.path / f"{topic}-{partition}-{topic_id.hex()}"

    def size(self) -> int:
        """Bytes of all its files. O(files)."""
        size = 0
        for path in self.path.rglob("*"):
            with suppress(OSError):  # stores delete old files meanwhile
                size += path.lstat().st_size if path.is_file() else 0
        return size

    def close(self) -> None:
        """Release the directory, or delete it if it is temporary."""
        if self._lock < 0:
            return
        if self._is_temporary:
            _delete(self.path)
        os.close(self._lock)
        self._lock = -1


def _made(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


def _locked(path: Path) -> int | None:
    """The lock of a directory; None: another process has it, or deletes the directory."""
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), (path / _LOCK).stat()):  # else it was deleted
            return lock
    os.close(lock)
    return None


def _last_owner(path: Path) -> str:
    """Name of the last owner; "" if it had no lasting name."""
    try:
        return (path / _LOCK).read_text()
    except OSError:
        return ""


def _delete_unused(paths: Iterable[Path], kept_s: float) -> None:
    """Delete this user's directories that nobody has locked or written to for this time."""
    for path in paths:
        with suppress(OSError):  # other processes clean up here, too
            told = path.lstat()
            if not S_ISDIR(told.st_mode) or told.st_uid != os.geteuid():
                continue
            if max(it.stat().st_mtime for it in [path, *path.iterdir()]) > time() - kept_s:
                continue
            lock = _locked(path)
            if lock is not None:
                _delete(path)
                os.close(lock)


def _delete(path: Path) -> None:
    """Delete a directory whose lock we have.

    The lock file goes last. A process that takes the lock later sees another file, or a new one. In
    that case the directory stays.
    """
    for child in path.iterdir():
        if child.name != _LOCK:
            shutil.rmtree(child, ignore_errors=True)
    with suppress(OSError):
        (path / _LOCK).unlink()
        path.rmdir()
