"""What is held back counts as running when its range goes: the handover waits for it."""

from __future__ import annotations

import pytest

from coop_consumer.core.lanes import Entry, KeyLanes

BREAKS = ("stuck", "I4")


def plant(patch: pytest.MonkeyPatch) -> None:
    """It is looked for among what is ready and taken only."""
    real = KeyLanes._taken_back

    def _taken_back(lanes: KeyLanes, heads: dict[int, Entry]) -> set[int]:
        held, lanes.held_back = lanes.held_back, None
        idle = real(lanes, heads)
        lanes.held_back = held
        return idle

    patch.setattr(KeyLanes, "_taken_back", _taken_back)
