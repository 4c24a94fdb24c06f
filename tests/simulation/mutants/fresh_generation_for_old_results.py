"""A transaction is checked by the generation of its end, not by that of its results."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coop_consumer.core.transaction import Said, TransactionCall
from tests.simulation.transactor import SimTransactor
from tests.simulation.unfenced import leave_open

BREAKS = ("I2", "I9", "I5")
EXACTLY_ONCE = True
SEED = 1108


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whoever is in the group by now passes, and who is not waits until it is."""
    leave_open(patch)

    def fence_entry(
        transactor: SimTransactor, epoch: int, reply: Callable[[Said], object], tries: int = 100
    ) -> None:
        world = transactor._world
        if any(seat.shell is transactor._shell for seat in world.coordinator.seats.values()):
            reply(Said.DONE)
        elif tries:
            again = tries - 1
            world.scheduler.after(50, lambda: fence_entry(transactor, epoch, reply, again))
        else:
            reply(Said.STALE)

    calls = {**SimTransactor._calls, TransactionCall.OFFSETS: fence_entry}
    patch.setattr(SimTransactor, "_calls", calls)
