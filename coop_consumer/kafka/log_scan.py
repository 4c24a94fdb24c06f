"""Reads whole progress topics, and later what has come since. One thread.

In: names of topics. Out: their records, each partition in order, up to an end that brokers reported
after the call began. It joins no group and stores nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from time import monotonic

from assignors import TopicPartition
from coop_consumer.config import Config, IsolationLevel
from coop_consumer.errors import BrokerUnreachableError
from coop_consumer.kafka.tail import Tail
from coop_consumer.kafka.topics import EARLIEST, LATEST, Topics
from offsets import LogRecord

_PATIENCE_S = 15.0
_POLL_S = 0.1


class LogScan:
    """A reader of progress topics.

    Only committed records are read, as members of transactional groups do. In the shared topic
    there are no others.

    Args:
        config: Of the clients.
        topics: The cluster's topics.
        partitions: How many each progress topic has, by its name.

    Attributes:
        undecided: Partitions whose end lies behind an open transaction, as of the last read: what
            is behind its first record was not read.

    Raises:
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """

    def __init__(self, config: Config, topics: Topics, partitions: dict[str, int]) -> None:
        self._topics = topics
        self._where = config.bootstrap_servers
        self._places = [
            TopicPartition(name, number)
            for name, count in sorted(partitions.items())
            for number in range(count)
        ]
        self.undecided: frozenset[TopicPartition] = frozenset()
        committed = replace(config, isolation_level=IsolationLevel.READ_COMMITTED)
        begins = topics.offsets(self._places, EARLIEST)
        self._tail = Tail(committed, "a look at progress topics", begins)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Up to which offset each partition was read."""
        return dict(self._tail.positions)

    def read_on(self, take: Callable[[TopicPartition, LogRecord], None]) -> None:
        """Read to the present ends; `take` gets each record.

        Raises:
            InputGoneError: A partition lost its records meanwhile.
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        # First the end that nobody can read past: a transaction may end in between.
        readable = self._topics.offsets(self._places, LATEST, committed=True)
        ends = self._topics.offsets(self._places, LATEST)
        self.undecided = frozenset(tp for tp in self._places if readable[tp] < ends[tp])
        left = self._left(self._places, readable)
        until_s = monotonic() + _PATIENCE_S
        while left:
            messages = self._tail.messages(_POLL_S)
            for message in messages:
                tp = TopicPartition(message.topic() or "", message.partition() or 0)
                key, offset = message.key() or b"", message.offset() or 0
                take(tp, LogRecord(offset, key, message.value(), message.timestamp()[1]))
            before, left = len(left), self._left(left, readable)
            if messages or len(left) < before:
                until_s = monotonic() + _PATIENCE_S
            elif monotonic() > until_s:
                detail = f"{left[0]} was not read to its end in {_PATIENCE_S:g} s"
                raise BrokerUnreachableError(self._where, detail)

    def _left(
        self, places: Iterable[TopicPartition], ends: dict[TopicPartition, int]
    ) -> list[TopicPartition]:
        positions = self._tail.positions
        return [tp for tp in places if positions[tp] < ends[tp]]

    def close(self) -> None:
        """Close the client."""
        self._tail.close()
