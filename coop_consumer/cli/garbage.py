"""Garbage collection in a worker process, which has records come and go all the time.

In: a process that has loaded everything. Out: the same, with a collector that looks less often, and
skips objects that stay. Python looks for cycles whenever 700 more objects exist than before, and
sometimes over all objects. Records form no cycles, and go as soon as they are done.
"""

from __future__ import annotations

import gc

THRESHOLDS = (10_000, 20, 50)
"""As `gc.set_threshold` takes them. The youngest 10,000 are looked over in less than 1 ms."""


def collect_less_often() -> None:
    """Exempt all loaded objects from collection, and collect the others less often."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
