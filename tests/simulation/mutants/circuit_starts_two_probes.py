"""While the circuit is open two records are begun at a time, not one."""

from __future__ import annotations

import pytest

from coop_consumer.core.lane import Entry
from coop_consumer.core.ready import RunQueue

BREAKS = ("circuit",)
SEED = 50


def plant(patch: pytest.MonkeyPatch) -> None:
    """One more is let go with each probe."""
    real = RunQueue.let_one_begin

    def let_one_begin(queue: RunQueue) -> Entry | None:
        real(queue)
        return real(queue)

    patch.setattr(RunQueue, "let_one_begin", let_one_begin)
