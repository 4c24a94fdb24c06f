"""The end of a partition as a reader of committed records sees it: its last record.

In: a partition to which no open transaction of ours writes. Out: its first offset, its end, and the
last record that is visible. Above that record lie only markers and aborted records, so the end
itself tells nothing of how many records there are. Blocking calls.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace

from confluent_kafka import Message

from assignors import TopicPartition
from coop_consumer.config import Config, IsolationLevel
from coop_consumer.errors import DataLossError, LogConflictError
from coop_consumer.kafka.patience import patiently
from coop_consumer.kafka.slice_reader import read_slice
from coop_consumer.kafka.topics import EARLIEST, LATEST, Topics
from coop_consumer.log_events import LogEvent
from offsets import OffsetRange

log = logging.getLogger(__name__)

UNDECIDED_S = 75.0
"""How long to wait for a stranger's open transaction: Kafka's default for them, and some more."""

_AGAIN_S = 0.05
_FIRST_WINDOW = 100
_GROWTH = 10


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A partition at a moment when nothing in it was undecided.

    Attributes:
        low: Its first offset.
        end: The offset that its next record or marker gets.
        last: The last visible record; None: there is none.
    """

    low: int
    end: int
    last: Message | None


def log_end(config: Config, topics: Topics, tp: TopicPartition, reader: str) -> LogEnd:
    """Look for the last committed record, from the end backwards. 60 ms, mostly.

    Args:
        config: Of the clients.
        topics: The cluster's topics.
        tp: The partition.
        reader: Who asks, for an error.

    Raises:
        LogConflictError: A transaction stays open there for more than `UNDECIDED_S`.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    config = replace(config, isolation_level=IsolationLevel.READ_COMMITTED)
    while True:
        low, end = offset_of(topics, tp, EARLIEST), offset_of(topics, tp, LATEST)
        _wait_until_decided(topics, tp, end, reader)
        try:
            return LogEnd(low, end, _last_visible(config, tp, low, end))
        except DataLossError:
            if offset_of(topics, tp, EARLIEST) == low:
                raise
            extra = LogEvent.LOG_END_SOUGHT_AGAIN.extra(tp=tp)
            told = "%s: its beginning was removed while its end was looked for; again"
            log.info(told, tp, extra=extra)


def _last_visible(config: Config, tp: TopicPartition, low: int, end: int) -> Message | None:
    last, size = end - 1, _FIRST_WINDOW
    while last >= low:
        first = max(low, last - size + 1)
        found = None
        for messages, _ in read_slice(config, tp, OffsetRange(first, last)):
            found = messages[-1] if messages else found
        if found is not None:
            return found
        last, size = first - 1, size * _GROWTH
    return None


def offset_of(topics: Topics, tp: TopicPartition, spec: object, *, committed: bool = False) -> int:
    """The offset of an `OffsetSpec` in one partition; asked again while brokers are away."""
    return patiently(lambda: topics.offsets([tp], spec, committed=committed), f"offsets of {tp}")[
        tp
    ]


def _wait_until_decided(topics: Topics, tp: TopicPartition, end: int, reader: str) -> None:
    until_s = time.monotonic() + UNDECIDED_S
    while (stable := offset_of(topics, tp, LATEST, committed=True)) < end:
        if time.monotonic() > until_s:
            raise LogConflictError(
                reader,
                f"{tp} offset {stable}",
                f"somebody's transaction has been open there for {UNDECIDED_S:g} s, and what it "
                "has written may count or not",
                "Find out whose it is (`kafka-transactions.sh find-hanging`), and end it",
            )
        time.sleep(_AGAIN_S)
