"""The calls that a transaction makes of its Producer, and what the Producer says to them.

In: a commit. Out: for each call a `Said`, and what went wrong: with a record, with a topic, with
this Producer. It decides nothing: `core.transaction` does. One thread makes the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place

from coop_consumer.core.actions import Commit
from coop_consumer.core.effects import Output, Result
from coop_consumer.core.record import Record
from coop_consumer.core.transaction import Said
from coop_consumer.errors import (
    AuthorizationError,
    CoopConsumerError,
    ProgressLogLostError,
    RecordRefusedError,
    RecordTooLargeError,
    TopicMissingError,
)
from coop_consumer.kafka.acked import Delivered
from coop_consumer.kafka.group_metadata import encoded
from coop_consumer.kafka.output_writer import produce_output
from coop_consumer.kafka.producing import PURGED
from coop_consumer.kafka.transaction_calls import TransactionCalls
from coop_consumer.kafka.translate import is_of_a_batch, translated

_POLL_S = 0.1
_MISSING = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
)
_GONE = (*_MISSING, KafkaError._UNKNOWN_PARTITION)
_UNFIT = (*_MISSING, KafkaError.TOPIC_AUTHORIZATION_FAILED)
"""Errors of a topic, and not of one record."""


class TransactedState(Protocol):
    """Keyed state, as a transaction takes it along."""

    def last_of(self, results: Sequence[Result]) -> Sequence[tuple[Record, Any]]:
        """Of each key the last write among these, with its record."""

    def topic_of(self, write: Any) -> str:
        """The changelog that gets a write."""

    def produce(self, producer: Producer, write: Any, delivered: Delivered) -> None:
        """Hand a write to a Producer, with what hears its report."""

    def committed(self, written: Sequence[tuple[Any, int]]) -> None:
        """These count from now on, each at its offset."""

    def served(self) -> None:
        """Time has passed; called once a second and more often."""


@dataclass(slots=True)
class _Waited:
    """Records that were handed to a Producer, until each is acknowledged."""

    missing: int = 0
    offsets: dict[int, int] = field(default_factory=dict)
    failure: tuple[KafkaError, str, int] | None = None

    def report_to(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        """What hears what has become of a record."""
        self.missing += 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            self.missing -= 1
            if error is None:
                self.offsets[number] = message.offset() or 0
            elif self.failure is None:
                self.failure = error, message.topic() or "", number

        return delivered


class TransactionClient(TransactionCalls):
    """A Producer, and the calls that a member's transaction makes of it. Used by one thread.

    Attributes:
        offsets: Where the entries of the last `progress` lie.
        written: The writes of keyed state in the last `effects`, and where they lie.
        too_large: The log refuses a record of this size; a smaller one may pass.
        refused: A record, the topic that takes no such output as it has left behind, and why.
        unfit: Why a topic of outputs or state takes nothing at all.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        group: str,
        topic: str,
        state: TransactedState | None,
        *,
        is_letter: Callable[[Record, str], bool],
        is_unfit: Callable[[str], bool],
    ) -> None:
        super().__init__(settings)
        self._is_letter, self._is_unfit = is_letter, is_unfit
        self._group, self._topic = group, topic
        self._state = state
        self._one_by_one: set[str] = set()  # topics whose refusals have named no record
        self.offsets: list[int] = []
        self.written: list[tuple[Any, int]] = []
        self.too_large: RecordTooLargeError | None = None
        self.refused: tuple[Record, str, CoopConsumerError] | None = None
        self.unfit: CoopConsumerError | None = None

    def forget(self) -> None:
        """Another transaction begins: it may succeed."""
        self.offsets, self.written = [], []
        self.why, self.final, self.too_large = "", None, None
        self.refused = self.unfit = None

    # ---- the calls -----------------------------------------------------------------------------

    def effects(self, action: Commit) -> Said:
        """Produce what handlers have sent and put, and wait until brokers have it."""
        outputs: list[tuple[Record, Any]] = [
            (record, it)
            for record, effects in action.results
            for it in effects
            if isinstance(it, Output)
        ]
        state = self._state
        writes = [] if state is None else state.last_of(action.results)

        def produce(effect: Any, delivered: Delivered) -> None:
            if isinstance(effect, Output):
                produce_output(self._at_work, effect, delivered)
            elif state is not None:
                state.produce(self._at_work, effect, delivered)

        def topic_of(effect: Any) -> str:
            if isinstance(effect, Output):
                return effect.topic
            return "" if state is None else state.topic_of(effect)

        waited, left = _Waited(), [*outputs, *writes]
        said = self._produced(waited, (it for _, it in left), produce, topic_of)
        if waited.failure is not None:
            error, topic, number = waited.failure
            if error.code() in _UNFIT:
                topics = [topic_of(it) for _, it in left]
                number = self._first_unfit(topics, number)
                topic = topics[number]
            in_company = sum(topic_of(it) == topic for _, it in left) > 1
            if is_of_a_batch(error) and in_company and topic not in self._one_by_one:
                self._one_by_one.add(topic)
                self.final, self.why = None, f"topic {topic}: one of a batch: {error.str()}"
            else:
                self._blame(left[number][0], error, topic)
        if said is Said.DONE:
            self._one_by_one.clear()
            first = len(outputs)
            self.written = [(it, waited.offsets[first + n]) for n, (_, it) in enumerate(writes)]
        return said

    def _first_unfit(self, topics: Sequence[str], otherwise: int) -> int:
        """The first of these topics that is unfit: a transaction that breaks names none."""
        unfit = {topic for topic in dict.fromkeys(topics) if self._is_unfit(topic)}
        return next((n for n, topic in enumerate(topics) if topic in unfit), otherwise)

    def _blame(self, record: Record, error: KafkaError, topic: str) -> None:
        """A topic has refused what a record has left behind, or its topic or a right is gone."""
        self.final, reason = None, translated(error, f"topic {topic}", self._user, "write")
        self.why = f"topic {topic}: {error.str()}"
        is_unfit = isinstance(reason, TopicMissingError | AuthorizationError)
        if is_unfit and not self._is_letter(record, topic):
            self.unfit = reason
        elif is_unfit or isinstance(reason, RecordTooLargeError | RecordRefusedError):
            self.refused = record, topic, reason

    def progress(self, action: Commit) -> Said:
        """Produce the entries of the log, and wait until brokers have them."""
        entries = (
            (number, key, value) for number, of in action.appends.items() for key, value in of
        )

        def produce(entry: tuple[int, bytes, bytes | None], delivered: Delivered) -> None:
            number, key, value = entry
            self._at_work.produce(self._topic, value, key, number, on_delivery=delivered)

        waited = _Waited()
        said = self._produced(waited, entries, produce, lambda _: self._topic)
        self.offsets = [offset for _, offset in sorted(waited.offsets.items())]
        return said

    def fence_entry(self, action: Commit) -> Said:
        """Send one offset, by which the coordinator checks member and generation.

        It lies in the progress topic: offsets of data partitions are mirrored by their leads.
        """
        assert action.metadata.generation >= 0, "I9: a transaction of no member"
        member = encoded(self._group, action.metadata)
        number, entries = next(iter(action.appends.items()))
        at = Place(self._topic, number, self.offsets[len(entries) - 1] + 1)
        return self._said(
            lambda: self._at_work.send_offsets_to_transaction([at], member, self.call_s),
            where=f"group {self._group}",
        )

    # ---- what it says --------------------------------------------------------------------------

    def _of(self, error: KafkaError, where: str, otherwise: Said) -> Said:
        first = self.why  # the cause: what fails behind it, an abort say, follows from it
        said = super()._of(error, where, otherwise)
        self.why = first or self.why
        return said

    def _judge(self, error: KafkaError, where: str, reason: CoopConsumerError) -> None:
        if where == f"topic {self._topic}" and error.code() in _GONE:
            self.final = ProgressLogLostError(self._topic, "was deleted while members run")
        elif isinstance(reason, RecordTooLargeError) and where == f"topic {self._topic}":
            self.too_large = reason
        elif where == f"group {self._group}" and isinstance(reason, AuthorizationError):
            # Of the check: it needs Read on the group, and on the topic of the offset.
            is_topic = error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            at = f"topic {self._topic}" if is_topic else where
            self.final = translated(error, at, self._user, "read")
        else:
            super()._judge(error, where, reason)

    def _produced(
        self,
        waited: _Waited,
        items: Iterator[Any],
        produce: Callable[[Any, Delivered], None],
        topic_of: Callable[[Any], str],
    ) -> Said:
        try:
            for number, item in enumerate(items):
                report = waited.report_to(number)
                while waited.failure is None:
                    try:
                        produce(item, report)
                        break
                    except BufferError:
                        self._at_work.poll(_POLL_S)
                    except KafkaException as error:  # of this record: nothing of it was sent
                        waited.failure = error.args[0], topic_of(item), number
                if self._one_by_one and topic_of(item) in self._one_by_one:
                    while waited.missing and waited.failure is None:
                        self._at_work.poll(_POLL_S)
            while waited.missing and waited.failure is None:
                self._at_work.poll(_POLL_S)
        except KafkaException as error:  # a poll raises what is fatal
            return self._of(error.args[0], f"transactional.id {self._id}", Said.REFUSED)
        if waited.failure is None:
            return Said.DONE
        refused, topic, number = waited.failure
        if refused.code() in PURGED:  # it is no record's fault: something broke the transaction
            refused = self._broken_by() or refused
            waited.failure = refused, topic, number
        return self._of(refused, f"topic {topic}", Said.REFUSED)

    def _broken_by(self) -> KafkaError | None:
        """What has broken the transaction; None: nothing. librdkafka says it to any call."""
        try:
            self._at_work.begin_transaction()
        except KafkaException as error:
            found: KafkaError = error.args[0]
            return None if found.code() == KafkaError._STATE else found
        return None
