"""By which guarantee a group works: what its members, tags and topics say, in this order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.config import Config, Guarantee
from coop_consumer.planning import contract_of
from coop_consumer.status.guarantee import guarantee_at_work
from coop_consumer.status.seen import MemberSeen
from offsets import Committed

ONCE, LEAST = Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE


def member(name: str, guarantee: str, note: str = "", **settings: str) -> MemberSeen:
    needed = {"bootstrap.servers": "b:9092", "group.id": "billing"}
    config = Config.from_dict({**needed, "processing.guarantee": guarantee, **settings})
    return MemberSeen(name, "h", contract=contract_of(config, bytes(16), 8), note=note)


def tagged(*tags: str) -> list[Committed]:
    return [Committed(7, f"{tag}:3:00000000" if tag else "") for tag in tags]


def has_log() -> bool:
    return True


def has_none() -> bool:
    return False


def test_the_members_contract_counts_though_tags_say_otherwise() -> None:
    """As while a group that was changed over has not mirrored yet."""
    found = guarantee_at_work(
        [member("a", ONCE, **{"transactional.id.prefix": "bill-"})], tagged("coop"), LEAST, has_none
    )
    assert found == (ONCE, "bill-")
    assert guarantee_at_work([member("a", LEAST)], tagged("coop-eo"), ONCE, has_log)[0] is LEAST


def test_while_a_group_is_changed_over_those_count_that_are_served() -> None:
    note = "gets nothing: contract:…"
    few = [member("a", LEAST), member("b", ONCE, note), member("c", ONCE, note)]
    assert guarantee_at_work(few, [], LEAST, has_log).guarantee is LEAST
    assert guarantee_at_work([member("a", LEAST, note), few[0]], [], ONCE, has_log)[0] is LEAST
    many = [member("a", LEAST), member("b", ONCE), member("c", ONCE)]  # nobody is told yet
    assert guarantee_at_work(many, [], LEAST, has_none).guarantee is ONCE


@pytest.mark.parametrize(
    ("tags", "named", "guarantee"),
    [
        (["coop"], ONCE, LEAST),
        (["coop-eo"], LEAST, ONCE),
        (["coop-eo", "coop-eo", "coop"], LEAST, ONCE),  # it has left a topic
        (["coop-eo", "coop"], ONCE, ONCE),
        (["coop-eo", "coop"], LEAST, LEAST),
        (["coop", "", ""], ONCE, LEAST),  # a stock tool has moved two partitions
    ],
)
def test_without_members_tags_count_whatever_topic_there_is(
    tags: Sequence[str], named: Guarantee, guarantee: Guarantee
) -> None:
    assert guarantee_at_work([], tagged(*tags), named, has_log).guarantee is guarantee
    plain = MemberSeen("consumer-1", "h")
    assert guarantee_at_work([plain], tagged(*tags), named, has_none).guarantee is guarantee


def test_with_neither_its_own_topic_counts_or_what_the_configuration_names() -> None:
    assert guarantee_at_work([], [], LEAST, has_none).guarantee is LEAST
    assert guarantee_at_work([], tagged(""), LEAST, has_log).guarantee is ONCE
    assert guarantee_at_work([], [], ONCE, has_none).guarantee is ONCE


def test_a_prefix_that_no_setting_takes_is_not_believed() -> None:
    strange = MemberSeen("m", "h", contract="guarantee=exactly-once,ids=\x1b[2J,format=1")
    assert guarantee_at_work([strange], [], LEAST, has_log) == (LEAST, None)
