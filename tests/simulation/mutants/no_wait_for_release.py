"""A member does not wait for the release: it begins while the old owner's handlers run."""

from __future__ import annotations

import pytest

from coop_consumer.core.claims import Claims

BREAKS = ("I1", "I4")
SEED = 40


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nobody on the wait list claims anything."""
    patch.setattr(Claims, "claimed", lambda *_: ())
