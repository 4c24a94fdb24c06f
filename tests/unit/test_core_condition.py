"""What a member says of itself for probes: what it waits for, and what holds it back."""

from __future__ import annotations

from assignors import KEY_HASH_MAX, WHOLE, KeyRange, Wait, decode_subscription
from coop_consumer.core import actions
from coop_consumer.core.condition import Condition
from offsets import MemoryLog
from tests.unit.core_member import T0, TableMember

HIGH = KeyRange(KEY_HASH_MAX // 2 + 1, KEY_HASH_MAX)


def test_who_has_no_assignment_is_no_member() -> None:
    member = TableMember()
    found = member.core.condition()
    assert (found.is_member, found.partitions, found.waits) == (False, 0, ())


def test_who_was_assigned_nothing_is_a_member_that_waits_for_nothing() -> None:
    member = TableMember()
    member.assign()
    found = member.core.condition()
    assert (found.is_member, found.partitions, found.waits) == (True, 0, ())


def test_what_has_begun_waits_for_nothing() -> None:
    member = TableMember()
    member.assign(WHOLE)
    assert member.core.condition() == Condition(
        at_ms=member.now_ms,
        is_member=True,
        is_closing=False,
        partitions=1,
        waits=(),
        circuit_since_ms=0,
        stop=None,
    )


def test_a_range_that_waits_for_another_member_names_it_from_the_first_moment() -> None:
    log = MemoryLog()
    old = TableMember("m1", log=log)
    old.assign(WHOLE)
    (claim,) = decode_subscription(old.core.subscription()).claims
    new = TableMember("m2", log=log, committed=old.committed)
    new.assign(HIGH, waits=(Wait("m1", 1, claim.number, T0, (HIGH,)),), lead="m1")
    since_ms = new.now_ms
    for _ in range(12):
        new.after(1_000)
    [wait] = new.core.condition().waits
    assert (wait.tp, wait.since_ms, wait.members) == (T0, since_ms, ("m1",))
    assert f"keys {HIGH} wait for their last owner" in wait.why
    old.assign()
    new.hear_log()
    assert new.core.condition().waits == ()


def test_a_range_that_waits_for_the_log_names_nobody() -> None:
    member = TableMember()
    member.kept_back = {actions.ReadLog}
    member.assign(WHOLE)
    [wait] = member.core.condition().waits
    assert (wait.tp, wait.members) == (T0, ())
    assert "is not read far enough yet" in wait.why


def test_an_open_circuit_tells_since_when() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(*(b"k%d" % number for number in range(40)))
    member.fail(*member.start())
    assert member.core.condition().circuit_since_ms == member.now_ms


def test_a_stop_of_the_group_is_told_and_then_the_member_closes() -> None:
    member = TableMember(on_failure="stop", max_attempts=1)
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    member.fail(0)
    stop = member.core.condition().stop
    assert stop is not None
    assert (stop.topic, stop.partition, stop.offset) == ("t", 0, 0)
