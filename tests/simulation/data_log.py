"""The data topic: partitions of keyed messages with holes, and the streams that read them.

In: appends, fetches. Out: batches as the fetcher makes them: contiguous, some records twice after a
resume, the end marked. Offsets that hold no message (compaction, aborted transactions) are holes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from assignors import TopicPartition, key_hash, null_key_hash
from coop_consumer.core.events import Fetched
from tests.simulation.scheduler import Call


class SimMessage:
    """A message of the data topic."""

    __slots__ = ("_key", "_offset", "_size", "key_hash")

    def __init__(self, partition: int, offset: int, key: bytes | None, size: int = 10) -> None:
        self._offset = offset
        self._key = key
        self._size = size
        self.key_hash = null_key_hash(partition, offset) if key is None else key_hash(key)

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return b""

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        return None

    def set_headers(self, value: list[tuple[str, bytes | None]]) -> None:
        raise AssertionError(f"no headers were read, so none need {value}")

    def timestamp(self) -> tuple[int, int]:
        return 0, 0

    def leader_epoch(self) -> int | None:
        return 0

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"{self._offset}:{self._key!r}"


@dataclass(slots=True)
class DataLog:
    """One partition.

    Attributes:
        messages: By ascending offset.
        low: The first offset that retention has left.
        end: The next offset.
    """

    tp: TopicPartition
    messages: list[SimMessage]
    low: int = 0
    end: int = 0
    _waiting: list[Call] = field(default_factory=list)

    def tell_when_more(self, call: Call) -> None:
        """Make `call` when there is more, or less, to read."""
        self._waiting.append(call)

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def append(self, key: bytes | None) -> SimMessage:
        """Write a message at the end."""
        message = SimMessage(self.tp.partition, self.end, key)
        self.messages.append(message)
        self.end += 1
        self._tell()
        return message

    def skip(self, offsets: int) -> None:
        """A hole: offsets that will never hold a message."""
        self.end += offsets
        self._tell()

    def retain_from(self, low: int) -> list[SimMessage]:
        """Retention removes what lies below `low`; returns it."""
        at = bisect_left(self.messages, low, key=SimMessage.offset)
        removed, self.messages = self.messages[:at], self.messages[at:]
        self.low = max(self.low, low)
        return removed

    def fetch(self, stream: int, start: int, offsets_max: int, repeat: int) -> Fetched:
        """The batch that begins at `start`; `repeat` offsets below it come once more."""
        end = min(self.end, start + offsets_max)
        first = bisect_left(self.messages, max(self.low, start - repeat), key=SimMessage.offset)
        last = bisect_left(self.messages, end, key=SimMessage.offset)
        return Fetched(self.tp, stream, start, end, self.messages[first:last], end == self.end)
