"""How long the sticky assignor thinks: `python -m benchmarks.assignors`.

In: nothing. Out: a table of medians of five runs, for the two sizes that a group's leader must
manage in 50 ms. The cases: from fresh, after a member left, after one joined, after ten joined at
once, and after fifteen rounds. A round replaces a twentieth of the members, so that members hold
many ranges. Last, a plan by load: forty keys a member by Zipf's law, of an exponent of 0.6, weighed
by their holders as they are after one plan by load; it may take 120 ms. CPU time, because the
machine may be busy.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from time import process_time

from assignors import (
    KEY_HASH_MAX,
    Assignment,
    KeyRangeStickyAssignor,
    Member,
    TopicPartition,
)
from assignors.sticky import SplitMode
from tests.support.weighing import Weighing

LIMIT_MS, LIMIT_BY_LOAD_MS = 50, 120
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


def skewed(keys: int, partitions: int) -> Weighing:
    """Keys on random hashes of random partitions."""
    rng = random.Random(1)
    places: dict[TopicPartition, dict[int, int]] = {
        TopicPartition("t", number): {} for number in range(partitions)
    }
    for rank in range(1, keys + 1):
        of_partition = places[TopicPartition("t", rng.randrange(partitions))]
        of_partition[rng.randrange(KEY_HASH_MAX)] = int(10**13 / rank**0.6)
    return Weighing(places)


def weighed(members: Sequence[Member], plan: Assignment, partitions: int) -> list[Member]:
    """The group with what it holds, and what that costs, after one plan by load."""
    weighing = skewed(40 * len(members), partitions)
    for _ in range(2):
        group = weighing.owning(members, plan)
        plan = KeyRangeStickyAssignor().assign(partitions={"t": partitions}, members=group)
    return group


def main() -> None:
    """Measure and print."""
    cases = ("fresh", "left", "joined", "ten joined", "churned", "by load")
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
            *([weighed(fresh, plan, partitions)] if partitions < size else []),
        )
        times_ms = [measured(group, partitions, split)[1] for group in groups]
        print(f"{size:>8}{partitions:>12}{split:>8}", *(f"{ms:>10.1f}" for ms in times_ms))
    limits = f"{LIMIT_MS}, by load {LIMIT_BY_LOAD_MS}"
    print(f"CPU ms, median of {RUNS} runs; the limit is {limits}")


if __name__ == "__main__":
    main()
