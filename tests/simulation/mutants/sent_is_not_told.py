"""A range is let go when its release is sent, not when the log has it: others read without it."""

from __future__ import annotations

import pytest

from assignors import Claim
from coop_consumer.core.tenure import Tenure

BREAKS = ("I5",)
SEED = 144


def plant(patch: pytest.MonkeyPatch) -> None:
    """A JoinGroup lists no release that is under way."""
    real = Tenure.claims

    def claims(tenure: Tenure, *, log_lost: bool = False) -> tuple[Claim, ...]:
        del log_lost
        return real(tenure, log_lost=True)

    patch.setattr(Tenure, "claims", claims)
