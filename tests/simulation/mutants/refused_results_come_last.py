"""What a refused transaction held goes behind what was finished since."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.effects import Effects, Result

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 2


def plant(patch: pytest.MonkeyPatch) -> None:
    """They lose their place."""

    def put_back(effects: Effects, results: Sequence[Result]) -> None:
        effects._collected = [*effects._collected, *results]
        effects.drop_void()

    patch.setattr(Effects, "put_back", put_back)
