"""Reads one partition from one offset to another, for jobs that plan their reading beforehand.

In: a configuration, a place, offsets. Out: batches of messages that cover all offsets between them,
or an error within a minute. It has its own Consumer, joins no group and stores nothing. Batches
follow each other without a gap (I10). A jump of offsets is a hole (compaction, an aborted
transaction), because the stream began at an explicit offset and never moved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from assignors import WHOLE, TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import BrokerUnreachableError, DataLossError, LogBlockedError
from coop_consumer.kafka.clients import Silence, making, successor, why_no_offsets
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.fetcher import prefetching_fewer, waiting_messages
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.kafka.translate import translated
from coop_consumer.log_events import LogEvent
from offsets import OffsetRange

log = logging.getLogger(__name__)

BATCH_MAX = 10_000
_POLL_S = 0.1
_PATIENCE_S = 60.0
"""A slice fails after this silence; its planner tries again, or reports it."""
_REPORT_S = 60.0
_MISSING_S = 20.0
"""A partition unknown to all brokers for this time is missing; librdkafka does not report it."""
_ANSWER_S = 10.0
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def read_slice(
    config: Config,
    tp: TopicPartition,
    offsets: OffsetRange,
    *,
    is_over: Callable[[], bool] = lambda: False,
    patience_s: float = _PATIENCE_S,
) -> Iterator[tuple[list[Message], int]]:
    """The records of an offset range, in order.

    Args:
        config: The clients' settings; its group is not used.
        tp: The partition.
        offsets: The range; its records exist, or existed.
        is_over: Asked at least ten times a second; True: nobody wants the rest.
        patience_s: How long all brokers may be silent.

    Yields:
        Messages (never errors, possibly none), and the next offset: these and earlier messages
        cover everything below it.

    Raises:
        DataLossError: Some records of the range are not in the log (any more).
        LogBlockedError: Somebody's transaction has been undecided there for a minute.
        TopicMissingError, AuthorizationError: As they say.
        BrokerUnreachableError: The brokers were silent for `patience_s`.
    """
    reader = _SliceReader(config, tp, offsets, patience_s)
    try:
        while reader.next_offset <= offsets.last and not is_over():
            messages = reader.messages()
            if messages is not None:
                yield messages, reader.next_offset
    finally:
        reader.close()


class _SliceReader:
    def __init__(
        self, config: Config, tp: TopicPartition, offsets: OffsetRange, patience_s: float
    ) -> None:
        self.next_offset = offsets.first
        self._patience_s = patience_s
        self._reported_s = float("-inf")
        self._config, self._tp, self._last = config, tp, offsets.last
        self._settings = config.data_plane()
        self._heard_s, self._silence = monotonic(), Silence()
        self._at_end = False
        with making(config):
            self._consumer = self._new_consumer()
        self._assign()

    def _new_consumer(self) -> Consumer:
        return Consumer(logged_in(self._settings), logger=client_log)

    def _assign(self) -> None:
        self._consumer.assign([Place(self._tp.topic, self._tp.partition, self.next_offset)])

    def messages(self) -> list[Message] | None:
        """The next messages of the slice; None: none has come."""
        found = waiting_messages(self._consumer, BATCH_MAX, _POLL_S)
        if not found:
            self._check_silence()
            return None
        self._end_silence()
        begin = self.next_offset
        wanted = []
        for message in found:
            if message.error() is not None:
                self._handle_error(message)
                continue
            offset = message.offset()
            assert offset is not None, "a message without an offset"
            if offset < self.next_offset:  # librdkafka returns some messages twice
                continue
            if offset <= self._last:
                wanted.append(message)
            self._advance_to(offset + 1)
            if self.next_offset > self._last:
                break
        if wanted:
            self._bound_the_prefetch(wanted)
        return wanted if self.next_offset > begin else None

    def _bound_the_prefetch(self, messages: list[Message]) -> None:
        """If keys and headers are large, prefetch fewer messages."""
        bounded = prefetching_fewer(self._settings, messages)
        if bounded is not None and self.next_offset <= self._last:
            self._settings = bounded
            self._use_consumer(self._new_consumer())

    def _use_consumer(self, consumer: Consumer) -> None:
        self._consumer.close()
        self._consumer = consumer
        self._assign()

    def _end_silence(self) -> None:
        now_s = monotonic()
        if self._reported_s > self._heard_s:
            extra = LogEvent.READ_GOES_ON.extra(tp=self._tp, offset=self.next_offset)
            silent_s = now_s - self._heard_s
            log.warning("%s: heard again after %.0f s", self._tp, silent_s, extra=extra)
        self._heard_s, self._at_end = now_s, False
        self._silence.end()

    def _advance_to(self, next_offset: int) -> None:
        self.next_offset = max(self.next_offset, min(next_offset, self._last + 1))

    def _handle_error(self, message: Message) -> None:
        error = message.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            self._at_end = True  # between here and the last record are only holes
            self._advance_to(message.offset() or 0)
        elif error.code() in _OUT_OF_RANGE:
            loss = self._lost()
            if not isinstance(loss, BrokerUnreachableError):
                raise loss
            self._assign()  # the broker has just gone; asked again, it answers the same
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # it is in no group
            found = translated(error, f"topic {self._tp.topic}")
            if not isinstance(found, BrokerUnreachableError):  # librdkafka retries those
                raise found

    def _lost(self) -> Exception:
        """The error of lost data: retention, a truncation, or a topic created again."""
        tp, first = self._tp, self.next_offset
        try:
            low, _ = self._consumer.get_watermark_offsets(Place(tp.topic, tp.partition), _ANSWER_S)
        except KafkaException as error:
            return why_no_offsets(self._consumer, tp.topic, tp.partition, error.args[0])
        last = min(low - 1, self._last) if low > first else self._last
        return DataLossError(tp.topic, tp.partition, WHOLE, first, last, "stop")

    def _check_silence(self) -> None:
        silent_s = monotonic() - self._heard_s
        if self._at_end and silent_s > _PATIENCE_S:
            why = self._undecided(silent_s) or self._lost()
            if not isinstance(why, BrokerUnreachableError):
                raise why
        if silent_s > self._patience_s:
            raise BrokerUnreachableError(
                self._config.bootstrap_servers,
                f"{self._tp} from offset {self.next_offset}: nothing for {self._patience_s:g} s",
            )
        if self._silence.is_due():
            self._report(silent_s)
            if silent_s > _MISSING_S and self._is_missing():
                tp = self._tp
                raise DataLossError(
                    tp.topic, tp.partition, WHOLE, self.next_offset, self._last, "stop"
                )
            found = successor(self._consumer, self._new_consumer, self._tp.topic)
            if found is not None:
                self._use_consumer(found)

    def _undecided(self, silent_s: float) -> LogBlockedError | None:
        """The error of a transaction that hides the rest of the slice; None: there is no such."""
        tp, place = self._tp, Place(self._tp.topic, self._tp.partition)
        with making(self._config):  # it sees what is undecided, too
            asker = Consumer(
                logged_in({**self._settings, "isolation.level": "read_uncommitted"}),
                logger=client_log,
            )
        try:
            _, readable = self._consumer.get_watermark_offsets(place, _ANSWER_S)
            _, end = asker.get_watermark_offsets(place, _ANSWER_S)
        except KafkaException:
            return None
        finally:
            asker.close()
        if not readable < min(end, self._last + 1):
            return None
        # Few need kafka-python's clients for this, and they take a moment to load.
        from coop_consumer.kafka.open_transactions import open_transactions  # noqa: PLC0415

        found = open_transactions(self._config, {tp: (readable, end)})[tp]
        return LogBlockedError(
            *(tp.topic, tp.partition, readable, found.whose, round(silent_s)),
            *(found.outlook, found.command),
        )

    def _is_missing(self) -> bool:
        """Whether the partition does not exist: its topic was deleted, or created with fewer."""
        topic = self._tp.topic
        try:
            found = self._consumer.list_topics(topic, _ANSWER_S).topics[topic]
        except KafkaException:
            return False
        if found.error is not None:
            return bool(found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART)
        return self._tp.partition not in found.partitions

    def _report(self, silent_s: float) -> None:
        if silent_s < _ANSWER_S or monotonic() - self._reported_s < _REPORT_S:
            return
        self._reported_s = monotonic()
        log.warning(
            "%s: nothing was heard from offset %d on for %.0f s; trying for %.0f s more. Nothing "
            "is lost by waiting",
            self._tp,
            self.next_offset,
            silent_s,
            self._patience_s - silent_s,
            extra=LogEvent.READ_SILENT.extra(tp=self._tp, offset=self.next_offset),
        )

    def close(self) -> None:
        self._consumer.close()
