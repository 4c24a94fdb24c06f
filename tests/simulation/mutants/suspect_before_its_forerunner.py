"""A suspect is filed though an earlier record of its key still waits."""

from __future__ import annotations

import pytest

from coop_consumer.core.suspicion import Suspicion

BREAKS = ("I4",)
SEED = 3028


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks for what waits."""
    patch.setattr(Suspicion, "first_waiting", lambda _: {})
