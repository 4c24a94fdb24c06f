"""A member leaves brokers that are away, though the log is not known to have all it did."""

from __future__ import annotations

import pytest

from coop_consumer.core.commits import Commits

BREAKS = ("I5",)
SEED = 64


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whatever is finished counts as committed."""
    patch.setattr(Commits, "holds_results", lambda _: False)
