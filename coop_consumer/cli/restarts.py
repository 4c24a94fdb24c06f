"""What `coop-consumer run` does when its worker process has ended. Pure.

Room: `coop_consumer.cli`. In: what the process reported of its membership, how it ended, how long
it ran. Out: `Again` or `EndCommand`. It takes no clock and no process. Two things must hold. A dead
member never keeps its ranges until its session expires. A process that ended in order is not
started again: somebody asked for its end, or has to act on its error.
"""

from __future__ import annotations

from typing import NamedTuple

from coop_consumer.errors import ExitCode

RAN_WELL_S = 10.0
"""A process that ran for so long is started again at once, however often it fell before."""

PAUSE_S, PAUSE_MAX_S = 0.5, 30.0
"""The first pause before a start, and the longest; each is twice the one before."""

LEAVES_FROM_S = 2.0
"""In a shorter pause its ranges wait for the next process; moving them twice would take longer."""

_STARTED_AGAIN = (
    ExitCode.BROKEN,
    ExitCode.OVERDUE,
    ExitCode.UNAVAILABLE,
    ExitCode.FILES,
    ExitCode.MEMORY,
    ExitCode.THREADS,
)
"""Ends that a new process may mend: a defect, a stuck handler, brokers that were away, and what a
handler leaks."""


class Again(NamedTuple):
    """Start it again.

    Attributes:
        pause_s: How long to wait before.
        takes_over: The member id under which the new process joins, or "".
        leaves: The member id that has to leave the group now, or "".
    """

    pause_s: float
    takes_over: str = ""
    leaves: str = ""


class EndCommand(NamedTuple):
    """Start it no more.

    Attributes:
        exit_code: How the command ends.
        leaves: The member id that has to leave the group now, or "".
    """

    exit_code: int
    leaves: str = ""


class Restarts:
    """Follows the worker processes of one command, one after the other.

    A process is started again if it fell as a member of the group: it was killed, or ended without
    leaving. Two other ends end the command. The first: no process has joined yet, so nobody waits
    for it and somebody looks at the screen. The second: an end in order, with a few exceptions.

    Attributes:
        ending: A signal was passed on: the end of the process ends the command.
    """

    def __init__(self) -> None:
        self._has_joined = False
        self._is_member = False
        self._member = ""
        self._falls = 0
        self.ending = False

    def joined(self, member: str) -> None:
        """The process is a member; "" for a static one, which comes back without having left."""
        self._has_joined = self._is_member = True
        self._member = member

    def left(self) -> None:
        """The process has left the group, or never was in it."""
        self._is_member, self._member = False, ""

    def told_to_end(self) -> None:
        """A signal was passed on to the process."""
        self.ending = True

    def ended(self, code: int, ran_s: float) -> Again | EndCommand:
        """The process has ended after `ran_s`, with an exit code or (below 0) by a signal."""
        fell = self._is_member or code < 0 or code in _STARTED_AGAIN
        self._is_member = False
        if self.ending or not (self._has_joined and fell):
            return EndCommand(_exit_code_of(code), self._take_member_id())
        self._falls = 1 if ran_s >= RAN_WELL_S else self._falls + 1
        pause_s = min(PAUSE_S * 2 ** (self._falls - 2), PAUSE_MAX_S) if self._falls > 1 else 0.0
        if pause_s < LEAVES_FROM_S:
            return Again(pause_s, takes_over=self._member)
        return Again(pause_s, leaves=self._take_member_id())

    def interrupted(self, number: int) -> EndCommand:
        """A signal came while no process ran."""
        return EndCommand(_exit_code_of(-number), self._take_member_id())

    def _take_member_id(self) -> str:
        member, self._member = self._member, ""
        return member


def _exit_code_of(code: int) -> int:
    """An exit code as every shell has it: 128 and the signal's number."""
    return code if code >= 0 else 128 - code
