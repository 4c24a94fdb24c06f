"""A single writer whose outputs go to any topics, in the transaction of what makes them count.

In: a name, what is read, what is written besides outputs. Out: `write`, for use in a transaction.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

from coop_consumer import arguments
from coop_consumer.kafka.gathered import Gathered
from coop_consumer.kafka.own_topics import batch_limit
from coop_consumer.kafka.publish import Headers
from coop_consumer.patterns.single_writer import SingleWriter


class WithOutputs(SingleWriter):
    """The newest writer of a name, with outputs that nobody has to count."""

    @cached_property
    def _gathered(self) -> Gathered:
        return Gathered(self._limit, self._publisher.send)

    def _limit(self, topic: str) -> int | None:
        return batch_limit(self._config, self._topics, topic)

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
            MisuseError: No transaction is open, or no record can be made of the arguments.
            ConfigError: The topic is the progress topic, or one of Kafka's own.
            TopicMissingError, AuthorizationError: The topic cannot be written.
            CoopConsumerError: This record or one before it is refused.
        """
        self._check_open("write()")
        if topic not in self._facts:
            arguments.a_topic(f"{self.name}: write()", topic)
            self._config.refuse_output(topic)
            self._look_up(topic, is_read=False, is_written=True)
            self._gathered.begin(topic)
        with suppress(TypeError):  # what has no size is no record: the next line says so
            self._gathered.add(topic, value, key, headers)
        self._write("write()", topic, value, key, headers, timestamp_ms=timestamp_ms)
