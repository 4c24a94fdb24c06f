"""Asks again while no broker answers: a job that runs outlives a broker that restarts.

In: a question to the brokers. Out: their answer, however long it took; or the error of the last
try. A job that has not begun asks with no patience: a wrong address is reported at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from coop_consumer.errors import BrokerUnreachableError, UnexpectedAnswerError
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

AWAY_S = 300.0
"""How long all brokers may be away before a job that runs ends."""
LEADERLESS_S = 60.0
"""How long a partition may have no leader that knows itself to be it, or a group no coordinator, as
after a broker's fall, before a job ends with what the broker said."""
_AGAIN_S = 0.2
_REPORT_S = 60.0

T = TypeVar("T")


def patiently(
    ask: Callable[[], T],
    what: str,
    *,
    away_s: float = AWAY_S,
    between: Callable[[], bool] = lambda: False,
) -> T:
    """Ask until a broker answers; a log line each minute says that it waits.

    Args:
        ask: Asks once.
        what: Is asked for; for the log.
        away_s: How long no broker may answer.
        between: Is called before each further try; True: give up.

    Raises:
        BrokerUnreachableError, UnexpectedAnswerError: It was in vain for too long.
        Exception: Whatever else `ask` and `between` raise, at once.
    """
    began_s, reported_s = time.monotonic(), float("-inf")
    while True:
        try:
            found = ask()
        except (BrokerUnreachableError, UnexpectedAnswerError) as error:
            now_s = time.monotonic()
            is_away = isinstance(error, BrokerUnreachableError)
            patience_s = away_s if is_away else LEADERLESS_S
            if now_s - began_s >= patience_s:
                raise
            if now_s - reported_s >= _REPORT_S:
                reported_s = now_s
                log.warning(
                    "%s: asked again for %.0f s more, nothing is lost by waiting. %s",
                    what, patience_s - (now_s - began_s), error,
                    extra=LogEvent.BROKER_ASKED_AGAIN.extra(error=error),
                )  # fmt: skip
            if between():
                raise
            time.sleep(_AGAIN_S)
        else:
            if reported_s >= began_s:
                waited_s = time.monotonic() - began_s
                extra = LogEvent.BROKER_ANSWERED.extra()
                told = "%s: answered after %.0f s, the work goes on"
                log.warning(told, what, waited_s, extra=extra)
            return found
