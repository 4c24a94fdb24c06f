"""Kills a process with all its children at once, so that no test waits for orphans.

In: a process. Out: its end. Where the system does not list children, orphans end by themselves: a
worker process without its parent does so within seconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path


def kill_with_children(process: subprocess.Popen[str]) -> None:
    """Kill a process, and what it has started before; nothing that has ended."""
    children = [] if process.poll() is not None else _children_of(process.pid)
    process.kill()  # first, as it would start some anew
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return []
    found = list(map(int, text.split()))
    return [*found, *(it for child in found for it in _children_of(child))]
