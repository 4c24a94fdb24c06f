"""Kafka consumers that share partitions: each owns a range of the key-hash space, in key order.

The public surface; everything else is nobody's promise. Names load when first used, so that
importing one pure room does not load Kafka's clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer import own_modules
from coop_consumer.lazy_names import lazily

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition
    from coop_consumer.admin.status_of import status_of
    from coop_consumer.config import Config, Settings
    from coop_consumer.consumer import CooperativeConsumer, RangeListener
    from coop_consumer.core.committed import CommittedOffset
    from coop_consumer.core.metrics import MemberMetrics
    from coop_consumer.core.record import Record
    from coop_consumer.errors import CoopConsumerError
    from coop_consumer.one_core import threads_on_one_core
    from coop_consumer.ops.health import Health, live, ready
    from coop_consumer.owners import Owner
    from coop_consumer.pool import WorkerPool
    from coop_consumer.status.model import GroupStatus
    from coop_consumer.worker import BatchFailure, Context, Worker
    from offsets import OffsetRange

own_modules.check()

__version__ = "0.1.0"

_HOMES = {
    "BatchFailure": "coop_consumer.worker",
    "CommittedOffset": "coop_consumer.core.committed",
    "Config": "coop_consumer.config",
    "Context": "coop_consumer.worker",
    "CoopConsumerError": "coop_consumer.errors",
    "CooperativeConsumer": "coop_consumer.consumer",
    "GroupStatus": "coop_consumer.status.model",
    "Health": "coop_consumer.ops.health",
    "KeyRange": "assignors",
    "MemberMetrics": "coop_consumer.core.metrics",
    "OffsetRange": "offsets",
    "Owner": "coop_consumer.owners",
    "RangeListener": "coop_consumer.consumer",
    "Record": "coop_consumer.core.record",
    "Settings": "coop_consumer.config",
    "TopicPartition": "assignors",
    "Worker": "coop_consumer.worker",
    "WorkerPool": "coop_consumer.pool",
    "live": "coop_consumer.ops.health",
    "ready": "coop_consumer.ops.health",
    "status_of": "coop_consumer.admin.status_of",
    "threads_on_one_core": "coop_consumer.one_core",
}

__all__ = [
    "BatchFailure",
    "CommittedOffset",
    "Config",
    "Context",
    "CoopConsumerError",
    "CooperativeConsumer",
    "GroupStatus",
    "Health",
    "KeyRange",
    "MemberMetrics",
    "OffsetRange",
    "Owner",
    "RangeListener",
    "Record",
    "Settings",
    "TopicPartition",
    "Worker",
    "WorkerPool",
    "__version__",
    "live",
    "ready",
    "status_of",
    "threads_on_one_core",
]

__getattr__ = lazily(__name__, _HOMES)
