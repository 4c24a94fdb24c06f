"""Which structure for which look-up: what `offsets` chose, against what it might have chosen.

`python -m benchmarks.structures` prints three tables, CPU time, the best of three runs each:
records in flight (admit, finish, find the first unfinished once in 64 steps), progress over the
hash space (merge and look up), and the tenures that overlap a range.
"""

from __future__ import annotations

import heapq
import random
import time
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial

from intervaltree import IntervalTree
from sortedcontainers import SortedDict  # type: ignore[import-untyped] # it ships no types

from assignors.key_hash import KEY_HASH_MAX
from assignors.key_range import WHOLE
from offsets import PartitionProgress, RangeProgress

RECORDS = 120_000
BATCH = 64


def best_ns(run: Callable[[], object], count: int) -> float:
    """CPU nanoseconds a step, the best of three."""
    times = []
    for _ in range(3):
        begun = time.process_time_ns()
        run()
        times.append(time.process_time_ns() - begun)
    return min(times) / count


# ── Records in flight ──


def steps(window: int, order: str) -> Iterator[tuple[bool, int]]:
    """Admissions (True, offset) and completions (False, offset), `window` in flight in between."""
    rng = random.Random(1)
    flying: deque[int] = deque()
    for offset in range(RECORDS):
        yield True, offset
        flying.append(offset)
        if len(flying) > window:
            yield False, finished(flying, order, rng)
    while flying:
        yield False, finished(flying, order, rng)


def finished(flying: deque[int], order: str, rng: random.Random) -> int:
    """Take out the record that ends next: the first, the second (the first straggles), or any."""
    if order == "random":
        i = rng.randrange(len(flying))
        flying[0], flying[i] = flying[i], flying[0]
    elif order == "straggler" and len(flying) > 1:
        flying[0], flying[1] = flying[1], flying[0]
    return flying.popleft()


def plain_dict(trace: list[tuple[bool, int]]) -> None:
    """The tracker's way: the first entry of a dict, which steps over deleted ones."""
    pending: dict[int, int] = {}
    for i, (admitted, offset) in enumerate(trace):
        if admitted:
            pending[offset] = offset
        else:
            del pending[offset]
        if i % BATCH == 0:
            next(iter(pending), None)


def ordered_dict(trace: list[tuple[bool, int]]) -> None:
    """A dict with a linked list: the first entry at once."""
    pending: OrderedDict[int, int] = OrderedDict()
    for i, (admitted, offset) in enumerate(trace):
        if admitted:
            pending[offset] = offset
        else:
            del pending[offset]
        if i % BATCH == 0:
            next(iter(pending), None)


def dict_and_deque(trace: list[tuple[bool, int]]) -> None:
    """A dict, and a queue of offsets whose finished front is thrown away lazily."""
    pending: dict[int, int] = {}
    queue: deque[int] = deque()
    for i, (admitted, offset) in enumerate(trace):
        if admitted:
            pending[offset] = offset
            queue.append(offset)
        else:
            del pending[offset]
        if i % BATCH == 0:
            while queue and queue[0] not in pending:
                queue.popleft()


def dict_and_heap(trace: list[tuple[bool, int]]) -> None:
    """A dict, and a heap of offsets whose finished top is thrown away lazily."""
    pending: dict[int, int] = {}
    heap: list[int] = []
    for i, (admitted, offset) in enumerate(trace):
        if admitted:
            pending[offset] = offset
            heapq.heappush(heap, offset)
        else:
            del pending[offset]
        if i % BATCH == 0:
            while heap and heap[0] not in pending:
                heapq.heappop(heap)


def sorted_dict(trace: list[tuple[bool, int]]) -> None:
    """sortedcontainers: sorted in any order of admission, which is not needed."""
    pending: SortedDict[int, int] = SortedDict()
    for i, (admitted, offset) in enumerate(trace):
        if admitted:
            pending[offset] = offset
        else:
            del pending[offset]
        if i % BATCH == 0 and pending:
            pending.peekitem(0)


