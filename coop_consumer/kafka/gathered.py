"""What a publisher has gathered of topics that take less than it gathers.

librdkafka makes batches of all topics alike, and is told their size before the topics are known.
In: records about to be written. Out: whatever is gathered is sent, before more of a topic is
gathered than it takes.
"""

from __future__ import annotations

from collections.abc import Callable

from coop_consumer.kafka.publish import Headers

_RECORD_BYTES, _HEADER_BYTES = 64, 16
"""What a record and a header take at most, besides their texts."""


class Gathered:
    """Counts what is gathered of each topic with a limit.

    Args:
        limit: Asks how many bytes of a topic may be gathered; None: as many as come.
        send: Sends all that is gathered, and waits for it.
    """

    def __init__(self, limit: Callable[[str], int | None], send: Callable[[], None]) -> None:
        self._limit = limit
        self._send = send
        self._limits: dict[str, int] = {}
        self._bytes: dict[str, int] = {}

    def begin(self, topic: str) -> None:
        """Records of this topic will come. Asks the brokers."""
        limit = self._limit(topic)
        if limit is not None:
            self._limits[topic] = limit

    def add(
        self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        """A record is about to be written. O(1), and nothing for topics without a limit."""
        limit = self._limits.get(topic)
        if limit is None:
            return
        size = _RECORD_BYTES + len(value or b"") + len(key or b"")
        for name, content in headers:
            size += _HEADER_BYTES + 4 * len(name) + len(content or b"")
        gathered = self._bytes.get(topic, 0)
        if gathered and gathered + size > limit:
            self._send()
            self._bytes.clear()
            gathered = 0
        self._bytes[topic] = gathered + size
