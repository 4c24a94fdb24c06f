"""A lane's states: it makes the listed moves, any other one raises with the lane's story."""

from __future__ import annotations

from itertools import product

import pytest

from assignors import WHOLE
from coop_consumer.core.lane import BEHIND, MOVES, READY, RUNNING, Entry, Lane, LaneState
from tests.unit.core_member import T0, TableMember


def busy_member() -> tuple[TableMember, Lane]:
    """A member with two records of one key: the second one is in a lane, behind the first."""
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"a")
    lane = member.core.lanes.tables.of(T0)[b"a"]
    assert isinstance(lane, Lane)
    assert lane.state is BEHIND
    return member, lane


@pytest.mark.parametrize(("before", "after"), [*product(LaneState, LaneState)])
def test_a_lane_makes_the_listed_moves_and_no_other(before: LaneState, after: LaneState) -> None:
    _, lane = busy_member()
    lane.state = before
    if (before, after) in MOVES:
        lane.move(after)
        assert lane.state is after
        return
    with pytest.raises(AssertionError, match=f"I4: .* from {before.name} to {after.name}") as why:
        lane.move(after)
    for fact in (str(T0), "key b'a'", "offsets [1]", "behind offset 0"):
        assert fact in str(why.value)
    assert lane.state is before


def test_a_move_in_a_loop_is_looked_at_by_the_check() -> None:
    member, lane = busy_member()
    lanes = member.core.lanes
    lanes.check()
    chunk = lanes.take(8, list[Entry]())
    lanes.ended += chunk
    lanes.settle()
    lanes.check()
    assert lane.state is READY
    lanes.ready.withdraw({id(lane): lane})
    lane.state, lane.ahead = BEHIND, lane.records[0]
    with pytest.raises(AssertionError, match=r"I4: .* from READY to BEHIND: .*key b'a'"):
        lanes.check()


def test_a_lane_that_is_ready_and_in_no_queue_is_found() -> None:
    member, lane = busy_member()
    lane.state, lane.ahead = READY, None
    with pytest.raises(AssertionError, match=r"I4: .* while READY, only then: .*key b'a'"):
        member.core.lanes.check()


def test_a_lane_that_an_executor_took_is_running() -> None:
    member, lane = busy_member()
    lanes = member.core.lanes
    lanes.ended.append(lanes.begin())
    chunk = lanes.take(8, list[Entry]())
    assert chunk == [lane]
    assert lane.state is RUNNING
    lanes.check()
    lane.begun = True
    with pytest.raises(AssertionError, match=r"I4: .*key b'a' RUNNING"):
        lanes.check()
