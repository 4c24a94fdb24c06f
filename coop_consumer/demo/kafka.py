"""The demo's own requests to the broker: topics, flights, committed offsets.

In: an address. Out: topics, and how far a group has committed. Blocking calls of one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from coop_consumer.demo.flights import Flight
from coop_consumer.demo.topics import clients_of
from coop_consumer.kafka.coordinator import ask_about_group

PARTITIONS = 3
_BROKER_TIMEOUT_S = 30.0
_POLL_EVERY = 10_000
_RESULTS_STAY_MS = 3_600_000


class DemoBroker:
    """The broker as the demo sees it.

    Args:
        bootstrap: Its address.

    Attributes:
        clients: Settings of every client of it.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.clients = clients_of(bootstrap)
        self._admin = AdminClient(dict(self.clients))

    def create_flights(self, topic: str) -> None:
        """Create the topic of flights."""
        self._create(NewTopic(topic, PARTITIONS, 1))

    def create_legs(self, topic: str) -> None:
        """Create a topic for the legs of one run; compaction leaves the last hour untouched."""
        config = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(_RESULTS_STAY_MS)}
        self._create(NewTopic(topic, PARTITIONS, 1, config=config))

    def _create(self, topic: NewTopic) -> None:
        self._admin.create_topics([topic])[topic.topic].result(_BROKER_TIMEOUT_S)

    def produce(self, topic: str, flights: Sequence[Flight]) -> None:
        """Produce flights in their order, partitioned by key as Java's producer does; 3 s for all.

        Raises:
            KafkaException: One was not accepted.
        """
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        producer = Producer(
            {
                **self.clients,
                "enable.idempotence": True,  # keeps the order over a retry
                "linger.ms": 20,
                "partitioner": "murmur2_random",
                "queue.buffering.max.messages": 1_000_000,
                "on_delivery": delivered,
            }
        )
        for flight in flights:
            producer.produce(topic, flight.value, flight.tail)
            if flight.row % _POLL_EVERY == 0:
                producer.poll(0)
        producer.flush()
        if errors:
            raise KafkaException(errors[0])

    @contextmanager
    def committed(self, group: str, topic: str) -> Iterator[Callable[[], int]]:
        """Yields a function: how many records the group has committed, as stock tools see it.

        It asks through a consumer that joins nothing. The admin client of confluent-kafka 2.16.1
        crashes the process if the group's coordinator does not exist yet.
        """
        places = [Place(topic, number) for number in range(PARTITIONS)]
        consumer = Consumer({**self.clients, "group.id": group})

        def count() -> int:
            answer = ask_about_group(
                group, lambda left_s: consumer.committed(places, timeout=left_s), _BROKER_TIMEOUT_S
            )
            return sum(max(place.offset, 0) for place in answer)

        try:
            yield count
        finally:
            consumer.close()
