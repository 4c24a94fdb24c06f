"""Settings of how a member is watched. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.config.choices import Tracing
from coop_consumer.config.patterns import ADDRESS
from coop_consumer.config.setting import Section, setting


@dataclass(frozen=True, kw_only=True, repr=False)
class OperationSettings:
    """Settings of how a member is watched."""

    SECTION = Section.OPERATION

    ops_address: str | None = setting(
        None,
        "Where this member answers over HTTP: its metrics at `/metrics` (docs/metrics.md), whether "
        "it is alive and ready at `/livez` and `/readyz` (docs/health.md). Port 0 is any free one; "
        "the log says which. `run --ops` sets it.",
        "whoever reaches the address may read, so 127.0.0.1 is for this machine alone, and 0.0.0.0 "
        "for all networks of it",
        pattern=ADDRESS,
        derived="nowhere",
    )
    tracing: Tracing = setting(
        Tracing.OFF,
        "Whether each record, or batch, is processed in a span of OpenTelemetry, whose parent is "
        "in the record's headers (docs/tracing.md). It needs the extra `otel`.",
        "a span takes some 30 µs of a record's time, and 10 if the record is not sampled",
        aliases={"true": "on", "false": "off"},
    )
