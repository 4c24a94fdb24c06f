"""The cores that this process may use: a container may allow fewer than there are."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """How many cores the calling thread may run on, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
