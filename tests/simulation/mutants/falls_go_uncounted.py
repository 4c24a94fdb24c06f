"""Nobody is careful with what an owner that fell may have begun."""

from __future__ import annotations

import pytest

from coop_consumer.core.beginning import Beginnings

BREAKS = ("falls",)
SEED = 10


def plant(patch: pytest.MonkeyPatch) -> None:
    """A tenure takes what it inherits for harmless."""
    patch.setattr(Beginnings, "_suspect", lambda *_: None)
