"""A record whose output a topic has refused counts as failed, and what goes along stays done."""

from __future__ import annotations

import pytest

from coop_consumer.core.handover import Handover

BREAKS = ("I9", "stuck", "I2")
EXACTLY_ONCE = True
SEED = 45


def plant(patch: pytest.MonkeyPatch) -> None:
    """Its tenure does not go back to what is committed."""
    patch.setattr(Handover, "go_back", lambda *_: None)
