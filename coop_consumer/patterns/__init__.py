"""Patterns that leave each output once: for single writers, other stores and old topics.

A `WorkerPool` with `processing.guarantee=exactly_once` needs none of them. docs/patterns.md
says what each of them promises, against what, and what it costs.
"""

from coop_consumer.patterns.checkpoint import Checkpoint
from coop_consumer.patterns.deduplicator import Deduplicator
from coop_consumer.patterns.exclusive_producer import ExclusiveProducer
from coop_consumer.patterns.folding import set_value
from coop_consumer.patterns.merge_log import MergedBatch, MergeLog
from coop_consumer.patterns.offset_changelog import OffsetChangelog
from coop_consumer.patterns.paired_offsets import PairedOffsets
from coop_consumer.patterns.reading import committed_records
from coop_consumer.patterns.seen import Seen, with_source

__all__ = [
    "Checkpoint",
    "Deduplicator",
    "ExclusiveProducer",
    "MergeLog",
    "MergedBatch",
    "OffsetChangelog",
    "PairedOffsets",
    "Seen",
    "committed_records",
    "set_value",
    "with_source",
]
