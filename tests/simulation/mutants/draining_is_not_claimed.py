"""Wait lists leave out who only drains: its handlers run while the next owner begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from assignors import Assignment, Claim, Wait, wait_lists
from coop_consumer.core import leader

BREAKS = ("I4", "I5")
SEED = 40


def plant(patch: pytest.MonkeyPatch) -> None:
    """The leader heeds claims of what is processed, not of what is about to be let go."""

    def waits(
        assignment: Assignment,
        claims: Mapping[str, Sequence[Claim]],
        incarnations: Mapping[str, int],
    ) -> dict[str, tuple[Wait, ...]]:
        active = {name: [c for c in own if not c.draining] for name, own in claims.items()}
        return wait_lists(assignment, active, incarnations)

    patch.setattr(leader, "wait_lists", waits)
