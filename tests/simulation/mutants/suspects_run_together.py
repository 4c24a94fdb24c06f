"""Suspects are begun together, each noted as the only one: the innocent are given up, too."""

from __future__ import annotations

import pytest

from coop_consumer.core.suspicion import Suspects, Turn

BREAKS = ("falls",)
SEED = 3606


def plant(patch: pytest.MonkeyPatch) -> None:
    """Its turn is over as soon as it is begun, but what was noted stays."""
    real = Suspects._look_at

    def look_at(suspects: Suspects, turn: Turn) -> None:
        real(suspects, turn)
        if suspects._since_ms is not None:
            suspects.turn = None

    patch.setattr(Suspects, "_look_at", look_at)
