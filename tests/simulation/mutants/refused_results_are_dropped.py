"""What a refused transaction held is forgotten; its progress is told again."""

from __future__ import annotations

import pytest

from coop_consumer.core.effects import Effects

BREAKS = ("I2", "I9")
EXACTLY_ONCE = True
SEED = 2


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nothing is put back."""
    patch.setattr(Effects, "put_back", lambda *_: None)
