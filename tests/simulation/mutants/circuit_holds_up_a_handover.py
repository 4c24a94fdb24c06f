"""What is held back counts as running when its range goes: the handover waits for it."""

from __future__ import annotations

import pytest

from coop_consumer.core.lanes import Entry, KeyLanes

BREAKS = ("stuck",)
SEED = 111


def plant(patch: pytest.MonkeyPatch) -> None:
    """It is taken away, but nobody says that it was idle."""
    real = KeyLanes._taken_back

    def _taken_back(lanes: KeyLanes, heads: dict[int, Entry]) -> set[int]:
        idle = real(lanes, heads) if lanes.held_back is None else set[int]()
        if lanes.held_back is not None:
            lanes.held_back.withdraw(heads)
            idle |= lanes.ready.withdraw(heads)
        return idle

    patch.setattr(KeyLanes, "_taken_back", _taken_back)
