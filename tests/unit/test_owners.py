"""Who owns a key, by what a view of the group shows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from assignors import WHOLE, KeyRange, TopicPartition, key_hash
from coop_consumer.config import Config
from coop_consumer.errors import MisuseError
from coop_consumer.member.member import MemberRun
from coop_consumer.owners import Owner, owner_of
from coop_consumer.status.seen import NO_GROUP, GroupDescription, MemberSeen

CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})
LOW, HIGH = WHOLE.parts(2)
KEY = b"k"
MINE, OTHERS = (LOW, HIGH) if key_hash(KEY) in LOW else (HIGH, LOW)


def asked(description: GroupDescription) -> MemberRun:
    """A member of two-partition topics, whose view of its group is this."""
    view = SimpleNamespace(described=lambda: description)
    return cast(MemberRun, SimpleNamespace(partitions=lambda _: 2, group_view=lambda: view))


def group(*members: tuple[str, KeyRange, int]) -> GroupDescription:
    """Members, each with one range of a partition of `orders`."""
    seen = tuple(
        MemberSeen(name, f"host of {name}", ranges={TopicPartition("orders", number): (key_range,)})
        for name, key_range, number in members
    )
    return GroupDescription("Stable", "keyrange", seen)


def test_the_member_with_the_keys_range_owns_the_key() -> None:
    shown = asked(group(("east", OTHERS, 1), ("north", MINE, 0), ("west", MINE, 1)))
    assert owner_of(CONFIG, shown, "orders", KEY, 1) == Owner("west", "host of west")
    assert owner_of(CONFIG, shown, "orders", KEY, 0) == Owner("north", "host of north")


@pytest.mark.parametrize("shown", [group(("east", OTHERS, 1)), NO_GROUP])
def test_a_key_whose_range_nobody_has_is_owned_by_nobody(shown: GroupDescription) -> None:
    assert owner_of(CONFIG, asked(shown), "orders", KEY, 1) is None


def test_a_partition_that_is_not_there_is_refused_before_the_group_is_asked() -> None:
    with pytest.raises(MisuseError, match="orders-2 is no partition of a topic"):
        owner_of(CONFIG, asked(NO_GROUP), "orders", KEY, 2)
