"""An attempt that the log has before it begins counts as a fall, though its process lives on."""

from __future__ import annotations

import pytest

from coop_consumer.core.tenure import Tenure

BREAKS = ("falls",)
EXACTLY_ONCE = True
SEED = 93


def plant(patch: pytest.MonkeyPatch) -> None:
    """The record of a void tenure repeats what it had noted."""
    patch.setattr(Tenure, "_outlived", lambda _, attempt: attempt)
