"""How long the sticky assignor thinks: `python -m benchmarks.assignors`.

In: nothing. Out: a table of medians of five runs, for the two sizes that a group's leader must
manage in 50 ms. The cases: from fresh, after a member left, after one joined, after ten joined at
once, and after fifteen rounds. A round replaces a twentieth of the members, so that members hold
many ranges. CPU time, because the machine may be busy.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from time import process_time

from assignors import Assignment, KeyRangeStickyAssignor, Member
from assignors.sticky import SplitMode

LIMIT_MS = 50
RUNS = 5
HOSTS = 20
SIZES: tuple[tuple[int, int, SplitMode], ...] = (
    (100, 1_000, "auto"),
    (100, 1_000, "always"),
    (1_000, 3, "auto"),
)


def measured(
    members: Sequence[Member], partitions: int, split: SplitMode
) -> tuple[Assignment, float]:
    """The plan, and the median time to make it, in milliseconds."""
    plan: Assignment = {}
    times_ms = []
    for _ in range(RUNS):
        begin = process_time()
        plan = KeyRangeStickyAssignor(split).assign(partitions={"t": partitions}, members=members)
        times_ms.append((process_time() - begin) * 1000)
    return plan, median(times_ms)


def newcomers(prefix: str, count: int) -> list[Member]:
    """Members that own nothing, spread over the hosts."""
    return [
        Member(f"{prefix}{number:04}", topics=("t",), host=f"host-{number % HOSTS}")
        for number in range(count)
    ]


def owning(members: Iterable[Member], plan: Assignment) -> list[Member]:
    """The same members, with what a plan gave them."""
    return [replace(member, owned=plan.get(member.id, {})) for member in members]


def churned(members: Sequence[Member], partitions: int, split: SplitMode) -> list[Member]:
    """The group after fifteen rounds of replacement."""
    rng = random.Random(1)
    group = list(members)
    for number in range(15):
        stay = rng.sample(group, k=len(group) - len(group) // 20)
        group = [*stay, *newcomers(f"C{number:02}-", len(group) - len(stay))]
        plan = KeyRangeStickyAssignor(split).assign(partitions={"t": partitions}, members=group)
        group = owning(group, plan)
    return group


def main() -> None:
    """Measure and print."""
    cases = ("fresh", "left", "joined", "ten joined", "churned")
    print(f"{'members':>8}{'partitions':>12}{'split':>8}", *(f"{case:>10}" for case in cases))
    for size, partitions, split in SIZES:
        fresh = newcomers("M", size)
        plan, _ = measured(fresh, partitions, split)
        settled = owning(fresh, plan)
        groups = (
            fresh,
            settled[1:],
            [*settled, *newcomers("X", 1)],
            [*settled, *newcomers("X", 10)],
            churned(settled, partitions, split)[1:],
        )
        times_ms = [measured(group, partitions, split)[1] for group in groups]
        print(f"{size:>8}{partitions:>12}{split:>8}", *(f"{ms:>10.1f}" for ms in times_ms))
    print(f"CPU ms, median of {RUNS} runs; the limit is {LIMIT_MS}")


if __name__ == "__main__":
    main()
