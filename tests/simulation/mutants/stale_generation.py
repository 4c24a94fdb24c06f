"""A check on a stale generation: a range begins after the JoinGroup that ends its assignment.

That JoinGroup did not list it, so whoever gets the range next waits for nobody.
"""

from __future__ import annotations

import pytest

from coop_consumer.core.handover import Handover
from coop_consumer.core.state import Partition

BREAKS = ("I1", "I4", "I5")
SEED = 11


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whether a JoinGroup is under way does not matter."""
    real = Handover.begin_what_is_free

    def begin_what_is_free(handover: Handover, partition: Partition) -> None:
        state = handover.state
        joining, state.membership.joining = state.membership.joining, False
        try:
            real(handover, partition)
        finally:
            state.membership.joining = joining

    patch.setattr(Handover, "begin_what_is_free", begin_what_is_free)
