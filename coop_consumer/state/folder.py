"""Where the stores of a process lie: a directory that no other process uses at the same time.

In: `state.dir`, a group, a member's lasting name if it has one. Out: a locked directory, the same
one after a restart if it is free. The lock is the kernel's, so whoever dies gives it back.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from itertools import count
from pathlib import Path
from time import time
from urllib.parse import quote

_KEPT_S = 7 * 86_400
"""What nobody has written to for so long is deleted: it is older than a changelog's memory."""


class Folder:
    """A directory for stores, until `close`.

    Args:
        root: `state.dir`; None: a temporary directory, deleted at the end.
        group: The group's id.
        name: The member's lasting name; None: it takes the first number that is free.

    Attributes:
        path: The directory.
    """

    def __init__(self, root: str | None, group: str, name: str | None) -> None:
        self._is_temporary = root is None
        self._lock = -1
        if root is None:
            self.path = Path(tempfile.mkdtemp(prefix="coop-state-"))
            return
        home = Path(root) / f"group-{quote(group, safe='')}"
        stem = "slot" if name is None else f"member-{quote(name, safe='')}"
        for number in count():
            self.path = home / f"{stem}-{number}"
            self.path.mkdir(parents=True, exist_ok=True)
            if self._locks():
                break
        self._clear()

    def _locks(self) -> bool:
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def _clear(self) -> None:
        old_s = time() - _KEPT_S
        for path in self.path.iterdir():
            if path.is_dir() and path.stat().st_mtime < old_s:
                shutil.rmtree(path, ignore_errors=True)

    def store(self, topic: str, partition: int, topic_id: bytes) -> Path:
        """The directory of a partition's store."""
        return self.path / f"{topic}-{partition}-{topic_id.hex()}"

    def close(self) -> None:
        """Give it back, or delete it if it is temporary."""
        if self._is_temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        elif self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
