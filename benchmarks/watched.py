"""A confluent Consumer that tells what it fetched and when it last committed.

In: a configuration. Out: the same Consumer, the records that brokers sent to it by librdkafka's own
statistics, and the time of its last successful commit. It stands in for `confluent_kafka.Consumer`
in whatever is measured, and imports nothing of this library.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer

_LAST_WORD_S = 1.0

BACKOFF = {"fetch.queue.backoff.ms": 1}
"""librdkafka's default of 1 s starves a fast loop: every consumer here is spared that."""


class WatchedConsumer(Consumer):
    """A Consumer with an eye on it.

    Attributes:
        made: All that were made in this process.
        every_ms: How often librdkafka tells.
        committed_ns: When a commit last succeeded; 0: never.
        commits: How many did.
    """

    made: list[WatchedConsumer] = []  # noqa: RUF012 - of the process, on purpose
    every_ms = 200

    def __init__(self, config: Mapping[str, Any], **others: Any) -> None:
        self.committed_ns = 0
        self.commits = 0
        self._told = 0
        self._statistics = ""
        self._fetched = 0
        watch = {
            "statistics.interval.ms": self.every_ms,
            "stats_cb": self._note,
            "on_commit": self._committed,
        }
        super().__init__({**config, **watch}, **others)
        self.made.append(self)

    def commit(self, *arguments: Any, **named: Any) -> Any:
        """Commit; a synchronous one that returns has succeeded."""
        result = super().commit(*arguments, **named)
        if named.get("asynchronous") is False:
            self.committed_ns = time.monotonic_ns()
        return result

    def close(self) -> None:
        """Close it, after a last word of its statistics: they are a bit old."""
        told, until_s = self._told, time.monotonic() + _LAST_WORD_S
        while self._told == told and time.monotonic() < until_s:
            self.poll(self.every_ms / 1_000)
        super().close()

    @property
    def fetched(self) -> int:
        """How many records brokers sent, those that were thrown away too.

        Of a thousand partitions the statistics are a megabyte: they are read if somebody asks.
        """
        told, self._statistics = self._statistics, ""
        if told:
            topics = json.loads(told)["topics"].values()
            partitions = (it for topic in topics for it in topic["partitions"].values())
            self._fetched = sum(it["rxmsgs"] for it in partitions)
        return self._fetched

    def _note(self, statistics: str) -> None:
        self._statistics = statistics
        self._told += 1

    def _committed(self, error: object, _: object) -> None:
        if error is None:
            self.committed_ns = time.monotonic_ns()
            self.commits += 1
