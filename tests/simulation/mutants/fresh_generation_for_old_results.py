"""A transaction is checked by the generation of its end, not by that of its results."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coop_consumer.core.transaction import Said, TransactionCall
from tests.simulation.transactor import SimTransactor

BREAKS = ("I2", "I9", "I5")
EXACTLY_ONCE = True
SEED = 1108


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whoever is in the group by now passes."""

    def fence_entry(transactor: SimTransactor, epoch: int, reply: Callable[[Said], object]) -> None:
        del epoch
        seats = transactor._world.coordinator.seats.values()
        is_member = any(seat.shell is transactor._shell for seat in seats)
        reply(Said.DONE if is_member else Said.STALE)

    calls = {**SimTransactor._calls, TransactionCall.OFFSETS: fence_entry}
    patch.setattr(SimTransactor, "_calls", calls)
