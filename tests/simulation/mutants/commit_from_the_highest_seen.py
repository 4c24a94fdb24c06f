"""A commit is made from the highest offset seen, as though everything below were done."""

from __future__ import annotations

import pytest

from offsets import gap_tracker
from offsets.progress import Gaps

BREAKS = ("I2",)
SEED = 3


def plant(patch: pytest.MonkeyPatch) -> None:
    """What is unfinished holds nothing back."""

    def between(_: list[int], end: int) -> tuple[int, Gaps]:
        return end, ()

    patch.setattr(gap_tracker, "_between", between)
