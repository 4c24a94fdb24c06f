"""The settings that are a choice, one enum each. Pure values.

Room: `coop_consumer.config`. A member of each enum equals its text in a configuration, so it prints
and compares as the user wrote it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

ExecutorName: TypeAlias = Literal["thread", "process", "inline"]
"""What runs handlers; an argument of pools, and no setting."""


class Ordering(StrEnum):
    """What keeps its order, and thereby what may be shared."""

    KEY = "key"
    PARTITION = "partition"
    NONE = "none"


class Guarantee(StrEnum):
    """What holds for what handlers leave in Kafka, and for the progress of their records."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


class AssignorName(StrEnum):
    """How ranges are dealt to members."""

    STICKY = "sticky"
    ROUNDROBIN = "roundrobin"
    RANGE = "range"


class Split(StrEnum):
    """When partitions are split: only where members outnumber partitions, or always."""

    AUTO = "auto"
    ALWAYS = "always"


class Balance(StrEnum):
    """What a plan makes even: the load that members have measured, or the number of hashes."""

    LOAD = "load"
    HASH = "hash"


class UpgradeFrom(StrEnum):
    """The assignor of plain members that may be in the group beside ours, in either direction."""

    NONE = "none"
    RANGE = "range"
    COOPERATIVE_STICKY = "cooperative-sticky"


class OnFailure(StrEnum):
    """What happens to a record whose last attempt failed."""

    PARK = "park"
    STOP = "stop"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"


class OnOverdue(StrEnum):
    """What happens to a record whose handler runs for too long."""

    LEAVE = "leave"
    FAIL = "fail"
    EXIT = "exit"


class OnDataLoss(StrEnum):
    """What happens when offsets are gone before they were processed."""

    WARN = "warn"
    STOP = "stop"


class LogKeys(StrEnum):
    """What lines of the log, and loads in the progress log, may show of keys."""

    TEXT = "text"
    HASH = "hash"
    NONE = "none"


class Tracing(StrEnum):
    """Whether records are processed in spans of OpenTelemetry."""

    OFF = "off"
    ON = "on"


class OffsetReset(StrEnum):
    """Where a group begins that has no progress and no committed offset."""

    EARLIEST = "earliest"
    LATEST = "latest"


class IsolationLevel(StrEnum):
    """Whether records of open and aborted transactions are handed out."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"
