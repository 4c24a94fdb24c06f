"""Records of several inputs that wait for their order, or for their turn in it. Pure.

In: records as they arrive. Out: the places of the oldest, whichever input they are of; the records
of a run; which inputs have to be paused, so that no input's records fill the memory (I8).
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.patterns.merging import InputRun

RECORDS_MAX, BYTES_MAX = 10_000, 16_777_216
"""Of each input: above one of these it is paused, until a fifth of it is left."""
_AGAIN_AT = 5


class HasOffset(Protocol):
    """A record, as far as it matters here; its length is that of its value."""

    def offset(self) -> int | None:
        """Its offset."""

    def __len__(self) -> int:
        """Bytes of its value."""
        ...


Kept = TypeVar("Kept", bound=HasOffset)


@dataclass(slots=True)
class _Queue(Generic[Kept]):
    records: deque[tuple[int, Kept]] = field(default_factory=deque)
    size: int = 0


class HeldRecords(Generic[Kept]):
    """The records that are held, by input.

    Args:
        records_max: Of each input; see `full`.
        bytes_max: Of each input's values.
    """

    def __init__(self, records_max: int = RECORDS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._records_max, self._bytes_max = records_max, bytes_max
        self._queues: dict[TopicPartition, _Queue[Kept]] = defaultdict(_Queue)
        self._arrivals = 0

    def __len__(self) -> int:
        """Records of all inputs. O(inputs)."""
        return sum(len(queue.records) for queue in self._queues.values())

    def add(self, tp: TopicPartition, record: Kept) -> None:
        """Keep a record, the newest of its input. O(1)."""
        queue = self._queues[tp]
        queue.records.append((self._arrivals, record))
        queue.size += len(record)
        self._arrivals += 1

    def oldest(self, count: int) -> list[tuple[TopicPartition, int]]:
        """The places of the records that have waited longest, in the order of their arrival."""
        queues = (
            [(arrival, tp, it.offset() or 0) for arrival, it in islice(queue.records, count)]
            for tp, queue in self._queues.items()
        )
        merged = heapq.merge(*queues, key=itemgetter(0))
        return [(tp, offset) for _, tp, offset in islice(merged, count)]

    def take(self, run: InputRun) -> list[Kept]:
        """Give out an input's records up to the end of a run. O(records)."""
        queue, found = self._queues[run.tp], []
        while queue.records and (queue.records[0][1].offset() or 0) <= run.last:
            _, record = queue.records.popleft()
            queue.size -= len(record)
            found.append(record)
        return found

    def full(self, paused: Collection[TopicPartition]) -> set[TopicPartition]:
        """The inputs that may bring no more: too much of them is held, or still is."""
        found = set()
        for tp, queue in self._queues.items():
            share = _AGAIN_AT if tp in paused else 1
            count_max, bytes_max = self._records_max // share, self._bytes_max // share
            if len(queue.records) > count_max or queue.size > bytes_max:
                found.add(tp)
        return found
