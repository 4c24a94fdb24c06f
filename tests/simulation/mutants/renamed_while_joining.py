"""A tenure is renamed between a JoinGroup and its assignment: others wait for the old name.

(Decision 007.)
"""

from __future__ import annotations

import pytest

from coop_consumer.core.ending import Endings
from coop_consumer.core.state import Partition

BREAKS = ("I1", "I4", "I5")
SEED = 1177


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whether a JoinGroup is under way does not matter."""
    real = Endings.rename_released

    def rename_released(endings: Endings, partition: Partition) -> None:
        state = endings.state
        joining, state.membership.joining = state.membership.joining, False
        try:
            real(endings, partition)
        finally:
            state.membership.joining = joining

    patch.setattr(Endings, "rename_released", rename_released)
