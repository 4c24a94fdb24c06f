"""Witnesses: they read topics of a run as these grow, before a fault takes anything away.

In: the progress topic. Out: for each record, the time of the first fact that covers it. With what
members wrote this tells two things that the rows alone cannot: whether anything was told done that
was not (I2), and whether anything was repeated although it had been told (I5).

In: a topic of outputs. Out: for each, when it was first visible to a reader of committed records.
One thread each.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as Offset

from assignors import KeyRange
from coop_consumer.kafka.clients import Silence, successor
from offsets import CorruptRecordError, TenureKey, TenureRecord, decode_key, decode_value
from tests.support.journal import Place

_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Told:
    """A tenure's record: what its member said, and when, by the monotonic clock."""

    at_ns: int
    member: str
    partition: int
    record: TenureRecord


class Reader(ABC):
    """Reads a topic from its beginning until `leave`, as plain consumers do: committed records."""

    def __init__(self, settings: Mapping[str, Any], topic: str, partitions: int) -> None:
        self._settings = {**settings, "group.id": "witness", "auto.offset.reset": "earliest"}
        self._places = [Offset(topic, number, 0) for number in range(partitions)]
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._read, name=f"witness-{topic}")

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """Read no more."""
        self._leaving.set()
        self._thread.join()

    @abstractmethod
    def _take(self, message: Message) -> None:
        """Take a record in; after an outage it may come again."""

    def _read(self) -> None:
        consumer, silence = self._new_consumer(), Silence()
        try:
            while not self._leaving.is_set():
                messages = consumer.consume(500, _POLL_S)
                for message in messages:
                    if message.error() is None:  # the topic may be gone: there is no more to see
                        self._take(message)
                if messages:
                    silence.end()
                elif silence.is_due():
                    found = successor(consumer, self._new_consumer, self._places[0].topic)
                    if found is not None:  # what it reads again changes nothing
                        consumer.close()
                        consumer = found
        finally:
            consumer.close()

    def _new_consumer(self) -> Consumer:
        consumer = Consumer({**self._settings, "enable.auto.commit": False})
        consumer.assign(self._places)
        return consumer


class OutputsWitness(Reader):
    """Notes when each output was first visible.

    Attributes:
        seen_ns: By partition and offset in the topic of outputs: the record's place, and when.
    """

    def __init__(self, settings: Mapping[str, Any], topic: str, partitions: int) -> None:
        super().__init__(settings, topic, partitions)
        self.seen_ns: dict[Place, tuple[bytes, int]] = {}

    def _take(self, message: Message) -> None:
        place = message.partition() or 0, message.offset() or 0
        self.seen_ns.setdefault(place, (message.value() or b"", time.monotonic_ns()))


class Witness(Reader):
    """Notes what tenures told."""

    def __init__(self, settings: Mapping[str, Any], topic: str, partitions: int) -> None:
        super().__init__(settings, topic, partitions)
        self.told: list[Told] = []
        self._steady_ns = time.time_ns() - time.monotonic_ns()

    def _take(self, message: Message) -> None:
        key, value, timestamp_ms = message.key(), message.value(), message.timestamp()[1]
        try:
            place = decode_key(key or b"")
            if not isinstance(place, TenureKey) or value is None:
                return
            record = decode_value(place, value)
        except CorruptRecordError:  # a fault's garbage
            return
        assert isinstance(record, TenureRecord)
        at_ns = timestamp_ms * 1_000_000 - self._steady_ns
        self.told.append(Told(at_ns, place.tenure.member, place.partition, record))


def first_told_ns(told: Iterable[Told], hashes: Mapping[Place, int]) -> dict[Place, int]:
    """When each record was first told done; those that never were are left out.

    Args:
        told: In any order.
        hashes: Every record's key hash.
    """
    untold: dict[int, list[int]] = defaultdict(list)
    for partition, offset in sorted(hashes):
        untold[partition].append(offset)
    found: dict[Place, int] = {}
    told_below: dict[tuple[int, KeyRange], int] = {}  # all of the range below is found
    for one in sorted(told, key=lambda it: it.at_ns):
        left = untold[one.partition]
        for fact in one.record.facts:
            here = one.partition, fact.range
            first = bisect_left(left, told_below.get(here, 0))
            told_below[here] = max(told_below.get(here, 0), fact.stable)
            for offset in left[first : bisect_left(left, fact.next_offset)]:
                place = one.partition, offset
                if hashes[place] in fact.range and fact.is_done(offset):
                    found[place] = one.at_ns
                    left.remove(offset)
    return found
