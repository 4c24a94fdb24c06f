"""Appends tombstones to progress topics, and waits until Kafka has them.

In: keys, by partition of any progress topic. Out: they are acknowledged, or an error. One Producer
serves all topics, as a thousand of them would take minutes to start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError, Producer

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import CoopConsumerError, UnexpectedAnswerError
from coop_consumer.kafka.acked import Acked, Delivered
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.translate import translated

_DELIVERY_MS = 20_000
_BATCH_BYTES = 8_192
"""So that a topic takes a batch whatever its `max.message.bytes`."""


class _Cleared(NamedTuple):
    """A key that gets a tombstone."""

    place: TopicPartition
    key: bytes


class Tombstones:
    """A Producer of tombstones. One thread.

    Args:
        config: Of the client.

    Raises:
        ConfigError: For a setting that librdkafka refuses.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._topic = config.progress_topic  # of the last one sent: to check the brokers by
        settings = {
            "delivery.timeout.ms": _DELIVERY_MS,
            **config.producer(),
            "batch.size": _BATCH_BYTES,
        }
        with making(config):
            self._acked: Acked[_Cleared] = Acked(
                settings,
                name="coop-gc",
                topic=lambda: self._topic,
                produce=_produce,
                acknowledged=lambda _: None,
                reason=self._reason,
                failed=lambda error: UnexpectedAnswerError("the brokers", repr(error)),
            )
        self._acked.start()

    def append(self, keys: Mapping[TopicPartition, Sequence[bytes]]) -> None:
        """Append tombstones of these keys, each partition in order, and wait for all.

        Raises:
            AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say; nothing
                is appended by this object any more.
        """
        for place, found in sorted(keys.items()):
            self._topic = place.topic
            self._acked.send([_Cleared(place, key) for key in found])
        self._acked.wait()

    def close(self) -> None:
        """Close the client."""
        self._acked.close()

    def _reason(self, it: _Cleared, error: KafkaError) -> CoopConsumerError:
        return translated(error, f"topic {it.place.topic}", self._config.user, "write")


def _produce(producer: Producer, it: _Cleared, delivered: Delivered) -> None:
    place = it.place
    producer.produce(place.topic, None, it.key, place.partition, on_delivery=delivered)
