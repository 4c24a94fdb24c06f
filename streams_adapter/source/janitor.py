"""Clears the folder in which tasks meet. A process of its own, as tasks are killed at any time.

In: the folder; it has a folder for each scan, on which every task of the scan that runs here holds
a shared lock. Out: nothing is left of a scan whose tasks have gone. It knows of no other module, so
that it starts in 20 ms. One for each folder: it holds the folder's own lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

GRACE_S = 2.0
"""For this long a scan may have no task at work, while other scans have the slots."""
IDLE_S = 10.0
"""How long it waits for the next scan."""
LOOK_S = 0.005
AT_WORK = "at.*"
"""Begins the name of a file of each task that has not read to its end. If no task of the scan runs,
the task was broken off, as by `take` or a kill: nobody will want the rest."""


def main(root: Path) -> None:
    """Stay until there was no scan for a while."""
    while True:
        with _locked(root) as is_ours:
            if not is_ours:
                return  # there is one already
            _watch(root)
        # A task makes its folder first, and then looks for the lock.
        if not _scans(root):
            return


def _watch(root: Path) -> None:
    since_s = time.monotonic()
    while time.monotonic() - since_s < IDLE_S:
        for scan in _scans(root):
            since_s = time.monotonic()
            _look(scan)
        time.sleep(LOOK_S)


def _look(scan: Path) -> None:
    with suppress(OSError), _locked(scan) as is_ours:
        if not is_ours:
            return
        is_broken_off = any(scan.glob(f"*/{AT_WORK}"))
        if is_broken_off or time.time() - scan.stat().st_mtime >= GRACE_S:
            shutil.rmtree(scan, ignore_errors=True)


def _scans(root: Path) -> list[Path]:
    try:
        return [path for path in root.iterdir() if path.is_dir()]
    except OSError:
        return []


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether nobody else has a lock of it; then it is ours for the block."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # whoever calls need not wait for its end
    with suppress(OSError):  # the folder is gone: there is nothing to clear
        main(Path(sys.argv[1]))
