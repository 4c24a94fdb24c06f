"""A range comes back before the log tells what was done of it."""

from __future__ import annotations

import pytest

from coop_consumer.core.state import Partition

BREAKS = ("I2", "I9", "I5")
EXACTLY_ONCE = True
SEED = 21


def plant(patch: pytest.MonkeyPatch) -> None:
    """What is released and not committed is nobody's, and so ours."""
    patch.setattr(Partition, "unlogged", lambda *_: ())
