"""A new assignment goes by a read of the log from before it."""

from __future__ import annotations

import pytest

from coop_consumer.core.log_reading import LogReading
from coop_consumer.core.state import LogView

BREAKS = ("I2", "I9", "I5")
EXACTLY_ONCE = True
SEED = 13


def plant(patch: pytest.MonkeyPatch) -> None:
    """A view that was read once counts as read."""
    real = LogReading.read

    def read(reading: LogReading, view: LogView) -> None:
        if not view.complete:
            real(reading, view)

    patch.setattr(LogReading, "read", read)
