"""What of a member goes to OpenTelemetry: spans (`tracing`), and metrics (`ops.otel`).

In: a configuration. Out: what makes spans of records, outputs that carry them, instruments; or
nothing, and then no module of OpenTelemetry is loaded. An absent package is named, with what brings
it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from importlib import util
from typing import TYPE_CHECKING

from coop_consumer import __version__
from coop_consumer.config import Tracing
from coop_consumer.core.outputs import Outputs
from coop_consumer.core.trace import trace_of
from coop_consumer.errors import ConfigError
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.samples import member_samples

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from coop_consumer.config import Config
    from coop_consumer.core.metrics import MemberMetrics
    from coop_consumer.core.record import Record
    from coop_consumer.ops.instruments import Source
    from coop_consumer.ops.record_spans import RecordSpans
    from coop_consumer.ops.samples import Sample

log = logging.getLogger(__name__)

TRACER = "coop_consumer"
"""The name of our tracer."""


def refuse_without_otel(setting: str, value: str) -> None:
    """Raise if OpenTelemetry's API is not installed.

    Args:
        setting: The setting or option that needs it.
        value: What it says, as in "=on"; "": it is enough that it is there.

    Raises:
        ConfigError: Names what is missing.
    """
    # The name above it belongs to many distributions.
    if util.find_spec("opentelemetry") is None or util.find_spec("opentelemetry.trace") is None:
        raise ConfigError(
            setting,
            f"{value} needs the package opentelemetry-api, which is not installed".lstrip(),
            "Install the extra that brings it: pip install 'coop-consumer[otel]'",
        )


def refuse_uninstalled(config: Config) -> None:
    """Raise if the configuration wants something of OpenTelemetry, and its API is not installed.

    Raises:
        ConfigError: Names what is missing.
    """
    if config.tracing is Tracing.ON:
        refuse_without_otel("tracing", "=on")
    if config.ops_otel:
        refuse_without_otel("ops.otel", "=true")


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
    from opentelemetry.trace import get_tracer, get_tracer_provider  # noqa: PLC0415

    from coop_consumer.ops.record_spans import RecordSpans  # noqa: PLC0415

    _warn_if_unset(get_tracer_provider(), config.group_id, "tracing=on", "spans")
    return RecordSpans(get_tracer(TRACER, __version__), config, member)


def outputs_type(config: Config) -> type[Outputs]:
    """What takes the outputs of a member's handlers."""
    if config.tracing is not Tracing.ON:
        return Outputs
    from coop_consumer.ops.traced_outputs import TracedOutputs  # noqa: PLC0415 - as above

    return TracedOutputs


def context_of(record: Record) -> Context | None:
    """The context of a record's span; None: it has none."""
    context: Context | None = getattr(trace_of(record), "context", None)
    return context


def instrumented(config: Config, metrics: Callable[[], MemberMetrics]) -> Source | None:
    """Show a member's metrics by OpenTelemetry; None: its configuration does not want that.

    Args:
        config: The member's.
        metrics: Returns its figures, at any moment.

    Returns:
        What has to `end` with the member.
    """
    if not config.ops_otel:
        return None

    def samples() -> Iterable[Sample]:
        return member_samples(metrics())

    return show_samples(config.group_id, samples, "ops.otel=true", of_groups=False)


def show_samples(
    group: str, samples: Callable[[], Iterable[Sample]], asked: str, *, of_groups: bool
) -> Source:
    """Show samples by OpenTelemetry's instruments.

    Args:
        group: Whose they are.
        samples: Returns them, as of now.
        asked: The setting or option that wants this.
        of_groups: They are of groups, as these are seen from outside, not of a member.
    """
    # Loaded when it is asked for.
    from opentelemetry.metrics import get_meter_provider  # noqa: PLC0415

    from coop_consumer.ops.instruments import instruments  # noqa: PLC0415

    _warn_if_unset(get_meter_provider(), group, asked, "metrics")
    return instruments(of_groups=of_groups).show(group, samples)


def _warn_if_unset(provider: object, group: str, asked: str, what: str) -> None:
    """Say that nobody takes what is made: to set a provider is easily forgotten."""
    if "Proxy" in type(provider).__name__:  # the API's own, which waits for another one
        told = (
            "group %s: %s, and nothing in this program takes %s yet. Set a provider of "
            "OpenTelemetry, or start the program by opentelemetry-instrument (docs/tracing.md)"
        )
        log.warning(told, group, asked, what, extra=LogEvent.OTEL_UNSET.extra(group=group))
