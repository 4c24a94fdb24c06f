"""A tracker forgets a hole: of the unfinished offsets it leaves out the second."""

from __future__ import annotations

import pytest

from offsets import gap_tracker
from offsets.progress import Gaps

BREAKS = ("I2",)
SEED = 3


def plant(patch: pytest.MonkeyPatch) -> None:
    """The gap ranges on both sides of a hole become one."""
    real = gap_tracker._between

    def between(missing: list[int], end: int) -> tuple[int, Gaps]:
        return real([*missing[:1], *missing[2:]], end)

    patch.setattr(gap_tracker, "_between", between)
