"""A member whose capacity has changed joins with the one that it was started with."""

from __future__ import annotations

import pytest

from coop_consumer.core.member import MemberCore

BREAKS = ("capacity",)
SEED = 5


def plant(patch: pytest.MonkeyPatch) -> None:
    """Its subscription speaks of the configuration."""
    real = MemberCore.subscription

    def subscription(core: MemberCore) -> bytes:
        core.state.membership.capacity = core.state.config.capacity or 1
        return real(core)

    patch.setattr(MemberCore, "subscription", subscription)
