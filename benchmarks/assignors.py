"""How long the sticky assignor thinks: `python -m benchmarks.assignors`.

In: nothing. Out: a table of medians of five runs, for the two sizes that a group's leader must
manage in 50 ms, each from fresh, after one member left, and after one joined. Touches nothing but
the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter

from assignors import Assignment, KeyRangeStickyAssignor, Member

LIMIT_MS = 50
RUNS = 5
SIZES = ((100, 1_000), (1_000, 3))


def measured(members: Sequence[Member], partitions: int) -> tuple[Assignment, float]:
    """The plan, and the median time to make it, in milliseconds."""
    plan: Assignment = {}
    times_ms = []
    for _ in range(RUNS):
        begin = perf_counter()
        plan = KeyRangeStickyAssignor().assign(partitions={"t": partitions}, members=members)
        times_ms.append((perf_counter() - begin) * 1000)
    return plan, median(times_ms)


def main() -> None:
    """Measure and print."""
    print(f"{'members':>8}{'partitions':>12}{'case':>10}{'ms':>8}   limit {LIMIT_MS} ms")
    for size, partitions in SIZES:
        members = [Member(f"M{number:04}", topics=("t",)) for number in range(size)]
        plan, fresh_ms = measured(members, partitions)
        settled = [replace(member, owned=plan[member.id]) for member in members]
        _, left_ms = measured(settled[1:], partitions)
        _, joined_ms = measured([*settled, Member("newcomer", topics=("t",))], partitions)
        for case, time_ms in (("fresh", fresh_ms), ("left", left_ms), ("joined", joined_ms)):
            print(f"{size:>8}{partitions:>12}{case:>10}{time_ms:>8.1f}")


if __name__ == "__main__":
    main()
