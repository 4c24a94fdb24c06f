"""Lines of the log as JSON objects, made by python-json-logger (extra `log`).

In: a log record. Out: one line: `ts`, `level`, `event` and its facts, `message`, then all else that
the record has as `extra`. It is plain ASCII, so no text of strangers is obeyed by a terminal.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonEncoder, JsonFormatter

from coop_consumer.log_events import trace_id
from coop_consumer.log_filter import PASSED

_RESERVED = frozenset([*RESERVED_ATTRS, PASSED])
_encoded = JsonEncoder().encode
"""The formatter's own way makes an encoder for each line, which takes a third of the time."""


class JsonLines(JsonFormatter):
    """Formats log records as JSON objects."""

    def belongs_to(self, group: str, member: str) -> None:
        """From now on each line has these, also those of strangers, unless it has its own."""
        self.static_fields = {"group": group, "member": member}

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        """Fill in the fields, in their order."""
        ts = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data["ts"] = f"{ts[:-6]}Z"
        log_data["level"] = record.levelname.lower()
        event = record.__dict__.get("event")
        if event is not None:
            log_data["event"] = event
        log_data["message"] = record.message
        log_data |= self.static_fields
        log_data |= {
            name: value for name, value in record.__dict__.items() if name not in _RESERVED
        }
        # A line of ours has its trace; one of the user's gets it here.
        if event is None and "trace_id" not in log_data and (trace := trace_id()) is not None:
            log_data["trace_id"] = trace
        log_data["logger"], log_data["thread"] = record.name, record.threadName
        log_data["process"] = record.process
        if (traceback := message_dict.pop("exc_info", None)) is not None:
            log_data["traceback"] = traceback
        if (stack := message_dict.pop("stack_info", None)) is not None:
            log_data["stack"] = stack
        log_data |= message_dict

    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        """The line."""
        return _encoded(log_data)
