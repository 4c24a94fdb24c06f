"""A clip is off by one: where facts differ, the lower piece reaches one hash too far.

A hash with a running handler is a piece of its own, so it gets its neighbour's facts.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import KeyRange
from offsets import PartitionProgress, RangeProgress

BREAKS = ("I2",)
SEED = 6


def plant(patch: pytest.MonkeyPatch) -> None:
    """Each piece but the last ends one hash later."""
    real = PartitionProgress.clip

    def clip(progress: PartitionProgress, key_range: KeyRange) -> tuple[RangeProgress, ...]:
        pieces, lo = [], key_range.lo
        for piece in real(progress, key_range):
            hi = min(piece.range.hi + 1, key_range.hi)
            if lo <= hi:
                pieces.append(replace(piece, range=KeyRange(lo, hi)))
            lo = hi + 1
        return tuple(pieces)

    patch.setattr(PartitionProgress, "clip", clip)
