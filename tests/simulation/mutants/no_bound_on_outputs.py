"""However many outputs wait until Kafka has them, records are begun."""

from __future__ import annotations

import pytest

from coop_consumer.core.output_bound import OutputBound

BREAKS = ("I8",)
SEED = 6


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nothing is held back."""
    patch.setattr(OutputBound, "look", lambda _: None)
