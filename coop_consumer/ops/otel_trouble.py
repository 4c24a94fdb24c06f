"""What OpenTelemetry raises: it goes to the log, and to no handler.

In: an error of a tracer, a sampler, a propagator or an exporter. Out: a line, once a minute.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic

from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

_REPORT_S = 60.0
_lock = threading.Lock()
_due_s = 0.0


def report(error: Exception) -> None:
    """Say that OpenTelemetry has raised something, if nobody has said so of late."""
    global _due_s  # noqa: PLW0603 - one line for all members of the process
    with _lock:
        now_s = monotonic()
        if now_s < _due_s:
            return
        _due_s = now_s + _REPORT_S
    told = "OpenTelemetry has raised %s: spans or metrics are missing; records are processed on"
    extra = LogEvent.OTEL_FAILED.extra(error=error)
    log.warning(told, type(error).__name__, exc_info=error, extra=extra)
