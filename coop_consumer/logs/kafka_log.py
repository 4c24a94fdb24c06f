"""One partition of Kafka, as the rules of a conditional append see it: the shell of `port`.

In: a configuration, a partition, a name. Out: what brokers answer. It decides nothing. One thread
makes all calls.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import time

from confluent_kafka import KafkaError, KafkaException, Message

from assignors import TopicPartition
from coop_consumer.arguments import a_name, a_place
from coop_consumer.config import Config, Settings
from coop_consumer.core.transaction import Said
from coop_consumer.errors import (
    ConfigError,
    CoopConsumerError,
    LogBlockedError,
    NoTransactionsError,
    RetriableError,
)
from coop_consumer.kafka.acked import Delivered
from coop_consumer.kafka.init_producer import end_transaction_of
from coop_consumer.kafka.open_transactions import open_transactions
from coop_consumer.kafka.own_topics import for_batches_of
from coop_consumer.kafka.topics import Topics
from coop_consumer.kafka.transaction_calls import TransactionCalls
from coop_consumer.kafka.transaction_check import transactions_refusal
from coop_consumer.log_events import LogEvent
from coop_consumer.logs.kafka_reader import CommittedReader, header
from coop_consumer.logs.port import Landed, StableRead
from coop_consumer.logs.records import (
    ID_HEADER,
    LogToken,
    NewRecord,
    TaggedRecord,
)
from coop_consumer.status.open_transaction import OpenTransaction

log = logging.getLogger(__name__)

_POLL_S = 0.1
_QUEUE_MIN = 1_000_000


def config_of(config: Config | Settings | Mapping[str, object], name: object) -> Config:
    """The configuration of a log's clients; no group is needed, so the name stands in for it.

    Raises:
        MisuseError: No writer can have this name.
        ConfigError: For a bad setting, or a configuration for librdkafka alone: the transactions
            of publishers that died are ended by kafka-python.
    """
    name = a_name("a writer of a log", name)
    if isinstance(config, Config):
        if not config.both_clients:
            raise ConfigError(
                "both_clients", "=False is for librdkafka alone", "Make the Config without it"
            )
        return config
    if not isinstance(config, Mapping):
        return Config.from_dict(config)  # says what it is
    return Config.from_dict({"group.id": name, **config})


def writer_id(config: Config, name: str, tp: TopicPartition) -> str:
    """The transactional.id of a writer of a partition."""
    return f"{_prefix(config)}{name}-{tp.topic}-{tp.partition}"


def _prefix(config: Config) -> str:
    return f"{config.transactional_id_prefix}log-"


class KafkaLog(TransactionCalls):
    """A transactional client of one partition; see `port.TransactionalLog`.

    Args:
        config: Of the clients; its group is not used.
        tp: The partition.
        name: Of the writer: only the newest client of a name has the id.

    Raises:
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        ConfigError: The topic has no such partition, or it is the progress topic or one of Kafka's
            own, or librdkafka refuses a setting.
    """

    def __init__(self, config: Config, tp: TopicPartition, name: str) -> None:
        config.refuse_output(a_place("a log", tp).topic)
        self.writer = writer_id(config, name, tp)
        self.topics = Topics(config)
        self._config, self._tp = config, tp
        self._reader = CommittedReader(config, tp, self.topics)
        self._has_read = False
        self._fenced_at = self._hangs_at = -1
        settings = for_batches_of(config, self.topics, tp.topic).producer(self.writer)
        queue = max(_QUEUE_MIN, int(settings.get("queue.buffering.max.messages", 0)))
        super().__init__({**settings, "linger.ms": 0, "queue.buffering.max.messages": queue})

    def close(self) -> None:
        """Close the clients; what is open is aborted by brokers, or by the next one of the name."""
        self.leave()
        self._reader.close()

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition."""
        return self._tp.topic, self._tp.partition

    # ---- reading -------------------------------------------------------------------------------

    def empty(self) -> LogToken:
        """The token of this partition before its first record."""
        return self._reader.empty

    def end(self) -> int:
        """The end of the log now, decided or not."""
        return self._reader.end()

    def read(self, beyond: int) -> StableRead:
        """Visible records above an offset; see `CommittedReader.read`."""
        self._has_read = True
        return self._reader.read(beyond)

    def backwards(self, tag: str) -> tuple[LogToken, Iterator[TaggedRecord]]:
        """Visible records from the last one backwards; see `CommittedReader.backwards`."""
        return self._reader.backwards(tag)

    def check_topic(self) -> None:
        """See that the topic is still the same one; see `CommittedReader.check_topic`."""
        self._reader.check_topic()

    # ---- writing -------------------------------------------------------------------------------

    def renew(self) -> Said:
        """Begin a new epoch, with a new Producer; see that the topic may be written to."""
        try:
            self.topics.check_right(self._tp.topic, "WRITE")
        except RetriableError as error:
            self.why = str(error)
            return Said.AGAIN
        except CoopConsumerError as error:
            self.final = error
            return Said.REFUSED
        return super().renew()

    def produce(self, records: Sequence[NewRecord]) -> Landed:
        """Open a transaction, produce records, and wait for all acknowledgements."""
        said = self.begin()
        if said is not Said.DONE:
            return Landed(said)
        where, last = f"topic {self._tp.topic}", len(records) - 1
        offsets: dict[int, int] = {}
        failures: list[KafkaError] = []

        def reported(number: int, error: KafkaError | None, message: Message) -> None:
            failed(error, message)
            offsets[number] = -1 if error is not None else message.offset() or 0

        def failed(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        ends = {0: partial(reported, 0), last: partial(reported, last)}
        try:
            for number, record in enumerate(records):
                self._hand_over(record, ends.get(number, failed))
                if failures:
                    break
            while not failures and len(offsets) < len(ends):
                self._at_work.poll(_POLL_S)
        except KafkaException as error:
            failures.append(error.args[0])
        if failures:
            return Landed(self._of(self._cause_of(failures[0]), where, Said.REFUSED))
        if not self._is_same_topic():
            return Landed(Said.REFUSED)
        return Landed(Said.DONE, offsets[0], offsets[last])

    def _is_same_topic(self) -> bool:
        """Whether records that are acknowledged are in the topic that was read.

        A topic that is made again gets another id, and none returns. So the records are in this
        one if it is still there. Behind an own append, of which nothing was read, a look a second
        is enough: a new topic would have to end exactly where the old one did.
        """
        if not self._has_read and not self._reader.is_check_due:
            return True
        try:
            self._reader.check_topic()
        except RetriableError as error:
            self.why = str(error)
            return False
        except CoopConsumerError as error:
            self.final = error
            return False
        self._has_read = False
        return True

    def _hand_over(self, record: NewRecord, report: Delivered) -> None:
        key, value, headers = record
        while True:
            try:
                self._at_work.produce(
                    self._tp.topic, value, key, self._tp.partition, report,
                    headers=list(headers) or None,
                )  # fmt: skip
            except BufferError:
                self._at_work.poll(_POLL_S)
            else:
                return

    def _judge(self, error: KafkaError, where: str, reason: CoopConsumerError) -> None:
        if where.startswith("transactional.id"):
            reason = transactions_refusal(self._config, self._settings, error)
            if error.code() == KafkaError._TIMED_OUT:
                return  # it may pass
        super()._judge(error, where, reason)

    def not_served(self) -> NoTransactionsError:
        """The error of an id that brokers do not begin to serve."""
        where = f"transactional.id {self.writer}"
        return NoTransactionsError(self._config.bootstrap_servers, where, self.why)

    # ---- others' transactions ------------------------------------------------------------------

    def end_blocker(self, offset: int) -> bool:
        """End the undecided transaction at this offset, if a client of ours has begun it."""
        found = self._reader.undecided(offset)
        writer = b"" if found is None else header(found, ID_HEADER)
        name = writer.decode(errors="replace")
        if not name.startswith(_prefix(self._config)):
            return False
        if offset == self._fenced_at:
            self._say_if_it_hangs(offset)
        else:
            log.warning(
                "%s: a transaction of %s stands undecided at offset %d: its writer is gone or too "
                "slow, so its id is fenced, which ends it. Appends wait until then, and nothing is "
                "lost",
                self._tp, name, offset,
                extra=LogEvent.TRANSACTION_BLOCKS.extra(tp=self._tp, offset=offset),
            )  # fmt: skip
        self._fenced_at = offset
        return end_transaction_of(self._config, name)

    def _say_if_it_hangs(self, offset: int) -> None:
        """A fence was in vain: say once if no fence can end this transaction."""
        if offset == self._hangs_at:
            return
        found = self._open_transaction(offset)
        if found.is_hanging:
            self._hangs_at = offset
            told = found.told(int(time() * 1_000))
            extra = LogEvent.TRANSACTION_HANGS.extra(tp=self._tp, offset=offset)
            log.error("%s. %s %s", told, found.outlook, found.command, extra=extra)

    def _open_transaction(self, offset: int) -> OpenTransaction:
        return open_transactions(self._config, {self._tp: (offset, self.end())})[self._tp]

    def blocked(self, offset: int, waited_s: float) -> CoopConsumerError:
        """The error of a call that has waited for an undecided transaction for so long."""
        found = self._open_transaction(offset)
        return LogBlockedError(
            *self.place, offset, found.whose, round(waited_s), found.outlook, found.command
        )
