"""Is the demo's result right? The group's legs against a single-threaded computation.

In: the topic of legs, read to its end, and the legs expected. Out: a `Verdict`. Two legs of one
flight (by partition and offset) are a repeat, which at-least-once allows. Otherwise legs must be
equal, complete, and in the order of each aircraft.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Place

from coop_consumer.demo.aircraft import Leg
from coop_consumer.demo.topics import reader_of

_READ_AT_ONCE = 10_000
_BROKER_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check.

    Attributes:
        lost: Flights without a leg.
        out_of_order: Legs that come after a later one of their aircraft, or that differ from the
            computation in one thread: another previous leg, other facts, no such flight.
        repeated: Legs that were written again, equal or not.
    """

    lost: int
    out_of_order: int
    repeated: int

    @property
    def right(self) -> bool:
        """Nothing lost, nothing out of order; repeats are no fault."""
        return not self.lost and not self.out_of_order


def judge(legs: Iterable[tuple[bytes, Leg]], expected: Sequence[Leg]) -> Verdict:
    """Compare legs, with their keys and in the order they were written, with what must be.

    A repeat has no place in the order, but must be equal as well. O(legs).
    """
    seen: set[tuple[int, int]] = set()
    rows: set[int] = set()
    last_row: dict[bytes, int] = {}
    repeated = out_of_order = 0
    for key, leg in legs:
        place, row = (leg.partition, leg.offset), leg.row
        right = 0 <= row < len(expected) and leg.facts() == expected[row].facts()
        if place in seen:
            repeated += 1
            out_of_order += not right
            continue
        seen.add(place)
        behind = last_row.get(key, -1) >= row
        out_of_order += behind or not right or row in rows
        rows.add(row)
        last_row[key] = row
    lost = len(expected) - len(rows.intersection(range(len(expected))))
    return Verdict(lost, out_of_order, repeated)


def read_legs(clients: Mapping[str, str], topic: str) -> Iterator[tuple[bytes, Leg]]:
    """Every leg of a topic as of now, in the order of its partition; 150,000 a second or so."""
    consumer = Consumer(reader_of(clients))
    try:
        metadata = consumer.list_topics(topic, timeout=_BROKER_TIMEOUT_S)
        for partition in metadata.topics[topic].partitions:
            place = Place(topic, partition, 0)
            left = consumer.get_watermark_offsets(place, timeout=_BROKER_TIMEOUT_S)[1]
            consumer.assign([place])
            while left > 0:
                for message in consumer.consume(min(left, _READ_AT_ONCE), timeout=0.2):
                    error, key, value = message.error(), message.key(), message.value()
                    if error is not None:
                        raise KafkaException(error)
                    assert key is not None, "a leg has a key"
                    assert value is not None, "a leg has a value"
                    left -= 1
                    yield key, Leg.decode(value)
    finally:
        consumer.close()
