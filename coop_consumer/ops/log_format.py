"""How lines of the log look: text, or a JSON object each (extra `log`).

In: log records, of ours and of strangers. Out: a formatter for any handler of logging. All that a
line has as `extra` becomes fields: ours are those of `coop_consumer.log_events`.
"""

from __future__ import annotations

import logging
import os
from importlib import import_module, util

from coop_consumer.errors import ConfigError

FORMATS = ("text", "json")
VARIABLE = "COOP_LOG_FORMAT"
"""Names the format where no command line does: in tasks of Spark, say."""

EXTRA = "coop-consumer[log]"


def formatter_of(log_format: str, text: str) -> logging.Formatter:
    """The formatter of lines.

    Args:
        log_format: "text" or "json".
        text: The format of a line of text, as logging takes it.

    Raises:
        ConfigError: JSON is asked for, and the package that makes it is not installed.
    """
    if log_format != "json":
        return logging.Formatter(text)
    if util.find_spec("pythonjsonlogger") is None:
        raise ConfigError(
            "--log-format",
            "=json needs the package python-json-logger, which is not installed",
            f"Install the extra that brings it: pip install '{EXTRA}'",
        )
    made: logging.Formatter = import_module("coop_consumer.ops.json_lines").JsonLines()
    return made


def json_if_asked() -> None:
    """If nobody has set up a log here, and the environment asks for JSON, write JSON to stderr.

    For processes that others start: Spark's executors. May be repeated.

    Raises:
        ConfigError: As `formatter_of`.
    """
    root = logging.getLogger()
    if root.handlers or os.environ.get(VARIABLE) != "json":
        return
    handler = logging.StreamHandler()
    handler.setFormatter(formatter_of("json", ""))
    root.addHandler(handler)
