"""A member leaves brokers that are away, though the log is not known to have what has failed."""

from __future__ import annotations

import pytest

from coop_consumer.core.tenure import Tenure

BREAKS = ("attempts",)
EXACTLY_ONCE = True
SEED = 4814


def plant(patch: pytest.MonkeyPatch) -> None:
    """What is finished has to be in the log, and nothing else."""
    patch.setattr(Tenure, "has_untold_failures", False)
