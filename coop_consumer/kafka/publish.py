"""A transactional producer for jobs: records, and the mark that they are written, both or neither.

In: records; a place of a group of our own, with an offset and up to 4 KB of text. Out: one Kafka
transaction that holds all of it, or an error; then no reader under read_committed sees any of it.
A new publisher aborts the open transaction of its predecessor of the same name, and fences it: the
predecessor commits nothing any more. So a mark that is read after that is final.

librdkafka's errors have three kinds. *Retriable*: the same call is made again for `PATIENCE_S`.
*Abortable*: the transaction is aborted and the error raised. *Fatal*: the producer is of no use any
more, as it was fenced (`PublisherFencedError`) or may not write. If a commit was not answered, the
next publisher of the name ends it, and learns from the mark whether it happened.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import monotonic
from typing import Any, NoReturn, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place

from assignors import TopicPartition
from coop_consumer import forks
from coop_consumer.config import Config, IsolationLevel
from coop_consumer.errors import CoopConsumerError, MisuseError, PublisherFencedError
from coop_consumer.kafka.admin_calls import OFFSETS_TOPIC
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.coordinator import MOVES_OR_LOADS
from coop_consumer.kafka.producing import PURGED
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.kafka.translate import translated
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

PATIENCE_S = 300.0
TRANSACTION_TIMEOUT_MS = 60_000
"""A broker aborts a transaction that is open for longer. If a task died and no other attempt comes,
readers wait as long behind its transaction."""
ANY_PARTITION = -1

_CALL_S = 10.0
_LOOK_S = 2.0
_REPORT_S = 60.0
_AGAIN_S = 0.1
_CAUSE_S = 2.0
_SERVE_EVERY = 500
_FENCED = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
)
_MAY_PASS = (
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._WAIT_COORD,
    *MOVES_OR_LOADS,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
)
"""librdkafka does not mark these errors of a look at marks as retriable."""

Headers = Sequence[tuple[str, bytes | None]]
T = TypeVar("T")


class Publisher:
    """One transaction after the other, under one name. For one thread.

    Args:
        config: Of the clients; its group is not used.
        name: The transactional id: only the newest publisher of a name can commit.
        group: The group whose offsets are the marks; by default the name. It has no members.
        patience_s: How long brokers may take to serve the name.

    Raises:
        ConfigError: For a setting that librdkafka or the brokers refuse.
        NoTransactionsError: There are brokers, and they have no transactions.
        AuthorizationError, BrokerUnreachableError: As they say.
    """

    def __init__(
        self, config: Config, name: str, group: str = "", *, patience_s: float = PATIENCE_S
    ) -> None:
        self.name, self._group = name, group or name
        self._user = config.user
        own = replace(config, group_id=self._group, isolation_level=IsolationLevel.READ_COMMITTED)
        settings = _settings(own, name)
        with making(config):
            self._producer: Any = Producer(logged_in(settings), logger=client_log)
            self._consumer: Any = _silent_member(own)
        self._failure: CoopConsumerError | None = None
        self._delivered = self._reports()
        self._unserved = 0
        self._is_fork = self._is_closed = self._is_fenced = False
        forks.watch(self)
        try:
            _retried(self._init_transactions, patience_s)
        except KafkaException as error:
            refusal = self._not_served(own, settings, error.args[0])
            self.close()
            raise refusal from error
        except BaseException:
            self.close()
            raise

    # Not the Producer's own methods: whoever keeps a frame with one of them keeps the Producer.
    def _init_transactions(self, timeout_s: float) -> None:
        self._producer.init_transactions(timeout_s)

    def _commit_transaction(self, timeout_s: float) -> None:
        self._producer.commit_transaction(timeout_s)

    def _not_served(
        self, config: Config, settings: dict[str, Any], error: KafkaError
    ) -> CoopConsumerError:
        from coop_consumer.kafka.transaction_check import (  # noqa: PLC0415 - much, and seldom
            transactions_refusal,
        )

        if error.code() == KafkaError._TIMED_OUT:
            try:
                self._consumer.list_topics(OFFSETS_TOPIC, _LOOK_S)
            except KafkaException:  # there is no broker
                return self._reason(error, f"transactional.id {self.name}")
        if error.code() in _FENCED:
            return self._reason(error, f"transactional.id {self.name}")
        return transactions_refusal(config, settings, error)

    def shut_in_fork(self) -> None:
        """Refuse calls in a forked child: the clients belong to its parent."""
        forks.keep(self._producer, self._consumer)
        self._is_fork = True
        self._producer = self._consumer = forks.Shut("this call", f"publisher {self.name}")

    def marks(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """The marks of places, as (offset, text); a place without a mark is left out.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        return _marks(self._retried, self._consumer, places)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction; it is committed at the end of the block, and aborted by an error in it.

        Raises:
            PublisherFencedError: Another publisher of this name has begun since.
            RecordTooLargeError, TopicMissingError, AuthorizationError: Of a record; all are void.
            BrokerUnreachableError: Nothing is known; the next publisher of this name finds out.
        """
        self._failure, self._delivered = None, self._reports()
        self._retried(lambda _: self._producer.begin_transaction())
        try:
            yield self
            self._retried(self._commit_transaction)
        except BaseException:
            if not (self._is_fork or self._is_closed or self._is_fenced):
                with suppress(KafkaException):  # of a producer that is broken
                    self._producer.abort_transaction(_CALL_S)
            raise

    def write(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        *,
        partition: int = ANY_PARTITION,
        timestamp_ms: int = 0,
    ) -> None:
        """Add a record to the transaction; 0 ms: the time is now. Blocks while the buffer is full.

        Raises:
            CoopConsumerError: This record or one before it is refused.
        """
        self._unserved += 1
        if self._unserved >= _SERVE_EVERY:
            self._unserved = 0
            self._serve(0)
        until_s = monotonic() + PATIENCE_S
        while True:
            if self._failure is not None:
                raise self._failure
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    on_delivery=self._delivered,
                    timestamp=timestamp_ms,
                    headers=list(headers),
                )
            except BufferError:
                self._serve(_AGAIN_S)
                if monotonic() > until_s:
                    raise translated(
                        KafkaError(KafkaError._MSG_TIMED_OUT), f"topic {topic}", self._user
                    ) from None
            except KafkaException as error:
                if error.args[0].code() == KafkaError._STATE:
                    # Something has broken the transaction: this call says what.
                    self._retried(lambda _: self._producer.begin_transaction())
                raise self._reason(error.args[0], f"topic {topic}") from error
            else:
                return

    def send(self) -> None:
        """Wait until the brokers have all records so far; later records are in another batch.

        Raises:
            CoopConsumerError: A record is refused, or no broker answers.
        """
        until_s = monotonic() + PATIENCE_S
        # Not flush(): if the producer is fenced meanwhile, confluent-kafka's raises a SystemError.
        while len(self._producer) and self._failure is None and monotonic() < until_s:
            self._serve(_AGAIN_S)
        if self._failure is None and not len(self._producer):
            return
        raise self._failure or translated(
            KafkaError(KafkaError._MSG_TIMED_OUT), f"transactional.id {self.name}", self._user
        )

    def mark(self, place: TopicPartition, offset: int, text: str = "") -> None:
        """Add a mark to the transaction, once brokers have all records so far.

        Args:
            place: An existing partition, of any topic.
            offset: Becomes the group's committed offset there.
            text: Goes with it. Brokers take 4,096 characters by default, and librdkafka adds a NUL.

        Raises:
            MisuseError: The text is too long for the brokers.
            CoopConsumerError: A record before it is refused.
            PublisherFencedError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        # Brokers refuse both while they write the markers of the last transaction. librdkafka asks
        # again after 20 ms for records, and after 100 ms for marks. So records go first.
        self.send()
        marks = [Place(place.topic, place.partition, offset, text)]
        member = self._consumer.consumer_group_metadata()
        self._retried(
            lambda timeout_s: self._producer.send_offsets_to_transaction(marks, member, timeout_s)
        )

    def _reports(self) -> Callable[[KafkaError | None, Message], None]:
        """Takes delivery reports of one transaction; an aborted one's may come later."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None or self._failure is not None or self._delivered is not delivered:
                return
            if error.code() not in PURGED:  # those are withdrawn because of another, told later
                self._failure = self._reason(error, f"topic {message.topic()}")

        return delivered

    def _serve(self, timeout_s: float) -> None:
        """Take in reports.

        Raises:
            PublisherFencedError: It was fenced meanwhile.
            CoopConsumerError: The producer is of no use any more.
        """
        try:
            self._producer.poll(timeout_s)
        except KafkaException as error:
            raise self._reason(error.args[0], f"transactional.id {self.name}") from error

    def _retried(self, call: Callable[[float], T]) -> T:
        """Call, and call again if the failure may pass; errors in our words."""
        try:
            return _retried(call)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                self._hear_which_record()
            failure = self._failure
            if failure is not None:  # a record failed; the transaction fails because of it
                raise failure from error
            raise self._reason(error.args[0], f"transactional.id {self.name}") from error

    def _hear_which_record(self) -> None:
        """The transaction is broken: the report of the record that has broken it may wait."""
        until_s = monotonic() + _CAUSE_S
        while self._failure is None and len(self._producer) and monotonic() < until_s:
            self._serve(_AGAIN_S)

    def _reason(self, error: KafkaError, where: str) -> CoopConsumerError:
        if error.code() in _FENCED:
            self._is_fenced = True
            return PublisherFencedError(self.name, error.str())
        if error.code() == KafkaError.OFFSET_METADATA_TOO_LARGE:
            return MisuseError(
                f"commit of {self.name}",
                "its text is longer than the brokers take",
                "Make it shorter, or have their offset.metadata.max.bytes raised",
                "The transaction is void",
            )
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return translated(error, f"group {self._group}", self._user, "read")
        return translated(error, where, self._user, "write")

    def close(self) -> None:
        """Close both clients; an open transaction is aborted."""
        if self._is_fork or self._is_closed:
            return
        self._is_closed = True
        self._consumer.close()
        if not self._is_fenced:
            with suppress(KafkaException):  # of one that is broken
                self._producer.purge()
                self._producer.poll(0)  # not flush(): see `send`
        # confluent-kafka 2.16 keeps for ever an exception that is being handled while a call of a
        # transaction fails. Its frames keep this publisher, which must not keep the clients.
        self._producer = self._consumer = _Closed(self.name)

    def __enter__(self) -> Self:
        """Return the publisher: it is ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


