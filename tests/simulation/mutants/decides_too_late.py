"""A member takes in whatever waits before it decides, though it is near a bound."""

from __future__ import annotations

import pytest

from coop_consumer.core.pressure import Pressure

BREAKS = ("I8",)
SEED = 159


def plant(patch: pytest.MonkeyPatch) -> None:
    """There is always room for more."""
    patch.setattr(Pressure, "has_room", lambda *_: True)
