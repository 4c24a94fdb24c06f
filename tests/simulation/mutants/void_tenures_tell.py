"""What a member had not committed when it lost its membership counts later."""

from __future__ import annotations

import pytest

from coop_consumer.core.tenure import Tenure

BREAKS = ("I2", "I9", "I5")
EXACTLY_ONCE = True
SEED = 137


def plant(patch: pytest.MonkeyPatch) -> None:
    """A loss of the membership changes nothing."""
    patch.setattr(Tenure, "make_void", lambda _: None)
