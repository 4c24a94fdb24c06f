"""A tenure is renamed between a JoinGroup and its assignment: others wait for the old name.

(Decision 007.)
"""

from __future__ import annotations

import pytest

from coop_consumer.core.handover import Handover
from coop_consumer.core.state import Partition

BREAKS = ("I1", "I4", "I5")
SEED = 1091


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whether a JoinGroup is under way does not matter."""
    real = Handover.rename_told

    def rename_told(handover: Handover, partition: Partition) -> None:
        state = handover._state
        joining, state.joining = state.joining, False
        try:
            real(handover, partition)
        finally:
            state.joining = joining

    patch.setattr(Handover, "rename_told", rename_told)
