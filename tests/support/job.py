"""A job: one group on one topic of its own, for the story of one test.

In: a broker, the topic, settings that differ from the defaults. Out: written records, visits of our
members and of plain consumers, and what anybody can see between the visits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from offsets import Tag
from tests.support import stock
from tests.support.journal import WAIT_S, Journal
from tests.support.pools import Pool, run_to_end, running

TIMING: Mapping[str, object] = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200}
"""Members learn of a rebalance with a heartbeat: tests would wait for the default of 500 ms."""


@dataclass(frozen=True, slots=True)
class Job:
    """One group on one topic.

    Attributes:
        client: The settings of a confluent client that may do anything.
        partitions: How many the topic has.
        own: Further settings of every member.
    """

    client: Mapping[str, Any]
    admin: AdminClient
    group: str
    topic: str
    partitions: int = 1
    own: Mapping[str, object] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, object]:
        """A member's configuration."""
        return {**self.client, "group.id": self.group, **TIMING, **self.own}

    @property
    def log(self) -> stock.ProgressLog:
        """The group's part of the progress log."""
        topic = str(self.own.get("progress.topic", stock.PROGRESS_TOPIC))
        if self.own.get("processing.guarantee") != "exactly_once":
            return stock.ProgressLog(self.client, self.group, topic)
        own = f"{topic}-{self.group}"
        return stock.ProgressLog(self.client, self.group, own, Tag.EXACTLY_ONCE)

    # -- records

    def parked(self) -> list[int]:
        """The offsets of partition 0 that are parked, by the log."""
        attempts = self.log.partition(self.topic, 0).attempts()
        return [offset for offset, it in sorted(attempts.items()) if it.parked]

    def produce(
        self, keys: Sequence[str | None], partition: int = stock.ANY_PARTITION
    ) -> list[tuple[int, int]]:
        """Write one record for each key; returns the place of each."""
        return stock.produce(self.client, self.topic, keys, partition)

    def delete_below(self, offset: int) -> None:
        """Remove the records below `offset` in partition 0, as retention does."""
        [removed] = self.admin.delete_records([Place(self.topic, 0, offset)]).values()
        assert removed.result(WAIT_S).low_watermark == offset

    # -- visits

    def running(self, **arguments: Any) -> AbstractContextManager[Pool]:
        """Run a member of ours for the length of a block; see `tests.support.pools`."""
        return running(self.settings, self.topic, **arguments)

    def run_to_end(self, **arguments: Any) -> Journal:
        """Let a member of ours do what is left, and leave; returns what it processed."""
        journal = run_to_end(self.settings, self.topic, **arguments)
        self.wait_until_empty()
        return journal

    def plain_visit(self, count: int) -> list[tuple[int, int]]:
        """Let a plain consumer read and commit `count` records, and leave."""
        found = stock.plain_visit(self.client, self.topic, self.group, count)
        self.wait_until_empty()
        return found

    # -- what stock tools see and do

    def committed(self) -> dict[int, tuple[int, str | None]]:
        """Partition → committed offset and metadata.

        With exactly once the group commits offsets of its own progress topic as well.
        """
        found = stock.committed(self.admin, self.group)
        return {number: value for (topic, number), value in found.items() if topic == self.topic}

    def alter(self, offsets: Mapping[int, int]) -> None:
        """Set committed offsets while the group is empty."""
        stock.alter(self.admin, self.group, self.topic, offsets)

    def wait_until_empty(self) -> None:
        """Wait until the coordinator knows that the group is empty."""
        stock.wait_until_empty(self.admin, self.group)

    def wait_for_lag(self, lag: int = 0) -> None:
        """Wait until stock tools see this lag."""
        stock.wait_for_lag(self.admin, self.group, self.topic, self.partitions, lag)
