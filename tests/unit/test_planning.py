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


def test_members_agree_on_the_guarantee_and_on_the_prefix_of_transactional_ids() -> None:
    """Whoever fences a member that is gone makes its id, by a prefix of its own."""
    once = {**LEAST, "processing.guarantee": "exactly_once"}
    contracts = {
        contract_of(Config.from_dict(settings), bytes(16), 8)
        for settings in (LEAST, once, {**once, "transactional.id.prefix": "bill-"})
    }
    assert len(contracts) == 3
    least = {**LEAST, "transactional.id.prefix": "bill-"}
    assert contract_of(Config.from_dict(least), bytes(16), 8) in contracts, "there are no ids"


def test_as_many_members_with_at_least_once_as_with_exactly_once_go_on() -> None:
    """`core.leader` lets the smaller text win a tie."""
    least, once = (
        contract_of(Config.from_dict({**LEAST, "processing.guarantee": it}), bytes(16), 8)
        for it in ("at_least_once", "exactly_once")
    )
    assert least < once
