"""Writes of a transaction in doubt go to the store, whatever becomes of it."""

from __future__ import annotations

import pytest

from coop_consumer.core.actions import DoubtEnded
from tests.simulation.transactor import SimTransactor

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """The end of each doubt is a commit."""
    real = SimTransactor.doubt_ended

    def ended(transactor: SimTransactor, action: DoubtEnded) -> None:
        real(transactor, action._replace(is_committed=True))

    patch.setattr(SimTransactor, "doubt_ended", ended)
