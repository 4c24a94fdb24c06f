"""A member has two transactional ids, and uses them in turns, so that none waits for markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.transactor import SimTransactor

if TYPE_CHECKING:
    from coop_consumer.core import actions

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 422


def plant(patch: pytest.MonkeyPatch) -> None:
    """What one id has in doubt is not ended by the other one's next transaction."""
    commit = SimTransactor.commit
    spare: dict[SimTransactor, tuple[str, int, bool]] = {}

    def commit_in_turns(it: SimTransactor, action: actions.Commit) -> None:
        other = spare.get(it, (f"{it._id}-b", -1, True))
        spare[it] = it._id, it._epoch, it._must_renew
        it._id, it._epoch, it._must_renew = other
        commit(it, action)

    patch.setattr(SimTransactor, "commit", commit_in_turns)
