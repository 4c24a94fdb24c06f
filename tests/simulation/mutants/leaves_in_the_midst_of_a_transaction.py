"""A member leaves brokers that are away, though nobody has said what became of its transaction."""

from __future__ import annotations

import pytest

from coop_consumer.core.commits import Commits

BREAKS = ("I5",)
EXACTLY_ONCE = True
SEED = 49


def plant(patch: pytest.MonkeyPatch) -> None:
    """What was sent counts as committed."""
    patch.setattr(Commits, "holds_results", Commits._has_finished)
