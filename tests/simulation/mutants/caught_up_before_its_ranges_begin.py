"""A member says that it is caught up by what it has begun, though more was assigned to it."""

from __future__ import annotations

import pytest

from coop_consumer.core.member import MemberCore

BREAKS = ("caught_up",)
SEED = 6


def plant(patch: pytest.MonkeyPatch) -> None:
    """What waits for its old owner, or for the log, does not count."""

    def caught_up(core: MemberCore) -> bool:
        state = core.state
        return state.membership.generation >= 0 and all(
            partition.end_offset >= 0
            and all(t.tracker.stable >= partition.end_offset for t in partition.tenures if t.begun)
            for partition in state.partitions.values()
            if partition.assigned
        )

    patch.setattr(MemberCore, "caught_up", property(caught_up))
