"""A refusal takes back its own partition alone, though a block ties another one to it."""

from __future__ import annotations

import pytest

from coop_consumer.core.refused_outputs import RefusedOutputs

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 77


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whatever is of one block goes back apart."""
    patch.setattr(RefusedOutputs, "_together", lambda _, tenure: {tenure})
