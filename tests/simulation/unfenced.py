"""Worlds in which nobody fences a transaction, and time-outs come late.

In: the patch of a mutant. Out: brokers that leave transactions open. Safety rests neither on fences
nor on time-outs, but both hide most mistakes about the check of a generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.transactions import Transactions

if TYPE_CHECKING:
    import pytest

LATE_MS = 6_000


def leave_open(patch: pytest.MonkeyPatch) -> None:
    """Fence nobody, and abort what has timed out so much later."""
    time_out = Transactions._time_out

    def late(it: Transactions, *of: Any) -> None:
        it._world.scheduler.after(LATE_MS, lambda: time_out(it, *of))

    patch.setattr(Transactions, "fence_absent", lambda *_: None)
    patch.setattr(Transactions, "_time_out", late)
