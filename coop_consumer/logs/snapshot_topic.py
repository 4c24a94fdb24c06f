"""Snapshots of a commit log in Kafka: in a compacted topic beside the log's own.

In: a token and parts. Out: records of one transaction, so that all of a snapshot becomes visible,
or nothing of it; and the newest snapshot again. Whoever writes one fences others that write one for
the same partition.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from time import monotonic

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import SnapshotError
from coop_consumer.kafka.own_topics import BROKERS_TIME, MESSAGE_MAX_BYTES, for_batches_of
from coop_consumer.kafka.publish import Publisher
from coop_consumer.kafka.topics import Topics
from coop_consumer.logs.kafka_log import writer_id
from coop_consumer.logs.kafka_reader import CommittedReader
from coop_consumer.logs.records import LogToken
from coop_consumer.logs.snapshots import (
    BrokenSnapshot,
    KeptSnapshot,
    parts_in,
    refuse_newer,
    snapshot_of,
    snapshot_records,
)
from coop_consumer.plain_text import counted

SUFFIX = "-snapshots"
SNAPSHOT_WRITER = "snapshots"
"""The name by which any process writes snapshots; no log has it, or both would fence each other."""
_UNDECIDED_S = 1.0
"""So long a snapshot that is being written is waited for; then the one before does."""
_AGAIN_S = 0.01


class SnapshotTopic:
    """The snapshots of one partition; see `snapshots.SnapshotStore`. For one thread.

    Args:
        config: Of the clients.
        tp: The log's partition; its snapshots have the same number.
        topics: Of the cluster.

    Attributes:
        name: The topic.
    """

    def __init__(self, config: Config, tp: TopicPartition, topics: Topics) -> None:
        self.name = f"{tp.topic}{SUFFIX}"
        self._config, self._log_at, self._topics = config, tp, topics
        self._at = TopicPartition(self.name, tp.partition)
        self._pause = threading.Event()  # never set

    def read(self) -> KeptSnapshot | BrokenSnapshot | None:
        """The newest snapshot; None: there is none.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        return snapshot_of(self._records())

    def _records(self) -> dict[bytes, bytes]:
        """The newest record of each key."""
        found: dict[bytes, bytes] = {}
        facts = self._topics.find(self.name)
        if facts is None or facts.partitions <= self._at.partition:
            return found
        reader = CommittedReader(self._config, self._at, self._topics)
        try:
            end, beyond, until_s = reader.end(), -1, monotonic() + _UNDECIDED_S
            while True:
                seen = reader.read(beyond)
                for offset, key, value in seen.records:
                    beyond = offset
                    if value is None:
                        found.pop(key or b"", None)
                    else:
                        found[key or b""] = value
                if seen.position >= end or (seen.is_complete and monotonic() >= until_s):
                    return found
                if not seen.records:
                    self._pause.wait(_AGAIN_S)
        finally:
            reader.close()

    def write(self, token: LogToken, parts: Iterable[bytes]) -> None:
        """Keep a snapshot instead of the one before. Blocks; 0.1 s and 10 ms a MB.

        Raises:
            SnapshotError: The topic cannot be made, or it deletes old records. The snapshot before
                is of a newer version.
            PublisherFencedError: Somebody else writes one for this partition.
            RecordTooLargeError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        self._make_topic()
        fitted = for_batches_of(self._config, self._topics, self.name)
        name = writer_id(self._config, SNAPSHOT_WRITER, self._log_at)
        with Publisher(fitted, name) as publisher:  # what another writer had open is over now
            before = self._records()
            refuse_newer(self.name, self._at.partition, before)
            stored = parts_in(before)
            with publisher.transaction():
                for key, value in snapshot_records(token, parts, stored):
                    publisher.write(self.name, value, key, partition=self._at.partition)
                publisher.send()

    def _make_topic(self) -> None:
        """Make the topic, if it is missing; with a partition for each one of the log."""
        source = self._topics.describe([self._log_at.topic])[self._log_at.topic]
        facts = self._topics.find(self.name)
        refused = None
        if facts is None:
            settings = {
                "cleanup.policy": "compact",
                "max.message.bytes": str(MESSAGE_MAX_BYTES),
                "message.timestamp.type": BROKERS_TIME,
            }
            refused = self._topics.create(
                self.name, source.partitions, source.replication, settings
            )
        elif facts.partitions < source.partitions:
            refused = self._topics.grow(self.name, source.partitions)
        if refused is not None:
            raise self._unfit(
                f"has no topic ({refused.str()})",
                f"Create {self.name} with cleanup.policy=compact and "
                f"{counted(source.partitions, 'partition')}",
            )
        self._topics.once_made(self.name, source.partitions)
        policy = self._topics.settings_of(self.name).get("cleanup.policy", "compact")
        if policy != "compact":
            raise self._unfit(
                f"would be deleted some day, as the topic has cleanup.policy={policy}",
                "Set cleanup.policy=compact on it",
            )

    def _unfit(self, problem: str, remedy: str) -> SnapshotError:
        return SnapshotError(self.name, self._at.partition, problem, remedy)
