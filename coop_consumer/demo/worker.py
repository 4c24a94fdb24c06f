"""`FlightWorker`: a worker that keeps state for each key, which survives crashes and moves.

In: flights, keyed by tail number. Out: one `Leg` a flight, keyed alike, in a compacted topic. A leg
is the result, and also the state for the aircraft's next leg: compaction keeps the last leg of each
aircraft. A flight without a tail number has no known aircraft: its leg is keyed by the flight
itself.

How the state moves with its range:

1. `process` leaves the leg with a writer and returns: nobody waits for a single leg. `flush` brings
   all of them to the broker, and only then are their flights committed, or their range released.
   So every flight that others see as done has its leg in the topic.
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
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

import assignors
from coop_consumer.demo.aircraft import Leg, next_leg
from coop_consumer.demo.topics import FlightTopics, reader_of
from coop_consumer.worker import Record, Worker

LINGER_MS = 50
"""Time enough to hand all over that shares a request, also on a busy machine."""

HELD_MAX = 1_000
"""Records finished since the last commit come again after a crash. Without a bound, a slow broker
would make that seconds of work."""

_READ_AT_ONCE = 10_000
_POLL_S = 0.1
_BROKER_TIMEOUT_S = 30.0


class FlightWorker(Worker):
    """Follows every aircraft.

    Args:
        clients: Settings of the producer and the state's consumer: at least `bootstrap.servers`.
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
        self._output = LegWriter(clients, topics.legs)
        self._state = StateReader(clients, topics.legs)

    def on_ranges_assigned(
        self, tp: assignors.TopicPartition, ranges: tuple[assignors.KeyRange, ...]
    ) -> None:
        """Read the last leg of every aircraft in these ranges."""
        for tail, value in self._state.read(tp.partition).items():
            if any(assignors.key_hash(tail) in key_range for key_range in ranges):
                self._last[tail] = Leg.decode(value)

    def process(self, record: Record) -> None:
        """Make the flight's leg and write it."""
        if not self.first_s:
            self.first_s = time.time()
        time.sleep(self._latency_s)
        tail = record.key
        last = None if tail is None else self._last.get(tail)
        repeat = last is not None and record.offset <= last.offset
        if not repeat:
            assert record.value is not None, "a flight has a value"
            leg = next_leg(last, record.value, record.partition, record.offset)
            self._output.write(leg.key(tail), leg)
            if tail is not None:
                self._last[tail] = leg
        with self._count:
            self.handled += 1
            self.skipped += repeat

    def flush(self) -> None:
        """Wait until the broker has the legs of all flights processed so far."""
        self._output.flush()

    def teardown(self) -> None:
        """Close the client."""
        self._state.close()


class LegWriter:
    """Holds legs until a flush, which hands them to a producer and waits for the broker.

    One flush hands over all waiting legs at once, so they go in one request. If a producer gets
    more while it waits for an answer, librdkafka's idempotent one polls itself and takes a core.
    """

    def __init__(self, clients: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                **clients,
                "linger.ms": LINGER_MS,
                "enable.idempotence": True,
                # A leg must not be given up before a later one of its aircraft: the next owner
                # would take it for written. So it never times out, and a refused leg is the last
                # one.
                "message.timeout.ms": 0,
                "enable.gapless.guarantee": True,
            }
        )
        self._held: list[tuple[bytes, Leg]] = []
        self._changing = threading.Lock()  # of what is held
        self._flushing = threading.Lock()
        self._error: KafkaError | None = None

    def write(self, key: bytes, leg: Leg) -> None:
        """Hold a leg, for the partition of its flight. Any thread. Flushes if that are many.

        Raises:
            KafkaException: As `flush`.
        """
        with self._changing:
            self._held.append((key, leg))
            are_many = len(self._held) >= HELD_MAX
        if are_many:
            self.flush()

    def flush(self) -> None:
        """Return when the broker has all legs written before the call.

        Raises:
            KafkaException: The broker has refused a leg, of these or of those before.
        """
        with self._flushing:
            with self._changing:
                legs, self._held = self._held, []
            try:
                self._send(legs)
            except KafkaException as stopped:  # after a refusal it takes and answers nothing
                self._error = self._error or stopped.args[0]
            if self._error is not None:
                raise KafkaException(self._error)

    def _send(self, legs: Sequence[tuple[bytes, Leg]]) -> None:
        for key, leg in legs:
            self._producer.produce(
                self._topic, leg.encode(), key, partition=leg.partition, on_delivery=self._delivered
            )
        while len(self._producer):
            self._producer.poll(_POLL_S)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self._error = self._error or error


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
