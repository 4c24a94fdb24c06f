"""Who is measured: this library, and what users would pick instead of it.

In: a case. Out: who takes part, and by which command; or why somebody does not. A peer that cannot
be had says so in its row, with the reason, and is never left out in silence.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from benchmarks.case import Case
from benchmarks.job import Job
from benchmarks.peers import parallel, pyrallel_venv


@dataclass(frozen=True, slots=True)
class System:
    """Somebody who takes part.

    Attributes:
        keeps_order: Whether it promises the order by key.
        handles: Whether it has a handler; else it only touches records, and nothing is judged.
        command: Makes the command line of one of its processes.
        told_version: What is measured. Both raise `PeerMissingError` where it cannot be had.
        processes: How many processes of it take part in a case.
        unfit: Why it cannot take part in a case, or "".
    """

    name: str
    keeps_order: bool
    handles: bool
    command: Callable[[Job], list[str]]
    told_version: Callable[[], str]
    processes: Callable[[Case], int]
    unfit: Callable[[Case], str]


_PROCESSES_MAX = 16


def own_command(job: Job) -> list[str]:
    """A process of this environment."""
    return [sys.executable, "-m", "benchmarks.child", job.argument()]


def _clients() -> str:
    return f"confluent-kafka {version('confluent-kafka')}"


def _one(_: Case) -> int:
    return 1


def _of_plain(case: Case) -> int:
    return case.members if case.members > 1 else case.partitions


def _only_nothing(case: Case) -> str:
    return "" if case.work in ("nothing", "batch") else "it only touches records"


def _only_alone(case: Case) -> str:
    if case.members > 1:
        return "no two of its processes can share a partition"
    return ""


def _only_records(case: Case) -> str:
    return "it has no batches" if case.work == "batch" else _only_alone(case)


def _always(_: Case) -> str:
    return ""


def _few_processes(case: Case) -> str:
    return "it would be a process a partition" if _of_plain(case) > _PROCESSES_MAX else ""


def _no_sending(unfit: Callable[[Case], str]) -> Callable[[Case], str]:
    return lambda case: "it has no transactions" if case.sends else unfit(case)


def _only_threads(case: Case) -> str:
    if case.work == "burn":
        return "its processes are to have a core each"
    return "its processes share the cores" if case.members > 1 else ""


def _own_version() -> str:
    return f"coop-consumer {version('coop-consumer')}"


OURS = System("ours", True, True, own_command, _own_version, lambda case: case.members, _always)
AT_LEAST_ONCE, EXACTLY_ONCE = (
    System(name, True, True, own_command, _own_version, _one, _always)
    for name in ("at-least-once", "exactly-once")
)
"""The same by the guarantee that it is asked for. Where handlers send nothing, `ours` has the first
one."""
ONE_CORE = System("ours-one-core", True, True, own_command, _own_version, _one, _only_threads)
"""The same as `coop-consumer run --one-core` runs it; all else is at its default."""
WATCHED = System("ours-watched", True, True, own_command, _own_version, _one, _always)
"""The same as `coop-consumer run --ops` runs it; `benchmarks.ops` scrapes it."""
UNSAMPLED, SAMPLED = (
    System(name, True, True, own_command, _own_version, _one, _always)
    for name in ("ours-unsampled", "ours-sampled")
)
"""The same with `tracing=on`, and a sampler that drops all spans, or none."""

PEERS = {
    it.name: it
    for it in (
        System("raw", True, False, own_command, _clients, _one, _only_nothing),
        System("plain", True, True, own_command, _clients, _of_plain, _no_sending(_few_processes)),
        System("lanes", True, True, own_command, _clients, _one, _no_sending(_only_records)),
        System(
            "pyrallel-consumer",
            True,
            True,
            pyrallel_venv.command,
            pyrallel_venv.told_version,
            _one,
            _no_sending(_only_records),
        ),
        System(
            "parallel-consumer",
            True,
            True,
            parallel.command,
            parallel.told_version,
            _one,
            _only_alone,
        ),
    )
}
"""By name."""
