"""The announcement of this run in one partition of the progress log: its states and moves. Pure.

In: what `announcing` does and hears. Out: whether tenures may begin there. Only its own methods
write its fields. Upholds I4.

    NOT -append-> SENT -acked-> IN_LOG -another's follows-> CONTESTED -join-> ASKED
     ^                                                                         |
     +--------------------------------assigned---------------------------------+
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, auto


class AnnouncementState(IntEnum):
    """How far the announcement is."""

    NOT = 0
    """Not sent, or not known to be in the log."""
    SENT = 1
    """On its way to the log."""
    IN_LOG = 2
    """In the log: tenures may begin."""
    CONTESTED = 3
    """Another run of our name has announced itself after us: the broker is asked who counts."""
    ASKED = 4
    """We have sent a JoinGroup since, which is fenced if we do not count."""


class AnnouncementEvent(Enum):
    """What changes the state."""

    SEND = auto()
    """It is on its way to the log."""
    APPEND = auto()
    """The log has it."""
    FAIL = auto()
    """The log may have it or not: it is to be appended again."""
    FOLLOW = auto()
    """Another run of our name has announced itself after us."""
    REPEAT = auto()
    """An earlier run has told more since, and did not count: it is to be appended again."""
    # These happen to all partitions of the log at once.
    JOIN = auto()
    """A JoinGroup is about to be sent: if we are not the run that counts, it is fenced."""
    ASSIGN = auto()
    """We are assigned something: the broker took us for the run that counts, back then."""
    FORGET = auto()
    """Records of the log are gone, and so may this one be."""


_S, _E = AnnouncementState, AnnouncementEvent
_MOVES = {
    (_S.NOT, _E.SEND): _S.SENT,
    (_S.SENT, _E.APPEND): _S.IN_LOG,
    (_S.SENT, _E.FAIL): _S.NOT,
    (_S.IN_LOG, _E.FOLLOW): _S.CONTESTED,
    (_S.IN_LOG, _E.REPEAT): _S.NOT,
    **{(state, event): state for state in _S for event in (_E.JOIN, _E.ASSIGN, _E.FORGET)},
    (_S.CONTESTED, _E.JOIN): _S.ASKED,
    (_S.ASKED, _E.ASSIGN): _S.NOT,
    (_S.IN_LOG, _E.FORGET): _S.NOT,
    (_S.CONTESTED, _E.FORGET): _S.NOT,
}
"""Every move. No other pair of state and event may happen."""


@dataclass(slots=True, eq=False)
class Announcement:
    """The announcement in one partition of the log.

    Args:
        log_partition: Its number.

    Attributes:
        state: How far it is.
        offset: Where the last one lies that the log has taken; -1: there was none.
    """

    log_partition: int
    state: AnnouncementState = AnnouncementState.NOT
    offset: int = -1

    def move(self, event: AnnouncementEvent) -> None:
        """Go to the next state. AssertionError: the event may not happen in this one (I4)."""
        following = _MOVES.get((self.state, event))
        assert following is not None, (
            f"I4: progress log, partition {self.log_partition}: {event.name} in state "
            f"{self.state.name}; announced at offset {self.offset}"
        )
        self.state = following

    @property
    def is_in_log(self) -> bool:
        """Whether tenures may begin."""
        return self.state is AnnouncementState.IN_LOG

    @property
    def is_owed(self) -> bool:
        """Whether it is to be appended."""
        return self.state is AnnouncementState.NOT

    @property
    def was_in_log(self) -> bool:
        """Whether it is in the log, whatever has followed it since."""
        return self.state >= AnnouncementState.IN_LOG

    def appended(self, offset: int) -> None:
        """The log has it."""
        self.move(AnnouncementEvent.APPEND)
        self.offset = offset
