"""The writer of the progress log, and of dead-letter topics.

In: entries to append, records to produce. Out: `Appended` and `AppendFailed` events, and answers.
The Producer is idempotent, with acks=all; see `Producing` for its thread. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from coop_consumer.core.events import Appended, AppendFailed
from coop_consumer.errors import (
    AuthorizationError,
    CoopConsumerError,
    LogWriterBrokenError,
    ProgressLogLostError,
    ProgressTopicError,
    RecordRefusedError,
    RecordTooLargeError,
    Told,
    TopicMissingError,
)
from coop_consumer.kafka.producing import Producing
from coop_consumer.kafka.translate import translated

_LOOK_UP_TIMEOUT_S = 1.0
_SMALL_BATCH_BYTES = 4_096
"""A larger record goes by itself."""


class LogWriter:
    """Appends to the progress topic, and to dead-letter topics.

    If the topic refuses an append for its size, the writer continues with a Producer of small
    batches: the batch may have been too large, not the record.

    Args:
        settings: What `Config.producer()` returns.
        topic: The progress topic.
        deliver: Takes an event; called on the writer's thread.
        name: Names the thread.
        died: Takes the error that ended the thread unexpectedly; None: `threading` prints it.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        topic: str,
        deliver: Callable[[Appended | AppendFailed], None],
        *,
        name: str,
        died: Callable[[Exception], None] | None = None,
    ) -> None:
        self._user = str(settings.get("sasl.username", ""))
        self._too_large = False
        self._topic = topic
        self._deliver = deliver
        self._producing = Producing(
            settings,
            lambda: topic,
            name,
            first=self._get_ready,
            served=self._use_small_batches,
            failed=died,
        )
        self._producing.start()

    def append(
        self, log_partition: int, entries: Sequence[tuple[bytes, bytes | None]], token: int
    ) -> None:
        """Append all entries in order; one event reports that all are acknowledged, or not all."""
        offsets: list[int] = []
        failures: list[KafkaError] = []
        missing = [len(entries)]

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(message.offset() or 0)
            else:
                failures.append(error)
            missing[0] -= 1
            if missing[0] == 0:
                self._answer(token, offsets, failures)

        with self._producing.producer() as producer:
            for i, (key, value) in enumerate(entries):
                try:
                    producer.produce(self._topic, value, key, log_partition, on_delivery=delivered)
                except (BufferError, KafkaException) as error:
                    failures.append(_cause(error))
                    missing[0] -= len(entries) - i
                    if missing[0] == 0:
                        self._answer(token, offsets, failures)
                    return

    def _answer(self, token: int, offsets: list[int], failures: list[KafkaError]) -> None:
        if not failures:
            self._deliver(Appended(token, offsets))
            return
        reason = self._reason(failures[0], self._topic)
        self._too_large |= isinstance(reason, RecordTooLargeError)
        is_final = self._producing.broken is not None or isinstance(
            reason, AuthorizationError | ProgressTopicError
        )
        self._deliver(AppendFailed(token, reason, is_final))

    def _reason(self, error: KafkaError, topic: str) -> CoopConsumerError:
        """Our error for a failed record; if the producer is broken, the error that broke it."""
        broken = self._producing.broken
        reason = translated(broken or error, f"topic {topic}", self._user, "write")
        # A broker that creates topics by itself creates it at once, with fewer partitions.
        has_gone = (
            isinstance(reason, TopicMissingError) or error.code() == KafkaError._UNKNOWN_PARTITION
        )
        if has_gone and topic == self._topic:
            return ProgressLogLostError(topic, "was deleted while members run")
        if isinstance(reason, RecordRefusedError) and topic == self._topic:
            remedy = reason.remedy[:1].upper() + reason.remedy[1:]
            return ProgressTopicError(topic, f"refuses a record ({reason.detail})", remedy)
        if broken is None or isinstance(reason, AuthorizationError):
            return reason
        return LogWriterBrokenError(
            self._topic, f"can no longer be written to by this producer ({broken.str()})"
        )

    def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, str | bytes | None]],
        done: Told,
    ) -> None:
        """Produce one record to any topic; `done` is called on the writer's thread."""

        def delivered(error: KafkaError | None, _: Message) -> None:
            done(None if error is None else self._reason(error, topic))

        try:
            with self._producing.producer() as producer:
                producer.produce(topic, value, key, headers=headers, on_delivery=delivered)
        except (BufferError, KafkaException) as error:
            done(self._reason(_cause(error), topic))

    def _use_small_batches(self) -> None:
        settings = self._producing.settings
        if self._too_large and settings.get("batch.size") != _SMALL_BATCH_BYTES:
            self._producing.replace({**settings, "batch.size": _SMALL_BATCH_BYTES})

    def _get_ready(self) -> None:
        """Make the producer request its id during the join; 60 ms.

        It requests the id once it knows the leaders of a topic. The first answer comes over the
        connection to the bootstrap server, which it then closes. Without a second question, over
        the next connection, it would request the id half a second later.
        """
        for _ in range(2):
            self._producing.look_up(self._topic, _LOOK_UP_TIMEOUT_S)

    def close(self, timeout_s: float, *, lost: bool = False) -> None:
        """Wait for pending records, unless the log is lost; then end the thread."""
        self._producing.close(timeout_s, lost=lost)


def _cause(error: BufferError | KafkaException) -> KafkaError:
    if isinstance(error, KafkaException):
        cause: KafkaError = error.args[0]
        return cause
    return KafkaError(KafkaError._QUEUE_FULL)
