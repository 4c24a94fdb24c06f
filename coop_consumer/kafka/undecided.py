"""A look at what the last stable offset hides: records of transactions that are still open.

In: a partition, an offset and an end. Out: the records between them, decided or not. Whoever waits
for an open transaction learns from them whose it is.
"""

from __future__ import annotations

from time import monotonic

from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as Place

_BATCH_MAX = 5_000
_POLL_S = 0.05


def records_between(consumer: Consumer, place: Place, end: int, timeout_s: float) -> list[Message]:
    """The records from the place's offset to `end`; at a time-out those that have come.

    Args:
        consumer: It reads uncommitted, tells of ends (`enable.partition.eof`), and is assigned
            nothing.
        place: The partition, and the first offset.
        end: The offset to stop at.
        timeout_s: How long this may take.
    """
    found, until_s = [], monotonic() + timeout_s
    consumer.assign([place])
    try:
        while monotonic() < until_s:
            for message in consumer.consume(_BATCH_MAX, _POLL_S):
                if message.error() is None:
                    found.append(message)
                if (message.offset() or 0) + (message.error() is None) >= end:
                    return found
    finally:
        consumer.unassign()
    return found
