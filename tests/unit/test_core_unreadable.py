"""A member passes over records of the progress log that it cannot read, counts and reports them."""

from __future__ import annotations

from assignors import WHOLE
from coop_consumer.core import actions
from offsets import LoadKey, TenureId, TenureKey, encode_key
from tests.unit.core_member import GROUP, LOW, TOPIC_ID, TableMember

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
    assert len(told(member)) == 2, "each reason once"
    member.after(3_600_000)
    member.assign()
    member.assign(WHOLE)
    assert len(told(member)) == 2, "nothing has come since"
    member.log.append(b"\x01 no key either", b"no value")
    member.assign()
    member.assign(WHOLE)
    assert "cannot read 2 corrupt key, 2 unknown version." in told(member)[-1]


def test_a_member_whose_load_is_bad_each_time_is_told_of_once() -> None:
    member = TableMember()
    member.assign(LOW)
    for _ in range(100):
        member.log.append(encode_key(LoadKey(GROUP, "m9")), b"\xff" * 30)
        member.after(30_000)
        member.hear_log()
    assert member.core.state.counters.unreadable == 100
    assert len(told(member)) == 1
