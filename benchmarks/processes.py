"""What Linux tells of processes while they live, CPU time and memory; and a process for one call.

In: process ids. Out: seconds and megabytes; 0 of a process that has gone. It imports nothing of
this library: peers' environments use it too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_KB_PER_MB = 1_024
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Usage:
    """What some processes have used."""

    cpu_s: float = 0.0
    resident_mb: float = 0.0


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, and of its children that have ended."""
    fields = _fields(pid)
    # From the state on, which is field 3: user and system time are fields 14 to 17; see proc(5).
    return sum(map(int, fields[11:15])) / _TICKS_A_SECOND


def resident_mb(pid: int | str = "self") -> float:
    """The most that was ever resident of a process.

    Not `ru_maxrss`: that of a child begins with what its parent had when it was forked off.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    [peak] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")] or ["0"]
    return int(peak) / _KB_PER_MB


def of_group(group: int) -> Usage:
    """Of all living processes of a process group, each at its worst."""
    pids = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_of(pid, group)]
    return Usage(sum(map(cpu_s, pids)), sum(map(resident_mb, pids)))


def of_session(session: int) -> Usage:
    """Of all living processes of a session; its processes may have made groups of their own."""
    pids = map(int, filter(str.isdigit, os.listdir("/proc")))
    mine = [pid for pid in pids if _fields(pid)[3:4] == [str(session)]]
    return Usage(sum(map(cpu_s, mine)), sum(map(resident_mb, mine)))


def alone(function: Callable[..., T], *arguments: object) -> T:
    """Call it in a process of its own: memory and CPU time are those of the call."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def _is_of(pid: int, group: int) -> bool:
    return _fields(pid)[2:3] == [str(group)]


def _fields(pid: int) -> list[str]:
    """From the third on: state, parent, group, and so on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []
