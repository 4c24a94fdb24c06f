"""Progress is produced behind the check of the generation: who was put out by then writes late."""

from __future__ import annotations

import pytest

from coop_consumer.core import transaction
from coop_consumer.core.transaction import TransactionCall
from tests.simulation.unfenced import leave_open

BREAKS = ("I2", "I9", "I5", "attempts")
EXACTLY_ONCE = True
SEED = 635


def plant(patch: pytest.MonkeyPatch) -> None:
    """The generation is checked first."""
    leave_open(patch)
    following = {**transaction._FOLLOWING, TransactionCall.EFFECTS: TransactionCall.OFFSETS}
    following |= {
        TransactionCall.OFFSETS: TransactionCall.PROGRESS,
        TransactionCall.PROGRESS: TransactionCall.COMMIT,
    }
    patch.setattr(transaction, "_FOLLOWING", following)
