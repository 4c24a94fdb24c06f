"""The next transaction has the epoch of one whose commit was asked for twice."""

from __future__ import annotations

import pytest

from coop_consumer.core.transaction import Said, Transaction

BREAKS = ("I9", "I2", "stuck")
EXACTLY_ONCE = True
SEED = 27


def plant(patch: pytest.MonkeyPatch) -> None:
    """The late request to commit ends whatever is open."""
    real = Transaction._committed

    def committed(it: Transaction, said: Said, took_ms: int) -> None:
        real(it, said, took_ms)
        if said is Said.DONE:
            it.must_renew = False

    patch.setattr(Transaction, "_committed", committed)
