"""The writer of outputs: hands to Kafka what handlers have sent, and waits until Kafka has it.

In: the outputs of finished records, before each commit. Out: returns once Kafka has all of them. It
decides nothing. If a topic refuses an output, none after it is written: whoever reads what a key's
last output is would take the one before for written. What was not written goes first with the next
call, but for the tenure of the refused one's record, which goes back to what is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from confluent_kafka import KafkaError, Producer

from coop_consumer.config import Config
from coop_consumer.core.effects import Output, Result
from coop_consumer.core.outputs import Outputs, OutputTopic
from coop_consumer.core.record import Record
from coop_consumer.core.tenure import Tenure
from coop_consumer.errors import (
    CoopConsumerError,
    RecordRefusedError,
    RecordTooLargeError,
    TopicMissingError,
    UnexpectedAnswerError,
)
from coop_consumer.kafka.acked import Acked, Delivered
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.own_topics import batch_limit
from coop_consumer.kafka.refused_batch import RefusedBatch
from coop_consumer.kafka.topics import Topics
from coop_consumer.kafka.translate import is_of_a_batch, translated
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.telemetry import outputs_type

log = logging.getLogger(__name__)

_MESSAGE_MAX_BYTES = 1_000_000
"""librdkafka's default for `message.max.bytes`."""
_GONE = (KafkaError._UNKNOWN_PARTITION, KafkaError._DESTROY)
"""A topic that was there at the start is deleted. librdkafka reports the second of these for what
still waits for a partition when it drops that."""


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
        topics.check_right(name, "WRITE")
        settings = topics.settings_of(name)
        limit = min(int(settings.get("max.message.bytes", own_max)), own_max)
        is_compacted = "compact" in settings.get("cleanup.policy", "")
        found[name] = OutputTopic(facts.partitions, limit, is_compacted)
    return found


class NotWrittenError(Exception):
    """A topic has refused an output.

    Attributes:
        record: Whose output it is.
        topic: The topic.
        reason: What it says.
    """

    def __init__(self, record: Record, topic: str, reason: CoopConsumerError) -> None:
        super().__init__(topic)
        self.record, self.topic, self.reason = record, topic, reason


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
        self._written: set[int] = set()  # outputs of the call of `write` under way, by identity
        self._refused: list[tuple[Output, CoopConsumerError]] = []
        self._of_batch = False  # those are all of a batch, and one of them is refused
        self._batch: RefusedBatch[Output] = RefusedBatch()
        self._owed: list[Result] = []  # the next call writes them first
        self._going_back: list[Tenure] = []  # the core makes them void

    def start(self, member: str) -> Outputs:
        """Look the topics up, and begin; returns what handlers of this member send by. Blocks.

        Raises:
            CoopConsumerError: As `output_topics`.
        """
        config = self._config
        self._topics = Topics(config)
        found = output_topics(self._topics, config, self._names)
        if not config.exactly_once:  # else the transactor writes them
            gathered = int(config.producer().get("batch.size", _MESSAGE_MAX_BYTES))
            limit = min(it.record_max_bytes for it in found.values())
            self._batch_bytes = min(gathered, limit - limit // 8)
            self._begin()
        owner = config.group_id, member
        return outputs_type(config)(found, config.output_max_bytes, owner=owner)

    def _begin(self) -> None:
        config = self._config
        with making(config):
            self._acked = Acked(
                {
                    **config.producer(),
                    "batch.size": self._batch_bytes,
                    "partitioner": "murmur2_random",  # as Java's producers
                    "enable.gapless.guarantee": True,
                },
                f"coop-output-{config.group_id}",
                lambda: self._names[0],
                produce_output,
                acknowledged=lambda settled: self._written.update(id(it) for it, _ in settled),
                reason=self._reason,
                failed=self._failed,
            )
        self._acked.start()

    def what(self) -> str:
        """See `EffectsWriter`."""
        return f"outputs to {', '.join(self._names)}"

    def write(self, results: Sequence[Result]) -> None:
        """Produce the outputs of these, and wait until Kafka has them. One call at a time.

        Raises:
            NotWrittenError: A topic has refused one for good.
            CoopConsumerError: A topic has not taken an output, now or at any time before.
        """
        self._going_back = [it for it in self._going_back if not it.is_void]
        self._written.clear()
        self._owed = [it for it in (*self._owed, *results) if self._counts(it)]
        while True:
            try:
                self._write(self._owed)
            except CoopConsumerError:
                if not self._refused:
                    raise
            else:
                self._owed = []
                self._batch.clear()
                return
            self._begin_anew()

    def _counts(self, result: Result) -> bool:
        tenure = result.record._tenure
        return not (tenure.is_void or tenure in self._going_back)

    def _write(self, results: Sequence[Result]) -> None:
        acked, written = self._acked, self._written
        assert acked is not None, "start() comes first"
        acked.wait()
        sent = [it for result in results for it in result.effects if isinstance(it, Output)]
        left = [it for it in sent if id(it) not in written]
        while left:
            ends = (n for n, it in enumerate(left, 1) if self._batch.ends_piece(it))
            end = next(ends, len(left))
            acked.send(left[:end])
            acked.wait()
            left = left[end:]

    def _begin_anew(self) -> None:
        """Go on with a new Producer; if a batch was refused, with smaller ones.

        Raises:
            NotWrittenError: It was a record.
        """
        self.close()  # the rest of a batch is reported meanwhile
        refused, self._refused = self._refused, []
        output, reason = refused[0]
        limit = None
        if isinstance(reason, RecordTooLargeError):
            limit = batch_limit(self._config, self._topics, output.topic)
        is_batch = limit is not None and limit < self._batch_bytes
        self._batch_bytes = min(self._batch_bytes, limit or self._batch_bytes)
        if self._of_batch:
            found = self._batch.refused([it for it, _ in refused])
            is_batch = found is None
            output, reason = next((it for it in refused if it[0] is found), refused[0])
        self._begin()
        if is_batch:
            return
        record = next(it.record for it in self._owed if any(one is output for one in it.effects))
        self._going_back.append(record._tenure)
        self._owed = [it for it in self._owed if self._counts(it) and self._is_unsent(it)]
        raise NotWrittenError(record, output.topic, reason)

    def _is_unsent(self, result: Result) -> bool:
        outputs = (it for it in result.effects if isinstance(it, Output))
        return any(id(it) not in self._written for it in outputs)

    def close(self) -> None:
        """End; what is not acknowledged belongs to records that come again."""
        acked, self._acked = self._acked, None
        if acked is not None:
            acked.close()

    def _reason(self, output: Output, error: KafkaError) -> CoopConsumerError:
        if error.code() in _GONE:
            return TopicMissingError(output.topic, "written")
        reason = translated(error, f"topic {output.topic}", self._config.user, "write")
        if isinstance(reason, RecordTooLargeError | RecordRefusedError):
            if not self._refused:
                self._of_batch = is_of_a_batch(error)
            self._refused.append((output, reason))
        return reason

    @staticmethod
    def _failed(error: Exception) -> CoopConsumerError:
        extra = LogEvent.OUTPUTS_FAILED.extra(error=error)
        told = (
            "the writer of outputs has failed, and the member ends. Nothing counts as done whose "
            "output is missing. Report this defect, with its traceback"
        )
        log.error(told, exc_info=error, extra=extra)
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
