"""Settings of how a member is watched. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.config.choices import Tracing
from coop_consumer.config.patterns import ADDRESS, HOST_NAMES, NOT_EMPTY
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
    ops_token_file: str | None = setting(
        None,
        "A file with the secret that the page at `ops.address` asks for, and `/metrics` as well; "
        "`/livez` and `/readyz` never do. Browsers sign in, programs send it as `Authorization: "
        "Bearer`. It is read each time, so a new secret counts at once.",
        "a page that others reach over the network is served to those who know the secret alone",
        pattern=NOT_EMPTY,
        derived="none: the page answers this machine alone",
    )
    ops_allowed_hosts: str | None = setting(
        None,
        "Further names under which browsers ask `ops.address`, as that of a proxy: between commas, "
        "or a list. Addresses in digits, `localhost` and the name in `ops.address` are known.",
        "a site that gives its own name this member's address would read the page in the browsers "
        "of your people",
        pattern=HOST_NAMES,
        derived="none",
        listed=True,
    )
    ops_allow_actions: bool = setting(
        False,
        "Whether the page at `ops.address` offers to retry and skip parked records, to release "
        "ranges, and to pause partitions.",
        "whoever reads the page could act",
    )
    ops_otel: bool = setting(
        False,
        "Whether this member's metrics are shown by instruments of OpenTelemetry, too "
        "(docs/metrics.md#opentelemetry). It needs the extra `otel`.",
        "nothing is made before somebody reads",
    )
    tracing: Tracing = setting(
        Tracing.OFF,
        "Whether each record, or batch, is processed in a span of OpenTelemetry, whose parent is "
        "in the record's headers (docs/tracing.md). It needs the extra `otel`.",
        "a span takes some 45 µs of a record's time, and 10 if the record is not sampled",
        aliases={"true": "on", "false": "off"},
    )
