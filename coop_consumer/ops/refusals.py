"""Lines about requests that were refused: at most one a second, however many there are.

In: who asked for what, and why it was refused. Out: a line, with the number of those that had none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted, printable, shortened

log = logging.getLogger(__name__)

_PAUSE_S = 1.0
_CHARS_MAX = 200


class Refusals:
    """The refusals of one server. Its event loop alone calls.

    Args:
        now_s: The clock.
    """

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._due_s = float("-inf")
        self._untold = 0

    def report(self, who: str, what: str, why: str) -> None:
        """Report a refusal, or count it if the line before is younger than a second.

        Args:
            who: The client's address, and the name that was given, if there is one.
            what: What was asked for.
            why: Why it was refused; sentences.
        """
        now_s = self._now_s()
        if now_s < self._due_s:
            self._untold += 1
            return
        self._due_s = now_s + _PAUSE_S
        more = counted(self._untold, "more was", "more were") if self._untold else ""
        self._untold = 0
        log.warning(
            "%s was refused %s: %s%s",
            who,
            shortened(printable(what), _CHARS_MAX),
            shortened(printable(why), _CHARS_MAX),
            f" {more} refused since the line before." if more else "",
            extra=LogEvent.OPS_REQUEST_REFUSED.extra(who=who),
        )
