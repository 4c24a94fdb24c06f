"""What is done: gap tracking, progress, codec. Pure."""

from offsets.gap_tracker import GapTracker
from offsets.offset_range import OFFSET_MAX, OffsetRange
from offsets.progress import (
    Absorbed,
    PartitionProgress,
    RangeProgress,
    absorb,
    melted,
    range_progress,
)
from offsets.records import (
    AnnounceKey,
    AnnounceRecord,
    Attempt,
    BaseKey,
    BaseRecord,
    DecisionKey,
    DecisionRecord,
    Key,
    PolicyKey,
    PolicyRecord,
    StopKey,
    StopRecord,
    TenureId,
    TenureKey,
    TenureRecord,
    Value,
)

__all__ = [
    "OFFSET_MAX",
    "Absorbed",
    "AnnounceKey",
    "AnnounceRecord",
    "Attempt",
    "BaseKey",
    "BaseRecord",
    "DecisionKey",
    "DecisionRecord",
    "GapTracker",
    "Key",
    "OffsetRange",
    "PartitionProgress",
    "PolicyKey",
    "PolicyRecord",
    "RangeProgress",
    "StopKey",
    "StopRecord",
    "TenureId",
    "TenureKey",
    "TenureRecord",
    "Value",
    "absorb",
    "melted",
    "range_progress",
]
