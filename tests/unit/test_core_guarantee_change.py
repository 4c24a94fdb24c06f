"""A group changes its guarantee: newcomers wait until those of the guarantee before are fewer."""

from __future__ import annotations

from assignors import WHOLE
from coop_consumer.core import actions
from coop_consumer.errors import ContractMismatchError
from tests.unit.core_member import TableMember

OTHER = "contract:table,guarantee=at-least-once"
"""Most members' contract; the table's own says nothing of a guarantee."""


def ends(member: TableMember) -> list[type]:
    return [type(it.error) for it in member.told(actions.Leave)]


def test_a_newcomer_waits_and_begins_once_it_is_one_of_the_most() -> None:
    member = TableMember()
    member.assign(refused=OTHER)
    member.after(60_000)
    assert not ends(member)
    assert "no range yet" in member.told(actions.LogLine)[0].text
    member.assign(WHOLE)
    assert member.core.state.assignment()


def test_who_was_accepted_before_ends() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.assign(refused=OTHER)
    member.after(60_000)
    assert ends(member) == [ContractMismatchError]


def test_another_meaning_of_a_hash_ends_a_newcomer() -> None:
    member = TableMember()
    member.assign(refused="contract:hash=crc,guarantee=at-least-once")
    member.after(60_000)
    assert ends(member) == [ContractMismatchError]
