"""Nobody checks whether a transaction is of a member."""

from __future__ import annotations

import pytest

from tests.simulation.coordinator import Coordinator

BREAKS = ("I2", "I9", "I5")
EXACTLY_ONCE = True
SEED = 43


def plant(patch: pytest.MonkeyPatch) -> None:
    """The coordinator takes whatever comes."""
    patch.setattr(Coordinator, "takes", lambda *_: True)
