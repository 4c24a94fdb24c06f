"""What a member reports while no broker answers it. Pure but for its log lines.

In: when a broker answered last, time. Out: a line after a long silence, one a minute from then on,
and one when a broker answers again. The clients report each attempt to connect; these lines say
what it means, name the group, and come first (`coop_consumer.log_filter`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from coop_consumer.member.ports import Say

SILENT_S = 2.0
"""So long that some heartbeats are missing, at two a second."""
_AGAIN_S = 60.0


class Outage:
    """Follows one member's brokers.

    Args:
        say: Reports a line that names the group: its level and text.
        heartbeat_s: How often a broker has to answer.
        join_s: How long a join may take; nobody answers meanwhile.
        doctor: The command that checks the brokers.
        clock: The local time, for people.

    Attributes:
        since_s: Since when no broker has answered (monotonic); None: there is no outage.
    """

    def __init__(
        self,
        say: Say,
        *,
        heartbeat_s: float,
        join_s: float,
        doctor: str,
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._say = say
        self._silent_s = max(SILENT_S, 3 * heartbeat_s)
        self._join_s = join_s
        self._doctor = doctor
        self._clock = clock
        self.since_s: float | None = None
        self._again_s = 0.0
        self._since = ""

    def step(self, now_s: float, answered_s: float | None, *, joining: bool) -> None:
        """Report what is due.

        Args:
            now_s: Monotonic time.
            answered_s: When a broker answered last; None: never, which others report.
            joining: The member waits for the others to join.
        """
        if answered_s is None:
            return
        if self.since_s is not None and answered_s > self.since_s:
            told = f"a broker answers again, after {now_s - self.since_s:.0f} s"
            self._say(logging.WARNING, LogEvent.BROKER_BACK, told)
            self.since_s = None
        silent_s = now_s - answered_s
        if self.since_s is None:
            if silent_s < self._silent_s + (self._join_s if joining else 0.0):
                return
            self.since_s = answered_s
            self._since = f"{self._clock() - timedelta(seconds=silent_s):%H:%M:%S}"
        elif now_s < self._again_s:
            return
        self._again_s = now_s + _AGAIN_S
        self._say(
            logging.WARNING,
            LogEvent.BROKER_AWAY,
            f"no broker answers since {self._since}, for {silent_s:.0f} s: handlers go on with "
            "fetched records, nothing is lost, and finished records are committed once a broker "
            "answers. The clients keep trying. Check that the brokers run, and the network: "
            f"`{self._doctor}` says what it can reach.",
        )
