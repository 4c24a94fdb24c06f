"""`FlightWorker`: a worker that keeps state for each key, which survives crashes and moves.

In: flights, keyed by tail number. Out: one `Leg` a flight, keyed alike, in a compacted topic. A leg
is the result, and it is also all that the aircraft's next leg needs to know: compaction keeps the
last leg of each aircraft, which is its state. A flight without a tail number has no aircraft to
follow: its leg is keyed by the flight itself.

How the state moves with its range:

1. `process` returns, and its flight counts as done, only when the broker has acknowledged the leg.
   So whatever is done has its leg in the topic.
2. A new owner reads the topic to its end in `on_ranges_assigned`, before the first flight of the
   range. Whoever owned it before has nothing of it running any more, so what it reads is the last
   word. Legs have the partitions of their flights: it reads one partition, and of that only what it
   has not read before.
3. After a crash, flights that were processed but not yet committed come again. A leg names the
   offset of its flight: one at or below the aircraft's last leg is in the topic already, and is
   skipped. (A flight without aircraft is written again, under the same key.)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

import assignors
from coop_consumer.demo.aircraft import Leg, next_leg
from coop_consumer.demo.topics import FlightTopics
from coop_consumer.worker import Context, Record, Worker

LINGER_MS = 2
"""Sixteen workers write at a time: a little patience lets their legs share a request."""

_READ_AT_ONCE = 10_000
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

    def setup(self, context: Context) -> None:
        """Start the thread that receives acknowledgements."""
        del context  # nothing in there that it needs
        self._output.start()

    def on_ranges_assigned(
        self, tp: assignors.TopicPartition, ranges: tuple[assignors.KeyRange, ...]
    ) -> None:
        """Read the last leg of every aircraft in these ranges."""
        for tail, value in self._state.read(tp.partition).items():
            if any(assignors.key_hash(tail) in key_range for key_range in ranges):
                self._last[tail] = Leg.decode(value)

    def process(self, record: Record) -> None:
        """Make the flight's leg, write it, and wait for the broker to have it."""
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

    def teardown(self) -> None:
        """Close the clients."""
        self._output.close()
        self._state.close()


class LegWriter:
    """Writes legs, and waits until the broker has them; many threads wait at a time."""

    def __init__(self, clients: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        settings = {**clients, "enable.idempotence": True, "linger.ms": LINGER_MS}
        self._producer = Producer(settings)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="legs", daemon=True)

    def start(self) -> None:
        """Start the thread that receives acknowledgements."""
        self._thread.start()

    def write(self, key: bytes, leg: Leg) -> None:
        """Write a leg beside its flight's partition. Returns when it is safe.

        Raises:
            KafkaException: It may not be; the record is to be tried again.
        """
        receipt = Receipt()
        self._producer.produce(
            self._topic, leg.encode(), key, partition=leg.partition, on_delivery=receipt.delivered
        )
        receipt.wait()

    def _receive(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(0.1)

    def close(self) -> None:
        """Nobody waits any more: end the thread."""
        self._closing.set()
        self._thread.join()


class Receipt:
    """Waits for the acknowledgement of one message, which another thread receives."""

    __slots__ = ("_awaited", "_error")

    def __init__(self) -> None:
        self._error: KafkaError | None = None
        self._awaited = threading.Lock()  # the cheapest thing to wait on: held until delivered
        self._awaited.acquire()

    def delivered(self, error: KafkaError | None, _: Message) -> None:
        """The message is in the log, or has failed for good."""
        self._error = error
        self._awaited.release()

    def wait(self) -> None:
        """Return when it is in the log; KafkaException if it is not."""
        self._awaited.acquire()
        if self._error is not None:
            raise KafkaException(self._error)


class StateReader:
    """Reads partitions of the compacted topic to their end, each time from where it was."""

    def __init__(self, clients: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        self._next_offset: dict[int, int] = {}
        self._values: dict[int, dict[bytes, bytes]] = {}
        self._consumer = Consumer(
            {
                **clients,
                "group.id": "unused",  # the client insists on one; nothing is committed
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.queue.backoff.ms": 1,
                "fetch.wait.max.ms": 10,
            }
        )

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
            # Compaction leaves holes: the position tells how far it is, not the last message.
            at = max(at, self._consumer.position([place])[0].offset)
        self._consumer.unassign()
        self._next_offset[partition] = at
        return values

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()
