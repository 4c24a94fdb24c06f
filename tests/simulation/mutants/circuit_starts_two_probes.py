"""While the circuit is open two records are begun at a time, not one."""

from __future__ import annotations

import pytest

from coop_consumer.core.lanes import Entry, KeyLanes

BREAKS = ("circuit",)
SEED = 3


def plant(patch: pytest.MonkeyPatch) -> None:
    """One more is let go with each probe."""
    real = KeyLanes.let_one_go

    def let_one_go(lanes: KeyLanes) -> Entry | None:
        real(lanes)
        return real(lanes)

    patch.setattr(KeyLanes, "let_one_go", let_one_go)
