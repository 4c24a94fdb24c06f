"""`FlightWorker`: a worker that keeps state for each key, which survives crashes and moves.

In: flights, keyed by tail number. Out: one `Leg` a flight, keyed alike, in a compacted topic. A leg
is the result, and also the state for the aircraft's next leg: compaction keeps the last leg of each
aircraft. A flight without a tail number has no known aircraft: its leg is keyed by the flight
itself.

How the state moves with its range:

1. `process` sends the leg and returns: nobody waits for a single leg. All of them are in the topic
   before their flights are committed, or their range is released. So every flight that others see
   as done has its leg in the topic.
2. A new owner reads the topic to its end in `on_ranges_assigned`, before the first flight of the
   range. The owner before has no flight of the range running, and no leg unwritten: so nothing is
   added to the legs read. Legs have the partitions of their flights: the new owner reads one
   partition, and of that only legs that it has not read before.
3. After a crash, flights that were processed but not yet committed come again. A leg names the
   offset of its flight. A flight at or below the aircraft's last leg is in the topic already, and
   is skipped. (A flight without aircraft is written again, under the same key.)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

import assignors
from coop_consumer.demo.aircraft import Leg, next_leg
from coop_consumer.demo.topics import FlightTopics, reader_of
from coop_consumer.worker import Context, Record, Worker

_READ_AT_ONCE = 10_000
_POLL_S = 0.1
_BROKER_TIMEOUT_S = 30.0


class FlightWorker(Worker):
    """Follows every aircraft.

    Args:
        clients: Settings of the state's consumer: at least `bootstrap.servers`.
        topics: Their names.
        latency_s: A stand-in for a call to a remote service; each flight sleeps so long.

    Attributes:
        handled: Calls of `process` that have ended, repeats included.
        skipped: Those among them whose leg was in the topic already.
        first_s: Unix time at which the first one began; 0.0 before.
    """

    def __init__(
        self, clients: Mapping[str, str], topics: FlightTopics, *, latency_s: float
    ) -> None:
        self._latency_s = latency_s
        self._last: dict[bytes, Leg] = {}
        self._count = threading.Lock()
        self.handled = self.skipped = 0
        self.first_s = 0.0
        self._legs = topics.legs
        self.outputs = (topics.legs,)
        self._state = StateReader(clients, topics.legs)

    def setup(self, context: Context) -> None:
        """Keep what legs are sent with."""
        self._context = context

    def on_ranges_assigned(
        self, tp: assignors.TopicPartition, ranges: tuple[assignors.KeyRange, ...]
    ) -> None:
        """Read the last leg of every aircraft in these ranges."""
        for tail, value in self._state.read(tp.partition).items():
            if any(assignors.key_hash(tail) in key_range for key_range in ranges):
                self._last[tail] = Leg.decode(value)

    def process(self, record: Record) -> None:
        """Make the flight's leg and send it, to the partition of its flight."""
        if not self.first_s:
            self.first_s = time.time()
        time.sleep(self._latency_s)
        tail = record.key
        last = None if tail is None else self._last.get(tail)
        repeat = last is not None and record.offset <= last.offset
        if not repeat:
            assert record.value is not None, "a flight has a value"
            leg = next_leg(last, record.value, record.partition, record.offset)
            self._context.send(
                record, self._legs, leg.key(tail), leg.encode(), partition=leg.partition
            )
            if tail is not None:
                self._last[tail] = leg
        with self._count:
            self.handled += 1
            self.skipped += repeat

    def teardown(self) -> None:
        """Close the client."""
        self._state.close()


class StateReader:
    """Reads partitions of the compacted topic to their end, each time from where it was."""

    def __init__(self, clients: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        self._next_offset: dict[int, int] = {}
        self._values: dict[int, dict[bytes, bytes]] = {}
        self._consumer = Consumer({**reader_of(clients), "fetch.wait.max.ms": 10})

    def read(self, partition: int) -> dict[bytes, bytes]:
        """The last value of every key of the partition, as of now. One thread at a time.

        About 3 µs a record that is new since the last time, and some ms.
        """
        values = self._values.setdefault(partition, {})
        at = self._next_offset.get(partition, 0)
        place = TopicPartition(self._topic, partition, at)
        # Asked now, after the ranges came: all that their owners before us wrote lies below it.
        end = self._consumer.get_watermark_offsets(place, timeout=_BROKER_TIMEOUT_S)[1]
        if at < end:
            self._consumer.assign([place])
        while at < end:
            for message in self._consumer.consume(_READ_AT_ONCE, timeout=0.05):
                error, key, value = message.error(), message.key(), message.value()
                if error is not None:
                    raise KafkaException(error)
                assert key is not None, "state has a key"
                assert value is not None, "state is never deleted"
                values[key] = value
            # Compaction leaves holes: only the position shows the progress, not the last message.
            at = max(at, self._consumer.position([place])[0].offset)
        self._consumer.unassign()
        self._next_offset[partition] = at
        return values

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()