class _Closed:
    """In place of the clients of a closed publisher."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, _: str) -> NoReturn:
        raise MisuseError(f"publisher {self._name}", "it is closed", "Make a new one")

    def __len__(self) -> NoReturn:
        raise MisuseError(f"publisher {self._name}", "it is closed", "Make a new one")


def marks_of(
    config: Config, group: str, places: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[int, str]]:
    """The marks that another publisher set in a group; waits while one is being committed.

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    own = replace(config, group_id=group, isolation_level=IsolationLevel.READ_COMMITTED)
    with making(config):
        consumer = _silent_member(own)
    try:
        return _marks(_retried, consumer, places)
    except KafkaException as error:
        raise translated(error.args[0], f"group {group}", config.user, "read") from error
    finally:
        consumer.close()


def _marks(
    insist: Callable[[Callable[[float], list[Place]]], list[Place]],
    consumer: Consumer,
    places: Sequence[TopicPartition],
) -> dict[TopicPartition, tuple[int, str]]:
    asked = [Place(it.topic, it.partition) for it in places]

    def ask(timeout_s: float) -> list[Place]:
        try:
            told = consumer.committed(asked, min(timeout_s, _LOOK_S))
        except KafkaException as error:
            # A missing right to the group only times out here; librdkafka tells it to who polls.
            event = consumer.poll(0)
            refusal = None if event is None else event.error()
            if refusal is not None and refusal.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise KafkaException(refusal) from error
            raise
        for place in told:
            if place.error is not None:
                raise KafkaException(place.error)
        return told

    told = insist(ask)
    return {
        TopicPartition(it.topic, it.partition): (it.offset, it.metadata or "")
        for it in told
        if it.offset >= 0
    }


