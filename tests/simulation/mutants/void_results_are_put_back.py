"""What a refused transaction held of void tenures goes along with the next one."""

from __future__ import annotations

import pytest

from coop_consumer.core.effects import Effects

BREAKS = ("I9", "I2")
EXACTLY_ONCE = True
SEED = 35


def plant(patch: pytest.MonkeyPatch) -> None:
    """All goes again."""
    patch.setattr(Effects, "drop_void", lambda _: None)
