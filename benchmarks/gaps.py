"""What a gap range costs: bytes, encoding and decoding, and memory for a record in flight.

`python -m benchmarks gaps` takes a million of them to a broker and back (`benchmarks/gap_case.py`).
This is the close-up: `python -m benchmarks.gaps` encodes and decodes a million gap ranges, 60,000 a
record, for several mean distances between their bounds. CPU time, the best of three runs.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

from assignors.key_range import WHOLE
from offsets import (
    GapTracker,
    RangeProgress,
    TenureId,
    TenureKey,
    TenureRecord,
    decode_value,
    encode_value,
)
from offsets.offset_range import offset_ranges

GAPS, GAPS_A_RECORD = 1_000_000, 60_000
KEY = TenureKey("g", bytes(16), 0, TenureId("m", 1, 1))


def record(mean: int, rng: random.Random) -> TenureRecord:
    """A record whose gap ranges, and the distances between them, are `mean` offsets on average."""
    offset, firsts, lasts = 10**9, [], []
    for _ in range(GAPS_A_RECORD):
        firsts.append(offset + 2 + int(rng.expovariate(1 / mean)))
        lasts.append(firsts[-1] + int(rng.expovariate(1 / mean)))
        offset = lasts[-1]
    return TenureRecord(0, 1, (RangeProgress(WHOLE, 10**9, offset_ranges(firsts, lasts)),))


def best_s(run: Callable[[], object], rounds: int) -> float:
    """CPU seconds of one of `rounds` calls, the best of three times."""
    times = []
    for _ in range(3):
        gc.collect()
        begun = time.process_time()
        for _ in range(rounds):
            run()
        times.append(time.process_time() - begun)
    return min(times) / rounds


def codec() -> None:
    """Print bytes a gap range and millions a second, one record after the other."""
    print(f"{'mean distance':>15} {'bytes a gap':>12} {'encode M/s':>12} {'decode M/s':>12}")
    records = -(-GAPS // GAPS_A_RECORD)
    for mean in (4, 60, 1_000, 100_000, 2**32):
        value = record(mean, random.Random(1))
        data = encode_value(value)
        ways = partial(encode_value, value), partial(decode_value, KEY, data)
        rates = [GAPS_A_RECORD / 1e6 / best_s(way, records) for way in ways]
        size = len(data) / GAPS_A_RECORD
        print(f"{mean:>15,} {size:>12.2f}", *(f"{rate:>12.1f}" for rate in rates))


def memory(window: int) -> tuple[list[float], float]:
    """The bytes of a record in flight, three ways, and what a commit costs, in microseconds.

    Filled: just admitted. Streaming: after three times as many have passed through, and a commit
    every 256 as by default: the most seen behind a commit, and between two. The two numbers of a
    record are its own offset and hash, which it keeps anyway: 68 bytes more.
    """
    rng = random.Random(1)
    begin = 10**12
    records = [(begin + 2 * i, rng.getrandbits(63)) for i in range(4 * window)]
    tracker = GapTracker([RangeProgress(WHOLE, begin)])
    behind: list[int] = []
    between: list[int] = []
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for offset, key_hash in records[:window]:
        tracker.admit(offset, key_hash)
    filled = tracemalloc.get_traced_memory()[0] - before
    for number in range(window, len(records)):
        tracker.done_many([records[number - window][0]])
        tracker.admit(*records[number])
        if number % 256 == 0:
            tracker.cover(begin, records[number][0] + 1)
            between.append(tracemalloc.get_traced_memory()[0] - before)
            tracker.facts()
            behind.append(tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()
    sizes = [size / window for size in (filled, max(behind, default=0), max(between, default=0))]
    facts_us = best_s(tracker.facts, 60_000 // window) * 1e6
    return sizes, facts_us


if __name__ == "__main__":
    codec()
    columns = ("filled", "streaming", "between", "facts() µs")
    print(f"\n{'in flight':>15}", *(f"{column:>12}" for column in columns), "  (bytes each)")
    for window in (1_000, 1_370, 21_850, 60_000):  # two just beyond where a dict doubles
        sizes, facts_us = memory(window)
        print(f"{window:>15,}", *(f"{size:>12.0f}" for size in sizes), f"{facts_us:>12,.0f}")
