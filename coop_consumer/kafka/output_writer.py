"""The writer of outputs: hands to Kafka what handlers have sent, and waits until Kafka has it.

In: the outputs of finished records, before each commit. Out: returns once Kafka has all of them. It
decides nothing. If a topic refuses an output, none after it is written: whoever reads what a key's
last output is would take the one before for written.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from confluent_kafka import KafkaError, Producer

from coop_consumer.config import Config
from coop_consumer.core.effects import Output, Result
from coop_consumer.core.outputs import Outputs, OutputTopic
from coop_consumer.errors import (
    AuthorizationError,
    CoopConsumerError,
    TopicMissingError,
    UnexpectedAnswerError,
)
from coop_consumer.kafka.acked import Acked, Delivered
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.topics import Topics
from coop_consumer.kafka.translate import translated

log = logging.getLogger(__name__)

_MESSAGE_MAX_BYTES = 1_000_000
"""librdkafka's default for `message.max.bytes`."""


def output_topics(topics: Topics, config: Config, names: Collection[str]) -> dict[str, OutputTopic]:
    """The declared topics, as brokers describe them. Blocks.

    Raises:
        TopicMissingError: One does not exist.
        AuthorizationError: This user may not describe one, or may not write to it, as far as the
            broker says.
        BrokerUnreachableError: As it says.
    """
    own_max = int(config.producer().get("message.max.bytes", _MESSAGE_MAX_BYTES))
    found = {}
    for name, facts in topics.describe(names, verb="written").items():
        allowed = topics.allowed(name)
        if allowed and not {"WRITE", "ALL"} & set(allowed):
            raise AuthorizationError(f"topic {name}", "write", config.user)
        settings = topics.settings_of(name)
        limit = min(int(settings.get("max.message.bytes", own_max)), own_max)
        is_compacted = "compact" in settings.get("cleanup.policy", "")
        found[name] = OutputTopic(facts.partitions, limit, is_compacted)
    return found


class OutputWriter:
    """Produces outputs with at-least-once.

    Args:
        config: The member's.
        names: The declared topics, one at least.
    """

    def __init__(self, config: Config, names: Collection[str]) -> None:
        self._config = config
        self._names = tuple(sorted(names))
        self._acked: Acked[Output] | None = None  # before the start, and after the end

    def start(self) -> Outputs:
        """Look the topics up, and begin; returns what handlers send by. Blocks.

        Raises:
            CoopConsumerError: As `output_topics`.
        """
        config = self._config
        found = output_topics(Topics(config), config, self._names)
        if config.exactly_once:  # the transactor writes them
            return Outputs(found, config.output_max_bytes)
        settings = config.producer()
        gathered = int(settings.get("batch.size", _MESSAGE_MAX_BYTES))
        limit = min(it.record_max_bytes for it in found.values())
        with making(config):
            self._acked = Acked(
                {
                    **settings,
                    "batch.size": min(gathered, limit - limit // 8),
                    "partitioner": "murmur2_random",  # as Java's producers
                    "enable.gapless.guarantee": True,
                },
                f"coop-output-{config.group_id}",
                lambda: self._names[0],
                produce_output,
                acknowledged=lambda _: None,
                reason=self._reason,
                failed=self._failed,
            )
        self._acked.start()
        return Outputs(found, config.output_max_bytes)

    def what(self) -> str:
        """See `EffectsWriter`."""
        return f"outputs to {', '.join(self._names)}"

    def write(self, results: Sequence[Result]) -> None:
        """Produce the outputs of these, and wait until Kafka has them. One call at a time.

        Raises:
            CoopConsumerError: A topic has not taken an output, now or at any time before.
        """
        acked = self._acked
        assert acked is not None, "start() comes first"
        acked.wait()
        acked.send([it for result in results for it in result.effects if isinstance(it, Output)])
        acked.wait()

    def close(self) -> None:
        """End; what is not acknowledged belongs to records that come again."""
        acked, self._acked = self._acked, None
        if acked is not None:
            acked.close()

    def _reason(self, output: Output, error: KafkaError) -> CoopConsumerError:
        if error.code() == KafkaError._UNKNOWN_PARTITION:  # it was there at the start
            return TopicMissingError(output.topic, "written")
        return translated(error, f"topic {output.topic}", self._config.user, "write")

    @staticmethod
    def _failed(error: Exception) -> CoopConsumerError:
        log.error("the writer of outputs has failed", exc_info=error)
        return UnexpectedAnswerError("outputs", repr(error))


def produce_output(producer: Producer, output: Output, delivered: Delivered) -> None:
    """Hand an output to a Producer, with what hears its report."""
    topic, key, value, headers, partition, timestamp_ms, _ = output
    producer.produce(
        topic,
        value,
        key,
        partition,
        on_delivery=delivered,
        timestamp=timestamp_ms,
        headers=list(headers) or None,
    )
