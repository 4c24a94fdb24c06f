"""A transaction takes along what running handlers have put so far."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.effects import Effects, Filed, Result
from coop_consumer.state.shard import Write

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 1


def plant(patch: pytest.MonkeyPatch) -> None:
    """All puts that are filed go, and no outputs."""
    real = Effects.take

    def take(effects: Effects) -> Sequence[Result]:
        for tenure in {result.record._tenure: 0 for result in effects._collected}:
            for record, filed in tenure.effects.items():
                puts = Filed(it for it in filed if isinstance(it, Write))
                puts.size = puts.outputs = 0
                effects._collected.append(Result(record, puts))
        return real(effects)

    patch.setattr(Effects, "take", take)
