"""A store gets a write when it is produced: what is aborted survives in it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.effects import Result
from coop_consumer.state.shard import Write
from tests.simulation.keyed_state import SimState
from tests.simulation.transactions import Opened

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the commit."""
    real = SimState.produce

    def produce(
        state: SimState, opened: Opened, results: Sequence[Result]
    ) -> list[tuple[Write, int]]:
        written = real(state, opened, results)
        state.committed(written)
        return []

    patch.setattr(SimState, "produce", produce)
