"""Whoever leads asks for another plan as soon as one has come: the group never comes to rest."""

from __future__ import annotations

import pytest

from assignors import AssignmentData
from coop_consumer.core.orders import Orders

BREAKS = ("rest",)
SEED = 30


def plant(patch: pytest.MonkeyPatch) -> None:
    """It always takes the plan for one that lacks partitions."""
    real = Orders.miss_partitions

    def miss_partitions(orders: Orders, data: AssignmentData) -> None:
        real(orders, data)
        if data.lead == orders.state.name and not orders.state.membership.closing:
            orders.state.rejoin("the plan may lack something")

    patch.setattr(Orders, "miss_partitions", miss_partitions)
