"""The plan does not hear who holds what, so each rebalance moves ranges for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import Member, Subscription
from coop_consumer.core import leader

BREAKS = ("I6",)
SEED = 6


def plant(patch: pytest.MonkeyPatch) -> None:
    """Every member is as if it had just come."""
    real = leader._member

    def member(subscription: Subscription, topics: tuple[str, ...]) -> Member:
        return replace(real(subscription, topics), owned={})

    patch.setattr(leader, "_member", member)
