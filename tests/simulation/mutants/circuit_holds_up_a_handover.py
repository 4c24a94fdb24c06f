"""What is held back counts as running when its range goes: the handover waits for it."""

from __future__ import annotations

import pytest

from coop_consumer.core.lane import Entry
from coop_consumer.core.ready import RunQueue

BREAKS = ("stuck",)
SEED = 117


def plant(patch: pytest.MonkeyPatch) -> None:
    """It is taken away, but nobody says that it was idle."""
    real = RunQueue.withdraw

    def withdraw(queue: RunQueue, heads: dict[int, Entry]) -> set[int]:
        if queue.held_back is None:
            return real(queue, heads)
        queue.held_back.withdraw(heads)
        return queue.ready.withdraw(heads)

    patch.setattr(RunQueue, "withdraw", withdraw)
