"""What a crash costs: kill -9 of one of twelve members.

`python -m benchmarks kill12`. Each run kills the member that handled most of late. Printed are

    back      from the kill until the last of its keys is at work elsewhere; nobody can know of the
              crash before the session time-out has passed
    repeated  records that it had finished and that came again (I5), and how many may: what it
              finished within the last `commit.interval.ms`, and one for each of its workers
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass
from statistics import median

from benchmarks.group import LOAD, RATE, SIZE, Finding, at_work, promises, show
from benchmarks.machine import CpuMeter, conditions
from benchmarks.stops import absences_ms, finished_late, owned
from tests.chaos.fleet import WORKERS

SESSION_TIMEOUT_MS = 6_000
COMMIT_INTERVAL_MS = 100


@dataclass(frozen=True, slots=True)
class Run:
    """One kill.

    Attributes:
        keys: How many the member owned.
        back_ms: Until the last of them was at work again.
        repeats_allowed: How many records may come again.
        cpu_share: How busy the cores were from the kill on.
    """

    keys: int
    back_ms: float
    repeats_allowed: int
    cpu_share: float
    finding: Finding

    def __str__(self) -> str:
        return (
            f"{self.keys} keys, all back after {self.back_ms:.0f} ms; "
            f"{self.repeats_allowed} repeats allowed; {self.finding}"
        )


def kill12(bootstrap: str, runs: int, *, as_json: bool) -> int:
    """Measure and print; 1 if a record was lost, an order broken, or too many repeated."""
    told = conditions()
    found: list[Run] = []
    for number in range(runs):
        found.append(measured(bootstrap))
        print(f"run {number + 1}: {found[-1]}", file=sys.stderr)
    show(
        {
            "case": "kill12",
            "runs": runs,
            **told,
            "group": SIZE,
            "load": LOAD,
            "cpu_share": [round(run.cpu_share, 2) for run in found],
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "killed_keys": [run.keys for run in found],
            "back_ms": [round(run.back_ms) for run in found],
            "back_median_ms": round(median(run.back_ms for run in found)),
            "repeats_allowed": [run.repeats_allowed for run in found],
            **promises(run.finding for run in found),
        },
        as_json=as_json,
    )
    return int(
        not all(
            run.finding.is_clean and run.finding.repeated <= run.repeats_allowed for run in found
        )
    )


def measured(bootstrap: str) -> Run:
    """One run."""
    settings = {"session.timeout.ms": SESSION_TIMEOUT_MS, "commit.interval.ms": COMMIT_INTERVAL_MS}
    with at_work(bootstrap, own=settings) as group:
        rows = group.fleet.rows
        [(victim, _)] = Counter(row.member for row in rows[-RATE:]).most_common(1)
        pid, killed_ns, cpu = group.fleet.pid(victim), time.monotonic_ns(), CpuMeter()
        group.fleet.kill(victim)
        own, before = owned(list(rows), pid, killed_ns), len(rows)
        group.fleet.wait(
            lambda: own <= {(row.partition, row.key) for row in rows[before:]},
            f"all {len(own)} keys of {victim} to be back",
        )
        cpu_share = cpu.share()
        finding = group.finish()
    absences = absences_ms(finding.rows, pid, killed_ns)
    return Run(
        keys=len(absences),
        back_ms=max(absences),
        repeats_allowed=WORKERS + finished_late(finding.rows, pid, COMMIT_INTERVAL_MS),
        cpu_share=cpu_share,
        finding=finding,
    )
