"""Fewer lines of the clients' logs, which report each attempt while no broker answers. Pure.

In: log records, with their own time. Out: which of them to write; these have an event. All clients
of a process share one filter, so that together they write at most a line a second, and one of a
kind in a minute. A member reports an outage first
(`coop_consumer.member.outage`): a client's line waits for its repetition.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress

from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted

_INTERVAL_S = 60.0
_FIRST_S = 3.0
"""A shorter silence is no outage. By then the member has reported what the outage means."""
_CALM_S = 60.0
_PAUSE_S = 1.0
_KINDS_MAX = 1_000
PASSED = "coop_passed"
_CHOSEN = "enable.gapless.guarantee is experimental"
"""librdkafka warns at each start of a setting that is ours (`kafka.output_writer`): no news."""
_PASSED_GENERATION = re.compile(r"TXNERR .*\((ILLEGAL_GENERATION|UNKNOWN_MEMBER_ID)\)")
"""The transaction of a generation that has passed is refused: its member sees to that itself."""
_CONNECTION = re.compile(
    r"connect|refused|timed out|timeout|resolve|brokers? (are|is) down|bootstrap|transport"
    r"|handshake|coordinator|disconnect|socket|host|node",
    re.IGNORECASE,
)
_VARYING = re.compile(r"\d+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b")


def whatever_a_log_does() -> suppress:
    """For a block that writes a line of ours on a thread that must not end by it.

    The handlers and filters of a log are strangers': they may raise, even `SystemExit`.
    """
    return suppress(BaseException)


class Kind:
    """Lines that are alike.

    Attributes:
        first_s: When the first one of this outage came.
        last_s: When the last one came.
        passed_s: When one was written; None: none was.
        held_back: How many have not been written since.
    """

    __slots__ = ("first_s", "held_back", "last_s", "passed_s")

    def __init__(self, now_s: float) -> None:
        self.first_s = self.last_s = now_s
        self.passed_s: float | None = None
        self.held_back = 0


class Seldom(logging.Filter):
    """Lets one line of a kind pass in a minute, and one line of all in a second.

    While no broker answers, each client reports each of its attempts: dozens of lines a second.
    Lines that differ only in numbers are of one kind, and name the sort of client. A line that
    stands for others says so. What has no event of ours gets that of a client's line. A line
    about a connection passes only if its kind comes again after three seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[str, Kind] = {}
        self._passed_s = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write the line; one that stands for others says so."""
        record.__dict__.setdefault("event", LogEvent.CLIENT_LINE.value)
        if getattr(record, PASSED, False) or record.levelno < logging.INFO:
            return True  # another filter of the same line has let it pass, or it was asked for
        try:
            line, now_s = record.getMessage(), record.created
        except Exception:  # noqa: BLE001 - logging says so itself, and never to who logs
            return True
        if _CHOSEN in line or _PASSED_GENERATION.search(line):
            return False
        kind = self._kind_of(line, now_s)
        if not self._is_due(kind, line, now_s):
            kind.held_back += 1
            return False
        if kind.held_back:
            record.msg, record.args = f"{line} [and {counted(kind.held_back, 'time')} before]", ()
        kind.passed_s, kind.held_back, self._passed_s = now_s, 0, now_s
        setattr(record, PASSED, True)
        return True

    def _kind_of(self, line: str, now_s: float) -> Kind:
        # librdkafka's note on the state of a connection differs each time.
        text = _VARYING.sub("#", line.partition(" (after ")[0])
        found = self._kinds.get(text)
        if found is None or now_s - found.last_s > _CALM_S:
            if len(self._kinds) >= _KINDS_MAX:
                self._kinds.clear()
            found = self._kinds[text] = Kind(now_s)
        found.last_s = now_s
        return found

    def _is_due(self, kind: Kind, line: str, now_s: float) -> bool:
        if now_s - self._passed_s < _PAUSE_S:
            return False
        if kind.passed_s is not None:
            return now_s - kind.passed_s >= _INTERVAL_S
        return now_s - kind.first_s >= _FIRST_S or not _CONNECTION.search(line)


CLIENTS = Seldom()
"""Of all clients of this process."""
