"""A transaction is checked by the generation of its end, not by that of its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coop_consumer.core.transaction import Said, TransactionCall
from tests.simulation.transactions import Transactions
from tests.simulation.transactor import SimTransactor

BREAKS = ("I2", "I9", "I5")
EXACTLY_ONCE = True
SEED = 298


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whoever is in the group by now passes, and who is not waits until it is.

    Safety rests neither on fencing nor on time-outs, so there is none of the one, and the others
    come late.
    """
    time_out = Transactions._time_out

    def late(it: Transactions, *of: Any) -> None:
        it._world.scheduler.after(6_000, lambda: time_out(it, *of))

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
    patch.setattr(Transactions, "fence_absent", lambda *_: None)
    patch.setattr(Transactions, "_time_out", late)
    patch.setattr(SimTransactor, "_calls", calls)
