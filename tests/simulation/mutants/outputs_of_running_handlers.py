"""A transaction takes along what running handlers have left behind so far."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.effects import Effects, Result

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 1


def plant(patch: pytest.MonkeyPatch) -> None:
    """All that is filed goes."""
    real = Effects.take

    def take(effects: Effects) -> Sequence[Result]:
        for tenure in {result.record._tenure for result in effects._collected}:
            effects._collected += [Result(record, it) for record, it in tenure.effects.items()]
        return real(effects)

    patch.setattr(Effects, "take", take)
