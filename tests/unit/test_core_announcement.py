"""The announcement of a run: every move, and what breaks I4."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coop_consumer.core.announcement import Announcement, AnnouncementState

NOT, SENT, IN_LOG, CONTESTED, ASKED = AnnouncementState
STAY = {state: state for state in AnnouncementState}

MOVES: dict[str, dict[AnnouncementState, AnnouncementState]] = {
    "send": {NOT: SENT},
    "appended": {SENT: IN_LOG},
    "failed": {SENT: NOT},
    "followed": {IN_LOG: CONTESTED},
    "repeat": {IN_LOG: NOT},
    "joining": STAY | {CONTESTED: ASKED},
    "assigned": STAY | {ASKED: NOT},
    "forget_log": STAY | {IN_LOG: NOT, CONTESTED: NOT},
}
VERBS: dict[str, Callable[[Announcement], None]] = {
    "send": Announcement.send,
    "appended": lambda announcement: announcement.appended(7),
    "failed": Announcement.failed,
    "followed": Announcement.followed,
    "repeat": Announcement.repeat,
    "joining": Announcement.joining,
    "assigned": Announcement.assigned,
    "forget_log": Announcement.forget_log,
}


@pytest.mark.parametrize("verb", MOVES)
@pytest.mark.parametrize("state", AnnouncementState)
def test_each_pair_of_state_and_event_moves_as_listed_or_breaks_i4(
    state: AnnouncementState, verb: str
) -> None:
    announcement = Announcement(3)
    announcement.state = state
    if state in MOVES[verb]:
        VERBS[verb](announcement)
        assert announcement.state is MOVES[verb][state]
    else:
        story = rf"I4: progress log, partition 3: .* in state {state.name}; .* offset -1"
        with pytest.raises(AssertionError, match=story):
            VERBS[verb](announcement)


def test_tenures_may_begin_only_while_the_log_has_it_and_nothing_follows_it() -> None:
    announcement = Announcement(3)
    told = []
    for verb in ("send", "appended", "followed", "joining", "assigned"):
        VERBS[verb](announcement)
        told.append((announcement.is_owed, announcement.is_in_log, announcement.was_in_log))
    assert told == [
        (False, False, False),
        (False, True, True),
        (False, False, True),
        (False, False, True),
        (True, False, False),
    ]
    assert announcement.offset == 7
