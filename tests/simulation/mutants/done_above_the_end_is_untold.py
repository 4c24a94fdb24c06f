"""Facts end at the first record that waits, whatever was done above it."""

from __future__ import annotations

import pytest

from offsets import GapTracker

BREAKS = ("I5",)
SEED = 29


def plant(patch: pytest.MonkeyPatch) -> None:
    """Finished records above the first unfinished one are told only once it is done."""

    def end(tracker: GapTracker, missing: list[int]) -> int:
        return missing[0] if missing else tracker.seen_to

    patch.setattr(GapTracker, "_end", end)
