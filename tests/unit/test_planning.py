"""Which assignor a configuration names, and what it makes even."""

from __future__ import annotations

import pytest

from assignors import (
    KeyRangeRangeAssignor,
    KeyRangeRoundRobinAssignor,
    KeyRangeStickyAssignor,
)
from coop_consumer.config import Config
from coop_consumer.planning import assignor_of, contract_of

LEAST = {"bootstrap.servers": "b:9092", "group.id": "billing"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sticky", KeyRangeStickyAssignor),
        ("roundrobin", KeyRangeRoundRobinAssignor),
        ("range", KeyRangeRangeAssignor),
    ],
)
def test_every_assignor_balances_by_load_unless_it_is_told_to_balance_by_hash(
    name: str, kind: type
) -> None:
    for settings, by_load in (
        ({}, True),
        ({"balance": "load"}, True),
        ({"balance": "hash"}, False),
    ):
        assignor = assignor_of(Config.from_dict({**LEAST, "assignor": name, **settings}))
        assert isinstance(assignor, kind)
        assert assignor.by_load is by_load


def test_members_need_not_agree_on_what_is_made_even() -> None:
    """Ranges mean the same either way, and one member plans for all."""
    one, other = (
        contract_of(Config.from_dict({**LEAST, "balance": it}), bytes(16), 8)
        for it in ("load", "hash")
    )
    assert one == other
