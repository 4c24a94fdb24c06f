"""A range that does not begin says what it waits for: after ten seconds, and every minute."""

from __future__ import annotations

from assignors import KEY_HASH_MAX, WHOLE, KeyRange, Wait, decode_subscription
from coop_consumer.core import actions
from coop_consumer.core.metrics import MemberPhase
from coop_consumer.log_events import LogEvent
from offsets import MemoryLog
from tests.unit.core_member import T0, TableMember

HIGH = KeyRange(KEY_HASH_MAX // 2 + 1, KEY_HASH_MAX)


def told(member: TableMember) -> list[str]:
    """What it said of waits."""
    reports = [report.text for report in member.told(actions.LogLine)]
    return [text for text in reports if "t-0: for " in text]


def phase(member: TableMember) -> MemberPhase:
    """What its metrics say that it does."""
    return member.core.metrics().phase


def waiting(member: TableMember, seconds: int) -> list[str]:
    """What it says of waits in so many seconds."""
    for _ in range(seconds):
        member.after(1_000)
    return told(member)


def test_it_names_who_has_not_released_which_keys() -> None:
    log = MemoryLog()
    old = TableMember("m1", log=log)
    old.assign(WHOLE)
    (claim,) = decode_subscription(old.core.subscription()).claims
    new = TableMember("m2", log=log, committed=old.committed)
    new.assign(HIGH, waits=(Wait("m1", 1, claim.number, T0, (HIGH,)),), lead="m1")
    assert waiting(new, 9) == []
    (text,) = waiting(new, 2)
    assert f"keys {HIGH} wait for their last owner to release them (m1/1#1: {HIGH})" in text
    assert text.endswith(
        "`coop-consumer status billing --bootstrap table:9092` shows who holds what"
    )
    [facts] = [it.facts for it in new.told(actions.LogLine) if it.event is LogEvent.RANGE_WAITS]
    assert facts == {"tp": T0, "holder": "m1"}
    assert len(waiting(new, 61)) == 2
    old.assign()
    new.hear_log()
    assert len(waiting(new, 120)) == 2


def test_it_names_the_committed_offset_that_nobody_tells_and_asks_again() -> None:
    member = TableMember()
    member.kept_back = {actions.FetchCommitted}
    member.assign(WHOLE)
    (text,) = waiting(member, 12)
    assert "wait for the group coordinator to tell the committed offset" in text
    waiting(member, 30)
    assert len(member.told(actions.FetchCommitted)) == 2


def test_it_names_the_log_the_first_record_and_the_callback() -> None:
    for kept_back, why in (
        (actions.ReadLog, "is not read far enough yet"),
        (actions.Append, "wait for our announcement in the progress log (SENT)"),
        (actions.RangesAssigned, "wait for on_ranges_assigned to return"),
    ):
        member = TableMember()
        member.kept_back = {kept_back}
        member.assign(WHOLE)
        (text,) = waiting(member, 12)
        assert why in text
        assert all("holder" not in it.facts for it in member.told(actions.LogLine))


def test_a_key_that_waits_for_a_handler_elsewhere_says_so() -> None:
    log = MemoryLog()
    old = TableMember("m1", log=log)
    old.assign(WHOLE)
    old.produce(b"a")
    old.start()
    (claim,) = decode_subscription(old.core.subscription()).claims
    old.assign()
    new = TableMember("m2", log=log, committed=old.committed)
    new.assign(WHOLE, waits=(Wait("m1", 1, claim.number, T0, (WHOLE,)),), lead="m1")
    (text,) = waiting(new, 12)
    assert "1 key waits for handlers that run (m1/1#1: " in text


def test_figures_and_probes_agree_about_what_waits() -> None:
    member = TableMember(kept_back=[actions.ReadLog])
    assert not member.core.condition().waits
    assert (member.core.metrics().ranges_waiting, phase(member)) == (0, MemberPhase.JOINING)
    member.assign(WHOLE)
    assert member.core.condition().waits
    assert (member.core.metrics().ranges_waiting, phase(member)) == (1, MemberPhase.WAITING)
    member.let_go()
    member.after(10)
    assert not member.core.condition().waits
    assert (member.core.metrics().ranges_waiting, phase(member)) == (0, MemberPhase.WORKING)


def test_so_they_do_while_the_user_is_not_ready_for_a_range() -> None:
    member = TableMember(kept_back=[actions.RangesAssigned])
    member.assign(WHOLE)
    assert member.core.condition().waits
    assert (member.core.metrics().ranges_waiting, phase(member)) == (1, MemberPhase.WAITING)


def test_so_they_do_about_keys_whose_handlers_run_elsewhere() -> None:
    log = MemoryLog()
    old = TableMember("m1", log=log)
    old.assign(WHOLE)
    old.produce(b"a", b"b", b"c")
    old.start()
    old.finish(2)
    (claim,) = decode_subscription(old.core.subscription()).claims
    old.assign()
    new = TableMember("m2", log=log, committed=old.committed)
    new.assign(WHOLE, waits=(Wait("m1", 1, claim.number, T0, (WHOLE,)),), lead="m1")
    assert new.core.condition().waits[0].members == ("m1",)
    assert (new.core.metrics().ranges_waiting, phase(new)) == (2, MemberPhase.WAITING)
    old.finish_all()
    old.after(1_000)
    new.hear_log()
    assert not new.core.condition().waits
    assert (new.core.metrics().ranges_waiting, phase(new)) == (0, MemberPhase.WORKING)