def in_flight() -> None:
    """Print CPU ns a record."""
    ways = (plain_dict, ordered_dict, dict_and_deque, dict_and_heap, sorted_dict)
    print("records in flight: CPU ns a record (admit, finish; first unfinished once in 64 steps)")
    print(f"{'window, order':>20}", *(f"{way.__name__:>15}" for way in ways))
    for window in (64, 1_000, 60_000):
        for order in ("ascending", "random", "straggler"):
            trace = list(steps(window, order))
            figures = [best_ns(partial(way, trace), RECORDS) for way in ways]
            print(f"{window:>9,}, {order:<9}", *(f"{figure:>15.0f}" for figure in figures))


# ── Progress over the hash space ──


def bisected(facts: list[RangeProgress], probes: list[int]) -> tuple[float, float]:
    """CPU ns of a merge and of a look-up by `PartitionProgress`."""

    def build() -> PartitionProgress:
        progress = PartitionProgress()
        for fact in facts:
            progress.merge(fact)
        return progress

    progress = build()
    look_up = best_ns(lambda: [progress.is_done(h, 500) for h in probes], len(probes))
    return best_ns(build, len(facts)), look_up


def by_tree(facts: list[RangeProgress], probes: list[int]) -> tuple[float, float]:
    """The same by an interval tree of disjoint pieces."""

    def build() -> IntervalTree:
        tree = IntervalTree()
        for fact in facts:
            lo, stop = fact.range.lo, fact.range.hi + 1
            tree.slice(lo)
            tree.slice(stop)
            known = tree.overlap(lo, stop)
            tree.remove_overlap(lo, stop)
            for piece in known:
                tree.addi(piece.begin, piece.end, max(piece.data, fact.stable))
            if not known:
                tree.addi(lo, stop, fact.stable)
        return tree

    tree = build()
    look_up = best_ns(
        lambda: [any(piece.data > 500 for piece in tree.at(h)) for h in probes], len(probes)
    )
    return best_ns(build, len(facts)), look_up


def over_hashes() -> None:
    """Print CPU ns a merge and a look-up."""
    rng = random.Random(2)
    probes = [rng.randrange(KEY_HASH_MAX) for _ in range(2_000)]
    print("\nprogress over the hash space: CPU ns a merge, a look-up")
    print(f"{'pieces':>20} {'bisect':>15} {'intervaltree':>15}")
    for count in (4, 64, 500):
        facts = [RangeProgress(part, rng.randrange(1_000)) for part in WHOLE.parts(count)]
        rng.shuffle(facts)
        cells = [
            f"{merge:,.0f}, {at:,.0f}"
            for merge, at in (f(facts, probes) for f in (bisected, by_tree))
        ]
        print(f"{count:>20,}", *(f"{cell:>15}" for cell in cells))


# ── Tenures that overlap a range ──


def overlaps(count: int) -> list[float]:
    """CPU µs a look-up among `count` tenures, five over each hash."""
    rng = random.Random(3)
    parts = [rng.choice(WHOLE.parts(count // 5)) for _ in range(count)]
    entries = sorted((part.lo, part.hi, i) for i, part in enumerate(parts))
    los = [lo for lo, _, _ in entries]
    tree = IntervalTree.from_tuples((lo, hi + 1, i) for lo, hi, i in entries)
    probes = [rng.choice(parts) for _ in range(200)]

    def scan() -> object:
        return [[i for lo, hi, i in entries if lo <= p.hi and p.lo <= hi] for p in probes]

    def begin_sorted() -> object:
        return [
            [i for _, hi, i in entries[: bisect_right(los, p.hi)] if p.lo <= hi] for p in probes
        ]

    def tree_range() -> object:
        return [[found.data for found in tree.overlap(p.lo, p.hi + 1)] for p in probes]

    def tree_hash() -> object:
        return [[found.data for found in tree.at(p.lo)] for p in probes]

    return [best_ns(way, 200) / 1_000 for way in (scan, begin_sorted, tree_range, tree_hash)]


def tenures() -> None:
    """Print CPU µs a look-up: each tenure tried, those that begin below tried, or a tree."""
    print("\ntenures that overlap a range, or a hash: CPU µs a look-up")
    names = ("scan", "begin sorted", "tree, a range", "tree, a hash")
    print(f"{'tenures':>20}", *(f"{name:>15}" for name in names))
    for count in (10, 100, 1_000, 5_000):
        print(f"{count:>20,}", *(f"{figure:>15.1f}" for figure in overlaps(count)))


if __name__ == "__main__":
    in_flight()
    over_hashes()
    tenures()
