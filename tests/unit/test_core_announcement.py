"""The announcement of a run: every move, and what breaks I4."""

from __future__ import annotations

import pytest

from coop_consumer.core import actions, events
from coop_consumer.core.announcement import Announcement, AnnouncementEvent, AnnouncementState
from offsets import AnnounceKey, AnnounceRecord, encode_key, encode_value
from tests.unit.core_member import GROUP, HIGH, LOW, T0, TableMember, keys_in

NOT, SENT, IN_LOG, CONTESTED, ASKED = AnnouncementState
SEND, APPEND, FAIL, FOLLOW, REPEAT, JOIN, ASSIGN, FORGET = AnnouncementEvent
STAY = {state: state for state in AnnouncementState}

MOVES: dict[AnnouncementEvent, dict[AnnouncementState, AnnouncementState]] = {
    SEND: {NOT: SENT},
    APPEND: {SENT: IN_LOG},
    FAIL: {SENT: NOT},
    FOLLOW: {IN_LOG: CONTESTED},
    REPEAT: {IN_LOG: NOT},
    JOIN: STAY | {CONTESTED: ASKED},
    ASSIGN: STAY | {ASKED: NOT},
    FORGET: STAY | {IN_LOG: NOT, CONTESTED: NOT},
}


def happen(announcement: Announcement, event: AnnouncementEvent) -> None:
    if event is APPEND:
        announcement.appended(7)
    else:
        announcement.move(event)


@pytest.mark.parametrize("event", MOVES)
@pytest.mark.parametrize("state", AnnouncementState)
def test_each_pair_of_state_and_event_moves_as_listed_or_breaks_i4(
    state: AnnouncementState, event: AnnouncementEvent
) -> None:
    announcement = Announcement(3)
    announcement.state = state
    if state in MOVES[event]:
        happen(announcement, event)
        assert announcement.state is MOVES[event][state]
    else:
        story = rf"I4: progress log, partition 3: .* in state {state.name}; .* offset -1"
        with pytest.raises(AssertionError, match=story):
            happen(announcement, event)


def test_tenures_may_begin_only_while_the_log_has_it_and_nothing_follows_it() -> None:
    announcement = Announcement(3)
    told = []
    for event in (SEND, APPEND, FOLLOW, JOIN, ASSIGN):
        happen(announcement, event)
        told.append((announcement.is_owed, announcement.is_in_log, announcement.was_in_log))
    assert told == [
        (False, False, False),
        (False, True, True),
        (False, False, True),
        (False, False, True),
        (True, False, False),
    ]
    assert announcement.offset == 7


@pytest.mark.parametrize("static", [True, False])
def test_without_a_group_a_late_announcement_of_another_run_is_followed_by_ours(
    *, static: bool
) -> None:
    """There is nobody to join, and so nobody who says which run counts."""
    member = TableMember(static=static)
    member.tell(events.AssignAlone({T0: (LOW,)}))
    key, value = AnnounceKey(GROUP, member.name), AnnounceRecord(99, 0, "", "elsewhere")
    member.log.append(encode_key(key), encode_value(value))
    member.hear_log()
    member.after(1_000)
    member.tell(events.AssignAlone({T0: (LOW, HIGH)}))
    member.after(1_000)
    member.produce(*keys_in(HIGH, 2))
    assert member.start() == [0, 1]
    assert any("both process the same keys" in it.text for it in member.told(actions.LogLine))
