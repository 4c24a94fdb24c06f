"""The calls that a transaction makes of its Producer, and what the Producer says to them.

In: a commit. Out: for each call a `Said`, and what went wrong: with a record, with a topic, with
this Producer. It decides nothing: `core.transaction` does. One thread makes the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
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
from coop_consumer.kafka.refused_batch import RefusedBatch
from coop_consumer.kafka.transaction_calls import WITHDRAWN, TransactionCalls
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
_CAUSE_S = 2.0
"""librdkafka tells what that was within milliseconds, unless it is about no record at all."""
_REFUSALS = (RecordTooLargeError, RecordRefusedError)


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
    """Records that were handed to a Producer, until each is acknowledged.

    Attributes:
        missing: How many are not acknowledged.
        offsets: Where those that are lie.
        failure: What is wrong with a record, its topic, and its number.
        withdrawn: The same of one that is not sent because something has broken the transaction:
            librdkafka may tell of those behind a refused record before it tells of that record.
        refused: The numbers of all records with that failure: a batch may be refused for one. None:
            the failure is what has broken the transaction, and the record that it names may be any.
    """

    missing: int = 0
    offsets: dict[int, int] = field(default_factory=dict)
    failure: tuple[KafkaError, str, int] | None = None
    withdrawn: tuple[KafkaError, str, int] | None = None
    refused: list[int] = field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        return self.failure is not None or self.withdrawn is not None

    def report_to(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        """What hears what has become of a record."""
        self.missing += 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            self.missing -= 1
            if error is None:
                self.offsets[number] = message.offset() or 0
            else:
                self._fail(error, message.topic() or "", number)

        return delivered

    def not_taken(self, error: KafkaError, topic: str, number: int) -> None:
        """The Producer has not taken this record, and will not report on it."""
        self.missing -= 1
        self._fail(error, topic, number)

    def _fail(self, error: KafkaError, topic: str, number: int) -> None:
        found = error, topic, number
        if error.code() in WITHDRAWN:
            self.withdrawn = self.withdrawn or found
            return
        self.failure = self.failure or found
        if error.code() == self.failure[0].code():
            self.refused.append(number)


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
        self._batch: RefusedBatch[Any] = RefusedBatch()
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
            self._find_whose_fault(waited, left, topic_of)
        if said is Said.DONE:
            self._batch.clear()
            first = len(outputs)
            self.written = [(it, waited.offsets[first + n]) for n, (_, it) in enumerate(writes)]
        return said

    def _find_whose_fault(
        self,
        waited: _Waited,
        left: Sequence[tuple[Record, Any]],
        topic_of: Callable[[Any], str],
    ) -> None:
        """Blame a record for what brokers have not taken; or none yet, if it may be any of many."""
        assert waited.failure is not None, "brokers have taken all"
        error, topic, number = waited.failure
        if error.code() in _UNFIT:
            topics = [topic_of(it) for _, it in left]
            number = self._first_unfit(topics, number)
            topic = topics[number]
        elif is_of_a_batch(error) or (not waited.refused and self._is_refusal(error)):
            numbers = waited.refused or range(len(left))
            effect = self._batch.refused([left[n][1] for n in numbers])
            if effect is None:
                self.final, self.why = None, f"topic {topic}: one of a batch: {error.str()}"
                return
            number = next(n for n in numbers if left[n][1] is effect)
            topic = topic_of(effect)
        self._blame(left[number][0], error, topic)

    def _first_unfit(self, topics: Sequence[str], otherwise: int) -> int:
        """The first of these topics that is unfit: a transaction that breaks names none."""
        unfit = {topic for topic in dict.fromkeys(topics) if self._is_unfit(topic)}
        return next((n for n, topic in enumerate(topics) if topic in unfit), otherwise)

    @staticmethod
    def _is_refusal(error: KafkaError) -> bool:
        return isinstance(translated(error, "", operation="write"), _REFUSALS)

    def _blame(self, record: Record, error: KafkaError, topic: str) -> None:
        """A topic has refused what a record has left behind, or its topic or a right is gone."""
        self.final, reason = None, translated(error, f"topic {topic}", self._user, "write")
        self.why = f"topic {topic}: {error.str()}"
        is_unfit = isinstance(reason, TopicMissingError | AuthorizationError)
        if is_unfit and not self._is_letter(record, topic):
            self.unfit = reason
        elif is_unfit or isinstance(reason, _REFUSALS):
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
                self._hand_over(waited, number, item, produce, topic_of)
                if waited.has_failed:
                    break
            self._take_in(waited)
            if waited.failure is None and waited.withdrawn is not None:
                self._hear_of_the_cause(waited)
        except KafkaException as error:  # a poll raises what is fatal
            return self._of(error.args[0], f"transactional.id {self._id}", Said.REFUSED)
        if waited.failure is None:
            return Said.DONE
        refused, topic, _ = waited.failure
        return self._of(refused, f"topic {topic}", Said.REFUSED)

    def _hand_over(
        self,
        waited: _Waited,
        number: int,
        item: Any,
        produce: Callable[[Any, Delivered], None],
        topic_of: Callable[[Any], str],
    ) -> None:
        report = waited.report_to(number)
        while not waited.has_failed:
            try:
                produce(item, report)
                break
            except BufferError:
                self._at_work.poll(_POLL_S)
            except KafkaException as error:
                waited.not_taken(error.args[0], topic_of(item), number)
        if self._batch.ends_piece(item):
            self._take_in(waited)

    def _take_in(self, waited: _Waited) -> None:
        """Wait until all that was handed over is acknowledged, or something has failed."""
        while waited.missing and not waited.has_failed:
            self._at_work.poll(_POLL_S)

    def _hear_of_the_cause(self, waited: _Waited) -> None:
        """A record was withdrawn: wait for the report of the one whose fault it is, if it is one's.

        Otherwise librdkafka says what has broken the transaction to any call.
        """
        assert waited.withdrawn is not None, "nothing was withdrawn"
        until_s = monotonic() + _CAUSE_S
        while waited.failure is None and waited.missing and monotonic() < until_s:
            self._at_work.poll(_POLL_S)
        if waited.failure is None:
            error, topic, number = waited.withdrawn
            waited.failure = self._cause_of(error), topic, number
