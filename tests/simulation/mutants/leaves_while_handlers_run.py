"""A member leaves in the middle of the drain: what its handlers finish then is never told."""

from __future__ import annotations

import pytest

from coop_consumer.core.withdrawal import Withdrawal

BREAKS = ("I4", "I5")
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """Everything counts as told at once."""
    patch.setattr(Withdrawal, "_has_released_all", lambda _: True)
