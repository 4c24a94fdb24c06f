"""The fetch is never held: what waits in the lanes grows beyond its bounds."""

from __future__ import annotations

import pytest

from coop_consumer.core.pressure import Pressure

BREAKS = ("I8",)
SEED = 3


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nothing is ever full."""
    patch.setattr(Pressure, "hold_or_resume", lambda _: None)
