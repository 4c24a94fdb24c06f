"""That the next Producer has its epoch counts as proof that a transaction was aborted."""

from __future__ import annotations

import pytest

from coop_consumer.core.transaction import Outcome, Transaction

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 582


def plant(patch: pytest.MonkeyPatch) -> None:
    """It may have completed a commit."""
    real = Transaction._end

    def end(it: Transaction, outcome: Outcome) -> None:
        real(it, Outcome.ABORTED if outcome is Outcome.IN_DOUBT else outcome)

    patch.setattr(Transaction, "_end", end)
