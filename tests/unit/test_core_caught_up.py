"""When a member has caught up: everything assigned is processed up to its end, and begun."""

from __future__ import annotations

import pytest

from assignors import WHOLE, Wait, decode_subscription
from coop_consumer.core import actions, events
from tests.simulation.data_log import SimMessage
from tests.unit.core_member import HIGH, LOW, T0, TableMember, keys_in


def test_not_before_there_is_an_assignment() -> None:
    member = TableMember()
    assert not member.core.caught_up
    member.assign()
    assert member.core.caught_up, "of nothing, all is done"


def test_not_before_the_end_of_the_partition_is_seen() -> None:
    member = TableMember()
    member.assign(WHOLE)
    assert not member.core.caught_up
    member.fetch()
    assert member.core.caught_up


def test_not_while_a_record_waits_runs_or_backs_off() -> None:
    member = TableMember(attempt_backoff_ms=100)
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    assert not member.core.caught_up
    member.start()
    member.finish(1)
    assert not member.core.caught_up, "0 runs"
    member.fail(0)
    assert not member.core.caught_up, "0 backs off"
    member.after(60_000)
    member.finish_all()
    assert member.core.caught_up
    member.produce(b"c")
    assert not member.core.caught_up


def test_not_while_a_record_is_parked() -> None:
    member = TableMember(max_attempts=1, on_failure="park")
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    member.start()
    member.fail(0)
    member.finish(1)
    member.after(60_000)
    assert not member.core.caught_up


@pytest.mark.parametrize("kept_back", [actions.ReadLog, actions.FetchCommitted, actions.Append])
def test_not_before_its_ranges_have_begun(kept_back: type) -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.fetch()
    member.assign()
    member.kept_back = {kept_back}
    member.assign(WHOLE)
    assert not member.core.caught_up
    member.let_go()
    member.after(200)
    member.fetch()
    assert member.core.caught_up


def test_not_by_an_end_that_it_saw_before_its_ranges_were_anothers() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.fetch()
    member.assign()
    member.messages.append(SimMessage(0, 0, b"written while another had it"))
    member.assign(WHOLE)
    assert not member.core.caught_up
    member.fetch()
    member.finish_all()
    assert member.core.caught_up


def test_not_by_an_end_that_it_saw_before_a_pause() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.fetch()
    member.tell(events.Pause(1, [T0]))
    member.messages.append(SimMessage(0, 0, b"written meanwhile"))
    member.tell(events.Resume(2, [T0]))
    assert not member.core.caught_up
    member.fetch()
    member.finish_all()
    assert member.core.caught_up


def test_not_while_a_part_of_what_is_assigned_waits_for_its_old_owner() -> None:
    old = TableMember("m1", incarnation=7)
    old.assign(WHOLE)
    [low_key] = keys_in(LOW, 1)
    old.produce(low_key)
    old.start()
    old.assign(HIGH)
    claims = decode_subscription(old.core.subscription()).claims
    waits = tuple(Wait("m1", 7, it.number, T0, it.ranges) for it in claims if it.draining)
    new = TableMember("m2", incarnation=9, log=old.log, committed=old.committed)
    new.assign(LOW, waits=waits)
    new.messages = list(old.messages)
    new.fetch()
    assert not new.core.caught_up, "a handler of the old owner runs"
    old.finish(0)
    new.hear_log()
    new.fetch()
    assert new.core.caught_up


def test_not_once_the_group_has_put_it_out() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.fetch()
    member.tell(events.Lost("session over"))
    assert not member.core.caught_up
