"""What rebalances cost keys: a member added and another one removed every five seconds.

`python -m benchmarks churn [--seconds N]`. Each run is one group, watched twice under the same
load: for N seconds in peace, then for N seconds of changes. Newcomers' processes are started
beforehand and wait, so that their start takes no core from the others. Printed are

    gap     keys whose owner stays: p99.9 of the times between two records of a key (I6)
    ratio   this gap with changes over the one without
    move    keys that moved: how long the new owner's first record waited, from the end of the old
            owner's last handler, or its own making if that was later; the longest of all
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from threading import Event

from benchmarks.group import LOAD, SIZE, Finding, Group, at_work, promises, show
from benchmarks.machine import CpuMeter, conditions
from benchmarks.stops import gaps_ms, moves_ms, percentile

EVERY_S = 5
_SHARE = 0.999


@dataclass(frozen=True, slots=True)
class Watch:
    """A stretch of time, by the monotonic clock, and how busy all cores were in it."""

    since_ns: int
    until_ns: int
    cpu_share: float

    def gap_ms(self, finding: Finding) -> float:
        """p99.9 for keys whose owner stayed."""
        rows = [row for row in finding.rows if self.since_ns <= row.started_ns < self.until_ns]
        return percentile(gaps_ms(rows), _SHARE)


@dataclass(frozen=True, slots=True)
class Run:
    """One group, in peace and with changes.

    Attributes:
        gap_quiet_ms: In peace.
        gap_churn_ms: With changes.
        moves_ms: Of each key that moved.
        cpu_shares: How busy the cores were in peace, and with changes.
    """

    gap_quiet_ms: float
    gap_churn_ms: float
    moves_ms: Sequence[float]
    cpu_shares: tuple[float, float]
    finding: Finding

    @property
    def ratio(self) -> float:
        """What the changes cost those that stay."""
        return self.gap_churn_ms / self.gap_quiet_ms

    def __str__(self) -> str:
        return (
            f"gap {self.gap_quiet_ms:.0f} ms, with changes {self.gap_churn_ms:.0f} ms; "
            f"{len(self.moves_ms)} keys moved, the longest took {max(self.moves_ms):.0f} ms; "
            f"{self.finding}"
        )


def churn(bootstrap: str, runs: int, seconds: int, *, as_json: bool) -> int:
    """Measure and print; 1 if a record was lost, an order broken, or a member fell."""
    told = conditions()
    found: list[Run] = []
    for number in range(runs):
        found.append(measured(bootstrap, seconds, Random(number)))
        print(f"run {number + 1}: {found[-1]}", file=sys.stderr)
    show(
        {
            "case": "churn",
            "runs": runs,
            **told,
            "group": SIZE,
            "load": LOAD,
            "seconds": seconds,
            "changes": seconds // EVERY_S,
            "cpu_share": [[round(share, 2) for share in run.cpu_shares] for run in found],
            "gap_quiet_ms": [round(run.gap_quiet_ms) for run in found],
            "gap_churn_ms": [round(run.gap_churn_ms) for run in found],
            "ratio": round(median(run.ratio for run in found), 2),
            "moved_keys": [len(run.moves_ms) for run in found],
            "move_median_ms": [round(median(run.moves_ms)) for run in found],
            "move_longest_ms": [round(max(run.moves_ms)) for run in found],
            **promises(run.finding for run in found),
        },
        as_json=as_json,
    )
    return int(not all(run.finding.is_clean for run in found))


def measured(bootstrap: str, seconds: int, rng: Random) -> Run:
    """One run; `rng` chooses who leaves."""
    newcomers = [f"new{number}" for number in range(seconds // EVERY_S)]
    with at_work(bootstrap, newcomers) as group:
        quiet = watched(lambda: wait_until(time.monotonic() + seconds))
        changing = watched(lambda: change(group, newcomers, rng))
        finding = group.finish()
    return Run(
        gap_quiet_ms=quiet.gap_ms(finding),
        gap_churn_ms=changing.gap_ms(finding),
        moves_ms=moves_ms(finding.rows, finding.made_ns),
        cpu_shares=(quiet.cpu_share, changing.cpu_share),
        finding=finding,
    )


def change(group: Group, newcomers: Sequence[str], rng: Random) -> None:
    """Every five seconds one comes and another one goes."""
    began_s = time.monotonic()
    for number, newcomer in enumerate(newcomers):
        wait_until(began_s + number * EVERY_S)
        group.exchange(newcomer, rng.choice(group.members))
    wait_until(began_s + len(newcomers) * EVERY_S)


def watched(lasting: Callable[[], None]) -> Watch:
    """Watch as long as something lasts."""
    since_ns, cpu = time.monotonic_ns(), CpuMeter()
    lasting()
    return Watch(since_ns, time.monotonic_ns(), cpu.share())


def wait_until(moment_s: float) -> None:
    """Wait until the monotonic clock shows this."""
    Event().wait(max(0.0, moment_s - time.monotonic()))
