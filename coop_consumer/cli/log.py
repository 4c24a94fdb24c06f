"""The log of a command, on stderr, so that stdout holds results alone."""

from __future__ import annotations

import logging

from coop_consumer.cli import LOG_FORMAT
from coop_consumer.cli.output import echo
from coop_consumer.log_filter import CLIENTS

LEVELS = ("debug", "info", "warning", "error")


class StderrHandler(logging.Handler):
    """Writes to whatever stderr is at that moment; what kafka-python repeats, seldom."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is to be written."""
        is_kept = not record.name.startswith("kafka.") or CLIENTS.filter(record)
        return is_kept and bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        echo(self.format(record), err=True)


def set_up_logging(level: str) -> None:
    """Let the whole process log to stderr, from `level` on.

    kafka-python tells each step of its connections at INFO, where nobody looks for them: it is held
    to warnings unless everything is wanted. It never gets to DEBUG, where it prints all bytes it
    sends, those of a login included.
    """
    root = logging.getLogger()
    if not any(isinstance(handler, StderrHandler) for handler in root.handlers):
        handler = StderrHandler()
        handler.setFormatter(logging.Formatter(LOG_FORMAT))
        root.addHandler(handler)
    root.setLevel(level.upper())
    # It also warns whenever its event loop had to wait 0.1 s for the interpreter; a busy pool does.
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)
    logging.getLogger("kafka").setLevel(logging.INFO if level == "debug" else logging.WARNING)
