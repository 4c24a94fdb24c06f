"""Logs on Kafka as it is: check-and-set on a partition, and state machines over one.

In: what `ConditionalProducer` and `CommitLog` are asked. Out: their answers. Names load when first
used: what works in memory needs none of Kafka's clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.lazy_names import lazily

if TYPE_CHECKING:
    from coop_consumer.logs.bulk_load import BulkLoaded
    from coop_consumer.logs.commit_log import CommitLog
    from coop_consumer.logs.log_thread import Applied, Denied
    from coop_consumer.logs.memory_log import MemoryPartition
    from coop_consumer.logs.producer import ConditionalProducer
    from coop_consumer.logs.records import Conflict, LogToken, NewRecord, VisibleRecord
    from coop_consumer.logs.snapshots import MemorySnapshots
    from coop_consumer.logs.state_machine import StateMachine

_HOMES = {
    "Applied": "coop_consumer.logs.log_thread",
    "BulkLoaded": "coop_consumer.logs.bulk_load",
    "CommitLog": "coop_consumer.logs.commit_log",
    "ConditionalProducer": "coop_consumer.logs.producer",
    "Conflict": "coop_consumer.logs.records",
    "Denied": "coop_consumer.logs.log_thread",
    "LogToken": "coop_consumer.logs.records",
    "MemoryPartition": "coop_consumer.logs.memory_log",
    "MemorySnapshots": "coop_consumer.logs.snapshots",
    "NewRecord": "coop_consumer.logs.records",
    "StateMachine": "coop_consumer.logs.state_machine",
    "VisibleRecord": "coop_consumer.logs.records",
}

__all__ = [
    "Applied",
    "BulkLoaded",
    "CommitLog",
    "ConditionalProducer",
    "Conflict",
    "Denied",
    "LogToken",
    "MemoryPartition",
    "MemorySnapshots",
    "NewRecord",
    "StateMachine",
    "VisibleRecord",
]

__getattr__ = lazily(__name__, _HOMES)
