"""One metric as a row of the table: what it is, when it is bad, and what to do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class MetricKind(StrEnum):
    """How a metric behaves, as Prometheus has it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricSection(Enum):
    """Whose figure it is, and so who shows it; in the order of the documentation.

    The first four are of a member, and are at `/metrics` of its own. The last one is of a group,
    seen from outside, and is at `/metrics` of `coop-consumer exporter`.
    """

    MEMBER = "A member"
    EXACTLY_ONCE = "A member: exactly once, and outputs"
    STATE = "A member: keyed state"
    CLIENTS = "A member: librdkafka's clients"
    GROUP = "A group, from outside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A row.

    Attributes:
        name: With prefix and unit, as in a query.
        kind: How it behaves.
        unit: What it counts, or the unit of its values.
        labels: Its labels, in their order. None of them has a key, an offset or a member's name;
            `coop_member_info` alone has the last.
        meaning: What it says, and how it is measured; sentences.
        bad: When it is bad.
        remedy: What to do then.
        section: Whose figure it is.
    """

    name: str
    kind: MetricKind
    unit: str
    labels: tuple[str, ...]
    meaning: str
    bad: str
    remedy: str
    section: MetricSection
