"""Fewer lines of the clients' logs, which tell of each attempt while no broker answers. Pure.

In: log records, with their own time. Out: which of them are worth writing.
"""

from __future__ import annotations

import logging

_INTERVAL_S = 10.0
_KINDS_MAX = 1_000


class Seldom(logging.Filter):
    """Lets one line of a kind pass in ten seconds, and says how many it held back.

    While no broker answers, each client tells of each of its attempts: dozens of lines a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, tuple[float, int]] = {}  # when a line passed, and how many have not

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is to be written; one that stands for others says so."""
        line = record.getMessage()
        kind = line.partition(" (after ")[0]  # librdkafka's note on the state of a connection
        passed_s, held_back = self._seen.get(kind, (-_INTERVAL_S, 0))
        if record.created - passed_s < _INTERVAL_S:
            self._seen[kind] = passed_s, held_back + 1
            return False
        if len(self._seen) >= _KINDS_MAX:
            self._seen.clear()
        self._seen[kind] = record.created, 0
        if held_back:
            record.msg, record.args = f"{line} [and {held_back} times before]", ()
        return True
