"""What a failed attempt has put is found by the next one."""

from __future__ import annotations

import pytest

from coop_consumer.state.shard import Write

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """No put is undone."""
    patch.setattr(Write, "undo", lambda _: None)
