"""A gap is lost on merge: two facts with gap ranges make one without the last of them."""

from __future__ import annotations

import pytest

from offsets import progress
from offsets.progress import Gaps

BREAKS = ("I3", "I5")
SEED = 1


def plant(patch: pytest.MonkeyPatch) -> None:
    """The union of two facts forgets its highest gap range."""
    real = progress._joined

    def joined(one: tuple[int, Gaps], other: tuple[int, Gaps]) -> tuple[int, Gaps]:
        stable, gaps = real(one, other)
        return stable, gaps if one == other else gaps[:-1]

    patch.setattr(progress, "_joined", joined)
