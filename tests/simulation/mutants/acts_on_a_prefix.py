"""A read ends on a prefix: a member begins before it has read the log to the end it asked for."""

from __future__ import annotations

import pytest

from coop_consumer.core.state import LogView

BREAKS = ("I3", "I5")
SEED = 10


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whatever was read so far is taken for all there is."""
    patch.setattr(LogView, "current", property(lambda view: view.complete > 0))
