"""A member passes over records of the progress log that it cannot read, counts and reports them."""

from __future__ import annotations

from assignors import WHOLE
from coop_consumer.core import actions
from offsets import TenureId, TenureKey, encode_key
from tests.unit.core_member import GROUP, TOPIC_ID, TableMember

STRANGER = encode_key(TenureKey(GROUP, TOPIC_ID, 0, TenureId("stranger", 1, 1)))


def told(member: TableMember) -> list[str]:
    texts = [report.text for report in member.told(actions.LogLine)]
    return [text for text in texts if "cannot read" in text]


def test_unreadable_records_are_counted_and_told_and_harm_nobody() -> None:
    member = TableMember()
    member.log.append(b"\x01 no key", b"no value")
    member.log.append(STRANGER, b"\x63 of a later version")
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    assert member.finish_all() == [0, 1]
    member.after(1_000)
    # A key is read when it comes, a tenure's value when somebody asks what it tells.
    first, second = told(member)
    assert "cannot read 1 corrupt key." in first
    assert "cannot read 1 corrupt key, 1 unknown version." in second
    assert member.core.state.counters.unreadable == 2
    member.log.append(STRANGER, b"\x63 of a later version, again")
    member.assign()
    member.assign(WHOLE)
    assert member.core.state.counters.unreadable == 3
    assert len(told(member)) == 3
