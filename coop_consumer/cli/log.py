"""The log of a command, on stderr; stdout holds only results."""

from __future__ import annotations

import logging

from coop_consumer.cli import LOG_FORMAT
from coop_consumer.cli.output import echo
from coop_consumer.log_filter import CLIENTS
from coop_consumer.ops.log_format import formatter_of

LEVELS = ("debug", "info", "warning", "error")


class StderrHandler(logging.Handler):
    """Writes to the present stderr; lets repeated lines of kafka-python pass rarely."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is to be written."""
        is_kept = not record.name.startswith("kafka.") or CLIENTS.filter(record)
        return is_kept and bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        echo(self.format(record), err=True)


def set_up_format(log_format: str) -> None:
    """Let the whole process log to stderr, as "text" or as "json".

    Raises:
        ConfigError: What makes JSON is not installed.
    """
    _handler().setFormatter(formatter_of(log_format, LOG_FORMAT))


def belongs_to(group: str, member: str) -> None:
    """Let each line name the group and the member of this process, if lines are JSON."""
    named = getattr(_handler().formatter, "belongs_to", None)
    if named is not None:
        named(group, member)


def is_json() -> bool:
    """Whether the log of this process is JSON, so that nothing else should come on stderr."""
    formatter = _handler().formatter
    return formatter is not None and type(formatter) is not logging.Formatter


def set_up_level(level: str) -> None:
    """Let the whole process log to stderr, from `level` on.

    kafka-python reports each step of its connections at INFO. So only its warnings are logged,
    except at `debug`. It never gets to DEBUG, because it prints all bytes it sends there, logins
    included.
    """
    _handler()
    logging.getLogger().setLevel(level.upper())
    # It also warns whenever its event loop had to wait 0.1 s for the interpreter; a busy pool does.
    logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)
    logging.getLogger("kafka").setLevel(logging.INFO if level == "debug" else logging.WARNING)


def _handler() -> StderrHandler:
    """The one of this process; made when it is first asked for."""
    root = logging.getLogger()
    for handler in root.handlers:
        if isinstance(handler, StderrHandler):
            return handler
    made = StderrHandler()
    made.setFormatter(logging.Formatter(LOG_FORMAT))
    root.addHandler(made)
    return made
