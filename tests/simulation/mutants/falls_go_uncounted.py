"""Nobody is careful with what an owner that fell may have begun."""

from __future__ import annotations

import pytest

from coop_consumer.core.handover import Handover

BREAKS = ("falls",)
SEED = 16


def plant(patch: pytest.MonkeyPatch) -> None:
    """A tenure takes what it inherits for harmless."""
    patch.setattr(Handover, "_suspect", lambda *_: None)
