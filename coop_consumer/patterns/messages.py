"""Messages as they are: their headers and times, and copies of them.

In: a message that a consumer got. Out: its headers, or its copy in a transaction of a publisher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coop_consumer.core.record import UNREADABLE, headers_of

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.kafka.publish import Headers, Publisher

_NO_TIME_MS = -1


def headers_in(message: Any) -> Headers:
    """The headers, as they are.

    Raises:
        ValueError: They cannot be had, see `headers_of`.
    """
    found = headers_of(message)
    if found == [UNREADABLE]:
        raise ValueError("the name of a header is not UTF-8")
    return found


def copy_to(publisher: Publisher, place: TopicPartition, message: Any) -> None:
    """Write a copy into the open transaction: the same key, value, headers and time."""
    publisher.write(
        place.topic,
        message.value(),
        message.key(),
        headers_in(message),
        partition=place.partition,
        timestamp_ms=time_ms_of(message),
    )


def time_ms_of(message: Any) -> int:
    """What to write as a copy's time. To a producer 0 means now, so the first ms of 1970 is 1."""
    kind, time_ms = message.timestamp()
    return (time_ms or 1) if kind else _NO_TIME_MS
