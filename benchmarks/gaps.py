"""What a gap range costs: bytes, encoding and decoding, and memory for a record in flight.

`python -m benchmarks.gaps` encodes and decodes a million gap ranges, 60,000 a record, for several
mean distances between their bounds. CPU time, the best of three runs.
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


def memory(window: int) -> None:
    """Print the memory of a record in flight, and what the facts of a commit cost.

    The two numbers of a record are its own offset and hash, which it keeps anyway: 68 bytes.
    """
    rng = random.Random(1)
    records = [(10**12 + 2 * i, rng.getrandbits(63)) for i in range(window)]
    tracker = GapTracker([RangeProgress(WHOLE, 10**12)])
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for offset, key_hash in records:
        tracker.admit(offset, key_hash)
    size = (tracemalloc.get_traced_memory()[0] - before) / window
    tracemalloc.stop()
    tracker.cover(10**12, 10**12 + 2 * window)
    facts_us = best_s(tracker.facts, 60_000 // window) * 1e6
    print(f"{window:>15,} {size:>12.0f} {facts_us:>12,.0f}")


if __name__ == "__main__":
    codec()
    print(f"\n{'in flight':>15} {'bytes each':>12} {'facts() µs':>12}")
    for window in (64, 1_000, 60_000):
        memory(window)
