"""A range that begins again counts an attempt as a fall, though its handler has ended well."""

from __future__ import annotations

import pytest

from coop_consumer.core.tenure import Tenure

BREAKS = ("falls",)
EXACTLY_ONCE = True
SEED = 1013


def plant(patch: pytest.MonkeyPatch) -> None:
    """What it has heard of the tenure before it stays as it was."""
    patch.setattr(Tenure, "take_back", lambda *_: None)
