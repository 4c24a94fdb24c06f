"""Whether records are traced (`tracing=on`), and what that takes.

In: a configuration. Out: what makes spans of records, and outputs that carry them; or nothing, and
then no module of OpenTelemetry is loaded. An absent package is named, with what brings it.
"""

from __future__ import annotations

import logging
from importlib import util
from typing import TYPE_CHECKING

from coop_consumer import __version__
from coop_consumer.config import Tracing
from coop_consumer.core.outputs import Outputs
from coop_consumer.core.trace import trace_of
from coop_consumer.errors import ConfigError
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from coop_consumer.config import Config
    from coop_consumer.core.record import Record
    from coop_consumer.ops.record_spans import RecordSpans

log = logging.getLogger(__name__)

TRACER = "coop_consumer"
"""The name of our tracer, and of our meter."""


def refuse_without_opentelemetry(setting: str, value: str) -> None:
    """Raise if OpenTelemetry's API is not installed.

    Args:
        setting: The setting that needs it.
        value: What it says.

    Raises:
        ConfigError: Names what is missing.
    """
    # The name above it belongs to many distributions.
    if util.find_spec("opentelemetry") is None or util.find_spec("opentelemetry.trace") is None:
        raise ConfigError(
            setting,
            f"={value} needs the package opentelemetry-api, which is not installed",
            "Install the extra that brings it: pip install 'coop-consumer[otel]'",
        )


def refuse_untraceable(config: Config) -> None:
    """Raise if the configuration wants traces, and nothing can make them.

    Raises:
        ConfigError: OpenTelemetry's API is not installed.
    """
    if config.tracing is Tracing.ON:
        refuse_without_opentelemetry("tracing", config.tracing)


def spans_of(config: Config, member: str) -> RecordSpans | None:
    """What makes spans of a member's records; None: its configuration wants none.

    Call it once the user's code has set up OpenTelemetry, if it does.

    Args:
        config: The member's.
        member: Its name.
    """
    if config.tracing is not Tracing.ON:
        return None
    # Loaded when it is asked for: 60 ms.
    from opentelemetry.trace import (  # noqa: PLC0415
        ProxyTracerProvider,
        get_tracer,
        get_tracer_provider,
    )

    from coop_consumer.ops.record_spans import RecordSpans  # noqa: PLC0415

    if isinstance(get_tracer_provider(), ProxyTracerProvider):
        group = config.group_id
        told = (
            "group %s: tracing=on, and nothing in this program takes spans yet. Set a tracer "
            "provider, or start the program with opentelemetry-instrument (docs/tracing.md)"
        )
        extra = LogEvent.TRACING_UNSET.extra(group=group, member=member)
        log.warning(told, group, extra=extra)
    return RecordSpans(get_tracer(TRACER, __version__), config, member)


def context_of(record: Record) -> Context | None:
    """The context of a record's span; None: it has none."""
    context: Context | None = getattr(trace_of(record), "context", None)
    return context


def outputs_type(config: Config) -> type[Outputs]:
    """What takes the outputs of a member's handlers."""
    if config.tracing is not Tracing.ON:
        return Outputs
    from coop_consumer.ops.traced_outputs import TracedOutputs  # noqa: PLC0415 - as above

    return TracedOutputs
