"""A lead decides by one look: an old offset beside a new log looks like a foreign decision."""

from __future__ import annotations

import pytest

from coop_consumer.core.lead import Lead

BREAKS = ("I3",)
SEED = 109


def plant(patch: pytest.MonkeyPatch) -> None:
    """What was read is certain."""
    patch.setattr(Lead, "_is_certain", lambda *_: True)
