"""Seats: of static members, and of dead ones that another takes over."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coop_consumer.errors import FencedError, MemberLostError
from coop_consumer.kafka.membership import leave_for
from tests.support.memberships import DOOMED_MEMBER, Group

pytestmark = pytest.mark.integration


# -- static members --------------------------------------------------------------------------------


def test_a_static_member_that_returns_in_time_keeps_its_generation(group: Group) -> None:
    static = {"group_instance_id": "one", "session_timeout_ms": 10_000}
    [before] = group.join("before", **static)
    [other] = group.join("other")
    generation = group.settle()
    had, heard = before.held(), len(other.heard)
    before.membership.leave()
    group.members.remove(before)
    [after] = group.join("after", **static)
    assert group.settle(members=2) == generation
    assert (after.held().user_data, after.held().group_instance_id) == (had.user_data, "one")
    assert after.held().member_id != had.member_id
    assert len(other.heard) == heard


def test_a_twin_of_a_static_member_ends_the_older_one(group: Group) -> None:
    [older] = group.join("older", group_instance_id="one")
    older.fails = True
    younger = group.member("younger", group_instance_id="one")
    younger.membership.start()
    error = older.wait_for("fatal")
    assert isinstance(error, FencedError)
    assert error.instance == "one"
    assert older.kinds()[-2:] == ["lost", "fatal"]
    younger.wait_for("assigned")
    assert "lost" not in younger.kinds()


def test_a_member_is_told_whether_it_still_is_the_one_that_was_assigned(group: Group) -> None:
    [older] = group.join("older", group_instance_id="one")
    generation = older.held().generation
    assert older.confirm(generation) is None
    assert isinstance(older.confirm(generation - 1), MemberLostError)
    older.fails = True
    younger = group.member("younger", group_instance_id="one")
    younger.membership.start()
    younger.wait_for("assigned")
    assert isinstance(older.confirm(generation), FencedError | MemberLostError)
    assert younger.confirm(younger.held().generation) is None
    assert isinstance(older.wait_for("fatal"), FencedError)


# -- seats -----------------------------------------------------------------------------------------


class TakenSeat:
    """A seat that a dead process has left, and what its new owner tells of it."""

    def __init__(self, member: str) -> None:
        self.member = member
        self.told: list[str] = []

    def take(self) -> str:
        return self.member

    def joined(self, member: str) -> None:
        self.told.append(member)

    def left(self) -> None:
        self.told.append("left")


@pytest.fixture
def dead(group: Group) -> str:
    """The id of a member whose process is dead, and whose session is far from its end."""
    [survivor] = group.join("survivor")
    program = DOOMED_MEMBER.replace("session_timeout_ms=2_000", "session_timeout_ms=600_000")
    command = [sys.executable, "-c", program, group.bootstrap, group.group_id, group.topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as doomed:
        try:
            assert doomed.stdout is not None
            assert doomed.stdout.readline() == b"assigned\n"
            group.settle(members=2)
        finally:
            doomed.kill()
    [dead] = {it.member_id for it in survivor.led[-1][1]} - {survivor.held().member_id}
    return dead


def test_a_dead_member_can_be_made_to_leave_and_asking_again_is_no_error(
    group: Group, dead: str
) -> None:
    client = {"bootstrap_servers": group.bootstrap, "group_id": group.group_id}
    leave_for(client, dead)
    group.settle(members=1)
    leave_for(client, dead)


def test_a_member_that_takes_a_dead_ones_seat_needs_one_rebalance(group: Group, dead: str) -> None:
    generation = group.members[0].held().generation
    seat = TakenSeat(dead)
    [heir] = group.join("heir", seat=seat)
    assert (heir.held().member_id, heir.held().generation) == (dead, generation + 1)
    assert seat.told == [dead]
    heir.membership.leave()
    group.members.remove(heir)
    group.settle(members=1)
    assert seat.told == [dead, "left"]


def test_a_member_whose_seat_is_gone_gets_another(group: Group) -> None:
    seat = TakenSeat("nobody-knows-this-one")
    [member] = group.join("late", seat=seat)
    assert seat.told == [member.held().member_id]


def test_a_static_member_tells_no_id_as_nobody_else_can_sit_there(group: Group) -> None:
    seat = TakenSeat("")
    group.join("one", seat=seat, group_instance_id="one")
    assert seat.told == [""]
