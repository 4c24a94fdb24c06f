"""Reads single records of data topics, of many partitions at a time, for status to show.

In: offsets. Out: `RecordSeen`. It has its own consumer while it looks, joins no group and fetches
little. A record that takes long to read is left out: status must be quick.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as Place

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.fetcher import waiting_messages
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.status.seen import Hashing, RecordSeen

_TIMEOUT_S = 3.0
_FETCH_BYTES = 65_536
_SCANNED_MAX = 2_000
"""How many records to check for the one that holds a stable offset, for each partition."""


class RecordReader:
    """Reads single records of data topics, of many partitions at a time.

    Attributes:
        hashing: How the group places records in the hash space.
    """

    def __init__(self, config: Config, hashing: Hashing) -> None:
        settings = {
            "log_level": 2,
            "max.partition.fetch.bytes": _FETCH_BYTES,
            # The broker delays an empty answer this long, and only that answer shows the end.
            "fetch.wait.max.ms": 50,
        }
        with making(config):
            self._consumer = Consumer(logged_in({**config.data_plane(), **settings}))
        self.hashing = hashing

    def __enter__(self) -> Self:
        """Return the reader: it is ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the consumer."""
        self.close()

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def rest(self) -> None:
        """Fetch nothing until it is asked again."""
        self._consumer.unassign()

    def at(
        self, wanted: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, dict[int, RecordSeen]]:
        """The records at these offsets, as far as they exist; one of each partition a round."""
        found: dict[TopicPartition, dict[int, RecordSeen]] = {}
        for i in range(max(map(len, wanted.values()), default=0)):
            starts = {tp: offsets[i] for tp, offsets in wanted.items() if i < len(offsets)}
            for tp, record in self.first(starts, lambda *_: True).items():
                if record.offset == starts[tp]:
                    found.setdefault(tp, {})[record.offset] = record
        return found

    def first(
        self,
        starts: Mapping[TopicPartition, int],
        accept: Callable[[TopicPartition, RecordSeen], bool],
    ) -> dict[TopicPartition, RecordSeen]:
        """For each partition its first accepted record from an offset on.

        A partition is left out if it ends before, if too many records were checked, or if it takes
        too long: status must be quick.
        """
        places = [Place(tp.topic, tp.partition, offset) for tp, offset in starts.items()]
        self._consumer.assign(places)
        left = dict.fromkeys(starts, _SCANNED_MAX)
        found: dict[TopicPartition, RecordSeen] = {}
        deadline = time.monotonic() + _TIMEOUT_S
        while left and time.monotonic() < deadline:
            for message in waiting_messages(self._consumer, 500, 0.1):
                tp = TopicPartition(message.topic() or "", message.partition() or 0)
                if tp not in left:
                    continue
                left[tp] -= 1
                # An error is the partition's end, or a missing record.
                record = None if message.error() is not None else self._seen(tp, message)
                if record is not None and accept(tp, record):
                    found[tp] = record
                if record is None or tp in found or not left[tp]:
                    del left[tp]
        return found

    def _seen(self, tp: TopicPartition, message: Message) -> RecordSeen:
        offset, key, (kind, timestamp_ms) = message.offset(), message.key(), message.timestamp()
        assert offset is not None, "a message without an offset"
        raw = None if key is None else bytes(key)
        key_hash = self.hashing.place(tp.partition, offset, raw)
        return RecordSeen(offset, raw, key_hash, timestamp_ms if kind else -1)
