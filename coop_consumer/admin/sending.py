"""Records that a person sends: each of them is in Kafka before the block ends.

In: a configuration, a topic, records one after the other. Out: how many each partition has got, and
where. Kafka's murmur2 of the key chooses the partition, as with Java's producers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import CoopConsumerError, UnexpectedAnswerError
from coop_consumer.kafka.acked import Acked, Delivered
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.own_topics import for_batches_of
from coop_consumer.kafka.topics import Topics
from coop_consumer.kafka.translate import translated
from coop_consumer.status.errors import PartitionMissingError

ANY_PARTITION = -1
"""The key chooses, or chance if there is no key."""

_DELIVERY_MS = 30_000
"""A person waits: librdkafka would try for 5 minutes to reach a broker that has gone."""
_LOOK_UP_S = 1.0


@dataclass(frozen=True, slots=True)
class TypedRecord:
    """A record to send; a value of None deletes its key from a compacted topic."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int = ANY_PARTITION


@dataclass(slots=True)
class Arrived:
    """What one partition has got: how many records, and the offsets of the first and the last."""

    count: int
    first: int
    last: int


@dataclass(eq=False)
class Sending:
    """Sends records to a topic, as a context: its end waits until Kafka has all of them.

    Args:
        config: Of the Producer.
        topic: The topic.

    Attributes:
        arrived: By partition, what Kafka has acknowledged so far.

    Raises:
        TopicMissingError, AuthorizationError, BrokerUnreachableError: At the start, as they say.
    """

    config: Config
    topic: str
    arrived: dict[int, Arrived] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        config, topics = self.config, Topics(self.config)
        topics.check_broker()
        self._partitions = topics.describe([self.topic], verb="written")[self.topic].partitions
        topics.check_right(self.topic, "WRITE")
        fitted = for_batches_of(config, topics, self.topic)
        settings = {
            "delivery.timeout.ms": _DELIVERY_MS,
            **fitted.producer(),
            "partitioner": "murmur2_random",
        }
        with making(config):
            self._acked: Acked[TypedRecord] = Acked(
                settings,
                name="coop-send",
                topic=lambda: self.topic,
                produce=self._produce,
                acknowledged=lambda _: None,
                reason=self._reason,
                failed=self._failed,
            )
        self._acked.start()
        self._acked.look_up(self.topic, _LOOK_UP_S)  # by itself it may take 0.5 s to ask

    def __enter__(self) -> Self:
        """Return the same: it is ready."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for all records that were sent; after an interrupt withdraw those under way.

        Raises:
            CoopConsumerError: Kafka refuses one, or does not take it in time.
        """
        try:
            if error is None:
                self._acked.wait()
            elif isinstance(error, Exception):  # if it is Kafka's own, nothing is waited for
                with suppress(CoopConsumerError):
                    self._acked.wait()
        finally:
            self._acked.close()

    @property
    def count(self) -> int:
        """How many records Kafka has so far."""
        return sum(it.count for it in self.arrived.values())

    def send(self, records: Iterable[TypedRecord]) -> None:
        """Send these, in their order; waits only while the Producer's queue is full.

        Raises:
            PartitionMissingError: One names a partition that the topic does not have; it and those
                behind it are not sent.
            CoopConsumerError: Kafka has refused one.
        """
        for record in records:
            if not ANY_PARTITION <= record.partition < self._partitions:
                raise PartitionMissingError(self.topic, record.partition, self._partitions)
            self._acked.send([record])

    def places(self) -> Sequence[tuple[TopicPartition, Arrived]]:
        """What has arrived, by partition."""
        return [(TopicPartition(self.topic, at), it) for at, it in sorted(self.arrived.items())]

    def _produce(self, producer: Producer, record: TypedRecord, delivered: Delivered) -> None:
        def told(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._note(message.partition() or 0, message.offset() or 0)
            delivered(error, message)

        producer.produce(
            self.topic,
            record.value,
            record.key,
            record.partition,
            on_delivery=told,
            headers=list(record.headers) or None,
        )

    def _note(self, partition: int, offset: int) -> None:
        there = self.arrived.get(partition)
        if there is None:
            self.arrived[partition] = Arrived(1, offset, offset)
            return
        there.count += 1
        there.first, there.last = min(there.first, offset), max(there.last, offset)

    def _reason(self, _: TypedRecord, error: KafkaError) -> CoopConsumerError:
        return translated(error, f"topic {self.topic}", self.config.user, "write")

    def _failed(self, error: Exception) -> CoopConsumerError:
        return UnexpectedAnswerError(f"topic {self.topic}", repr(error))
