"""Settings of the client that holds the membership, and the topics it asks for. Pure.

In: settings by kafka-python's names, topics. Out: the same, completed and checked, or an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer
from kafka.util import ensure_valid_topic_name

from coop_consumer.errors import ConfigError, GroupIdMissingError
from coop_consumer.kafka.membership.errors import refused


def completed(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the settings with the defaults of kafka-python's consumer, and check the names.

    The bare client has smaller defaults: answers over 1 MB would break its connection.
    """
    defaults: dict[str, Any] = KafkaConsumer.DEFAULT_CONFIG
    if unknown := sorted(kwargs.keys() - defaults.keys()):
        raise refused(f"does not know the settings {', '.join(unknown)}")
    if not kwargs.get("group_id"):
        raise GroupIdMissingError
    # By default, a client that met an outage may sleep 30 s after it; Java's sleeps 1 s.
    return {**defaults, "reconnect_backoff_max_ms": 1_000, **kwargs}


def checked(topics: Sequence[str]) -> tuple[str, ...]:
    """Return the topics if Kafka allows their names. None at all: it waits for some to come."""
    for topic in topics:
        try:
            ensure_valid_topic_name(topic)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                "topics", f"={topic!r} cannot be subscribed to ({error})", "Correct the name"
            ) from error
    return tuple(topics)
