"""The data topic: partitions of keyed messages with holes, and the streams that read them.

In: appends, retention, cuts, fetches. Out: batches as the fetcher makes them: contiguous, some
records twice after a resume, the end marked. Offsets without a message (compaction, aborted
transactions) are holes. An unclean election makes a cut: the end is gone, and the next leader
writes other messages at the same offsets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from assignors import TopicPartition, key_hash, null_key_hash
from coop_consumer.core.events import Fetched
from tests.simulation.scheduler import Call


class SimMessage:
    """A message of the data topic; its hash is its key's, unless the group's order differs."""

    __slots__ = ("_key", "_leader_epoch", "_offset", "_size", "key_hash")

    def __init__(
        self,
        partition: int,
        offset: int,
        key: bytes | None,
        *,
        size: int = 10,
        leader_epoch: int = 0,
        hash_: int | None = None,
    ) -> None:
        self._offset = offset
        self._key = key
        self._size = size
        self._leader_epoch = leader_epoch
        if hash_ is None:
            hash_ = null_key_hash(partition, offset) if key is None else key_hash(key)
        self.key_hash = hash_

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
        return self._leader_epoch

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
        highest_end: The highest end ever: a cut lowers the end.
        cuts: Where unclean elections have cut the log off. Their number is the leader's epoch.
    """

    tp: TopicPartition
    messages: list[SimMessage] = field(default_factory=list)
    low: int = 0
    end: int = 0
    highest_end: int = 0
    cuts: list[int] = field(default_factory=list)
    _waiting: list[Call] = field(default_factory=list)

    @property
    def leader_epoch(self) -> int:
        """Which leader the partition has."""
        return len(self.cuts)

    def tell_when_more(self, call: Call) -> None:
        """Call `call` when there is more, or less, to read."""
        self._waiting.append(call)

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def append(self, key: bytes | None, *, size: int, hash_: int | None) -> SimMessage:
        """Write a message at the end."""
        message = SimMessage(
            self.tp.partition,
            self.end,
            key,
            size=size,
            leader_epoch=self.leader_epoch,
            hash_=hash_,
        )
        self.messages.append(message)
        self.skip(1)
        return message

    def skip(self, offsets: int) -> None:
        """Use up offsets without messages: they stay holes."""
        self.end += offsets
        self.highest_end = max(self.highest_end, self.end)
        self._tell()

    def retain_from(self, low: int) -> None:
        """Remove the messages below `low`, as retention does."""
        self.messages = self.messages[self._at(low) :]
        self.low = max(self.low, low)

    def cut(self, end: int) -> None:
        """Cut the log off at `end`, as an unclean election does whose leader lacks the rest."""
        del self.messages[self._at(end) :]
        self.end = end
        self.cuts.append(end)
        self._tell()

    def _at(self, offset: int) -> int:
        return bisect_left(self.messages, offset, key=SimMessage.offset)

    def leader_of(self, offset: int) -> int:
        """The leader that wrote this offset, with a message or a hole."""
        return max((i + 1 for i, cut in enumerate(self.cuts) if offset >= cut), default=0)

    def bounds(self, leader_epoch: int) -> tuple[int, int]:
        """The offsets [low, high] where a stream may be that has read this leader's messages."""
        return self.low, min([self.end, *self.cuts[leader_epoch:]])

    def fetch(self, stream: int, start: int, offsets_max: int, repeat: int) -> Fetched:
        """The batch that begins at `start`; `repeat` offsets below it come once more."""
        end = min(self.end, start + offsets_max)
        messages = self.messages[self._at(max(self.low, start - repeat)) : self._at(end)]
        return Fetched(self.tp, stream, start, end, messages, end == self.end)