def _settings(config: Config, name: str) -> dict[str, Any]:
    settings = config.producer(name)
    if "transaction.timeout.ms" not in dict(config.passed):
        settings["transaction.timeout.ms"] = TRANSACTION_TIMEOUT_MS
    # Without a partition, the key decides as in Kafka's Java producer and in Spark.
    return {**settings, "partitioner": "murmur2_random"}


def _silent_member(config: Config) -> Consumer:
    """A Consumer that reads the group's offsets and stands for it in a transaction; never joins."""
    return Consumer(logged_in(config.data_plane()), logger=client_log)


def _retried(call: Callable[[float], T], patience_s: float = PATIENCE_S) -> T:
    """Call with a time-out, again while the same call may yet succeed."""
    until_s, report_s = monotonic() + patience_s, monotonic() + _CALL_S
    while True:
        try:
            return call(_CALL_S)
        except KafkaException as error:
            told, now_s = error.args[0], monotonic()
            if told.fatal() or told.txn_requires_abort() or now_s > until_s:
                raise
            if not told.retriable() and told.code() not in _MAY_PASS:
                raise
            if now_s >= report_s:
                report_s = now_s + _REPORT_S
                text, extra = told.str(), LogEvent.PUBLISH_TRIED_AGAIN.extra(error=told.name())
                told = (
                    "a call for a transaction has failed (%s), and is repeated for %.0f s more. "
                    "Nothing is lost by waiting. Look at the brokers: `coop-consumer doctor` says "
                    "what it can reach"
                )
                log.warning(told, text, until_s - now_s, extra=extra)
            time.sleep(_AGAIN_S)
