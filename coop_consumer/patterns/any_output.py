"""A single writer whose outputs go to any topics, in the transaction of what makes them count.

In: a name, what is read, what is written besides outputs. Out: `write`, for use in a transaction.
"""

from __future__ import annotations

from coop_consumer.kafka.publish import Headers
from coop_consumer.patterns.single_writer import SingleWriter


class WithOutputs(SingleWriter):
    """The newest writer of a name, with outputs that nobody has to count."""

    def write(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        *,
        timestamp_ms: int = 0,
    ) -> None:
        """Add an output to the open transaction; its key picks the partition. 0 ms: now.

        Raises:
            ConfigError: The topic is the progress topic, or one of Kafka's own.
            CoopConsumerError: This record or one before it is refused.
        """
        self._config.refuse_output(topic)
        self._publisher.write(topic, value, key, headers, timestamp_ms=timestamp_ms)
