"""A commit takes along what running handlers have put so far, as it did while state was by key."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coop_consumer.core.effects import Effects
from coop_consumer.core.tenure import Tenure

BREAKS = ("I9",)
BUFFERED = True
SEED = 3


def plant(patch: pytest.MonkeyPatch) -> None:
    """Sealing one record of a tenure seals all."""
    seal = Effects.seal

    def seal_all(self: Effects, tenure: Tenure, offsets: Iterable[int]) -> None:
        seal(self, tenure, [*offsets, *tenure.effects])

    patch.setattr(Effects, "seal", seal_all)
