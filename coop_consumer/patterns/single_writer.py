"""What all single writers have in common: a name, a publisher, and one transaction after the other.

In: settings, a name, the partitions that are written and read. Out: a checked configuration, a
fenced publisher. Only the newest writer of a name writes. After a transaction that did not end well
the object is of no use: its memory may be ahead of the log. A new one finds out what was committed.
For one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import Literal, Self, cast

from assignors import TopicPartition
from coop_consumer import arguments
from coop_consumer.config import Config, IsolationLevel, OnDataLoss, Settings
from coop_consumer.config.setting import shown
from coop_consumer.errors import AuthorizationError, ConfigError, MisuseError
from coop_consumer.kafka.log_end import log_end, offset_of
from coop_consumer.kafka.own_topics import for_batches_of, for_batches_of_any
from coop_consumer.kafka.publish import ANY_PARTITION, Headers, Publisher
from coop_consumer.kafka.topics import EARLIEST, LATEST, TopicFacts, Topics
from coop_consumer.log_events import LogEvent
from coop_consumer.patterns.going_on import OutputEnd, within_input
from coop_consumer.patterns.messages import headers_in
from coop_consumer.patterns.stamp import Stamp, stamp_in, stamped
from offsets.offset_range import OFFSET_MAX

log = logging.getLogger(__name__)

_SERVED_WITHIN_S = 30.0
"""A cluster makes its transaction log with the first transaction: that takes seconds."""


def writer_config(config: Settings | Mapping[str, object], name: object, kind: str) -> Config:
    """The checked configuration of a single writer; its group has the writer's name.

    Raises:
        MisuseError: No writer can have this name.
        ConfigError: For a bad setting.
    """
    arguments.a_name(f"{kind}()", name)
    # Unlike a group, a single writer has nobody who would count a loss.
    found = config_for(config, {"on.data.loss": OnDataLoss.STOP.value, "group.id": name})
    if found.group_id != name:
        raise ConfigError(
            "group.id",
            "is the writer's name: its commits are offsets of that group",
            "Leave it out",
        )
    return replace(found, isolation_level=IsolationLevel.READ_COMMITTED)


def config_for(config: object, defaults: Mapping[str, object]) -> Config:
    """The checked configuration of who reads or writes beside groups.

    Raises:
        ConfigError: For a bad setting, or what is no dict of them.
    """
    given = {**defaults, **config} if isinstance(config, Mapping) else config
    return Config.from_dict(cast("Mapping[str, object]", given), both_clients=False)


def checked_number(call: str, value: object, what: str) -> int:
    """An offset or position that Kafka can keep. Pure.

    Raises:
        MisuseError: It is no whole number, or a larger one. Headers and commits could not hold it,
            and no later start would find out where to go on.

    >>> checked_number("put()", 7, "position")
    7
    """
    number = value if type(value) is int else arguments.whole(call, value, what)
    if number > OFFSET_MAX:
        raise MisuseError(
            call,
            f"{what} {shown(number)} is above the largest offset, {OFFSET_MAX}",
            "Use a smaller one",
        )
    return number


class SingleWriterState(Enum):
    """What a writer can do next, or why it can do nothing."""

    READY = "it is ready"
    OPEN = "a transaction of it is open"
    FAILED = "a transaction of it has failed"
    CLOSED = "it is closed"


class SingleWriter:
    """The newest writer of a name; base of those that users make.

    Args:
        config: One dict of dotted names, as for a consumer, without group.id.
        name: The transactional.id, and the group of the commits. One for each partition written.
        read: The partitions that are read.
        written: The partitions that are written, and read at the start.
        begin: As users give it, to be checked.

    Raises:
        ConfigError, MisuseError: A setting or an argument cannot be.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        NoTransactionsError: The brokers have no transactions.
    """

    def __init__(
        self,
        config: Settings | Mapping[str, object],
        name: str,
        read: tuple[TopicPartition, ...] = (),
        written: tuple[TopicPartition, ...] = (),
        begin: int | None = None,
    ) -> None:
        self.name = name
        self._kind = type(self).__name__
        self._config = writer_config(config, name, self._kind)
        if begin is not None and (type(begin) is not int or begin < 0):
            raise MisuseError(
                f"{self._kind} {name}", f"begin={shown(begin)}", "Choose a whole number from 0 on"
            )
        self._config = for_batches_of_any(self._config)
        self._topics = Topics(self._config)
        self._facts: dict[str, TopicFacts] = {}
        self._ends: dict[TopicPartition, int] = {}  # of inputs, when they were last looked at
        for place in read:
            self._check_place(place)
        for place in written:
            arguments.a_place(f"{self._kind} {name}", place)
            self._config.refuse_output(place.topic)
            self._check_place(place, is_written=True)
            self._check_settings(place, self._topics.settings_of(place.topic))
            self._config = for_batches_of(self._config, self._topics, place.topic)
        self._state = SingleWriterState.READY
        self._void: MisuseError | None = None  # why the open transaction must not be committed
        # From here on earlier writers of the name can commit nothing more: what is read is final.
        self._publisher = Publisher(self._config, name, patience_s=_SERVED_WITHIN_S)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._state is SingleWriterState.OPEN:
            remedy = "End its block first, on one thread"
            raise MisuseError(f"{self._kind} {self.name}", self._state.value, remedy)
        self._check_usable()
        self._state, self._void = SingleWriterState.OPEN, None
        try:
            with self._publisher.transaction():
                yield
                self._check_sound()
        except BaseException:
            self._end(SingleWriterState.FAILED)
            raise
        self._end(SingleWriterState.READY)

    def _check_sound(self) -> None:
        """See that the open transaction may be committed: its block may have gone on after a no.

        Raises:
            MisuseError: It is void.
        """
        if self._void is not None:
            raise self._void

    def _check_usable(self) -> None:
        """See that it can still write.

        Raises:
            MisuseError: It is closed, or has failed.
        """
        if self._state in (SingleWriterState.FAILED, SingleWriterState.CLOSED):
            remedy = f"Make a new {self._kind}: it finds out what was committed"
            raise MisuseError(f"{self._kind} {self.name}", self._state.value, remedy)

    def _end(self, state: SingleWriterState) -> None:
        """A transaction has ended; its block may have closed the writer."""
        if self._state is SingleWriterState.OPEN:
            self._state = state

    def _check_open(self, call: str) -> None:
        """See that a record has a transaction to go into.

        Raises:
            MisuseError: It has none.
        """
        if self._state is not SingleWriterState.OPEN:
            raise MisuseError(
                f"{self.name}: {call}",
                "no transaction is open",
                "Call it within a block, `with ….transaction(…):`",
            )

    def _write(
        self,
        call: str,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        *,
        stamp: Stamp | None = None,
        partition: int = ANY_PARTITION,
        timestamp_ms: int = 0,
    ) -> None:
        """Add a record to the open transaction.

        Raises:
            MisuseError: No transaction is open, or no record can be made of the arguments.
            CoopConsumerError: This record or one before it is refused.
        """
        self._check_open(call)
        try:
            headers = list(headers)
            for name, _ in headers:
                name.encode()  # what has no UTF-8 would crash the interpreter in confluent-kafka
            self._publisher.write(
                topic,
                value,
                key,
                headers if stamp is None else stamped(headers, stamp),
                partition=partition,
                timestamp_ms=timestamp_ms,
            )
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            self._void = MisuseError(
                f"{self.name}: {call}",
                f"no record can be made of its arguments: {error}",
                "Give keys and values as bytes or None, headers as a list of (name, bytes), and "
                "the time in whole ms",
                "The transaction is void",
            )
            raise self._void from error

    def _look_up(self, topic: str, *, is_read: bool, is_written: bool) -> TopicFacts:
        """A topic's facts.

        Raises:
            TopicMissingError: It does not exist.
            AuthorizationError: The broker says that this user may not read or write it.
        """
        verb: Literal["consumed", "written"] = "written" if is_written else "consumed"
        try:
            facts = self._topics.describe([topic], verb=verb)[topic]
        except AuthorizationError as error:
            error.operation = "read" if is_read else "write"  # each of them brings the right to ask
            raise
        if is_read:
            self._topics.check_right(topic, "READ")
        if is_written:
            self._topics.check_right(topic, "WRITE")
        self._facts[topic] = facts
        return facts

    def _check_place(self, place: TopicPartition, *, is_written: bool = False) -> None:
        arguments.a_place(f"{self._kind} {self.name}", place)
        facts = self._look_up(place.topic, is_read=True, is_written=is_written)
        if not 0 <= place.partition < facts.partitions:
            raise MisuseError(
                f"{self._kind} {self.name}",
                f"{place.topic} has no partition {place.partition}",
                f"Name one from 0 to {facts.partitions - 1}",
            )

    def _check_settings(self, place: TopicPartition, settings: Mapping[str, str]) -> None:
        """See that a written topic keeps what the next start needs; trust it if nothing is told.

        Raises:
            MisuseError: It does not.
        """
        if "compact" in settings.get("cleanup.policy", ""):
            raise MisuseError(
                f"{self._kind} {self.name}",
                f"{place.topic} is compacted: its last record may go, and tells where to go on",
                f"Set cleanup.policy=delete on {place.topic}, or write another topic",
            )

    def _id_of(self, place: TopicPartition) -> str:
        return self._facts[place.topic].id.hex()

    def _output_end(self, place: TopicPartition) -> OutputEnd:
        found = log_end(self._config, self._topics, place, self.name)
        if found.last is None:
            return OutputEnd(str(place), found.low)
        try:
            stamp = stamp_in(headers_in(found.last))
        except ValueError:  # a stranger's, for sure
            stamp = None
        return OutputEnd(str(place), found.low, found.last.offset() or 0, stamp)

    def _within(self, place: TopicPartition, offset: int) -> int:
        """The offset of an input to go on at.

        Raises:
            InputGoneError: The input does not have it, and on.data.loss is not "warn".
        """
        low = offset_of(self._topics, place, EARLIEST)
        self._ends[place] = end = offset_of(self._topics, place, LATEST)
        is_lenient = self._config.on_data_loss is OnDataLoss.WARN
        where = (place.topic, place.partition)
        found = within_input(self.name, where, offset, low, end, is_lenient=is_lenient)
        if found != offset:
            log.warning(
                "%s: goes on at offset %d of %s, not at %d, because the input has only [%d, %d)",
                self.name, found, place, offset, low, end,
                extra=LogEvent.INPUT_GONE.extra(tp=place, offset=found),
            )  # fmt: skip
        return found

    def _check_next(self, call: str, place: TopicPartition, offset: int) -> None:
        """See that an input has what comes before an offset that is about to be committed.

        It costs a question to the brokers if the input has grown up to there since the last one.

        Raises:
            MisuseError: It has not. The next start would take the records between for lost.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        if offset <= self._ends.get(place, -1):
            return
        self._ends[place] = end = offset_of(self._topics, place, LATEST)
        if offset > end:
            raise MisuseError(
                f"{self.name}: {call}",
                f"input {offset - 1} would be done, and {place} ends at {end}",
                "Give offsets of this input's records",
            )

    def _begin_of(self, place: TopicPartition) -> int:
        return offset_of(self._topics, place, EARLIEST)

    def close(self) -> None:
        """Close the clients; an open transaction is aborted."""
        self._state = SingleWriterState.CLOSED
        self._publisher.close()

    def __enter__(self) -> Self:
        """Return the writer: it is ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
