"""Reads the committed records of one partition of Kafka, and says where it ends.

In: a configuration, a partition, offsets. Out: visible records up to a stable end that is asked for
after the call, and the end. It has a Consumer that reads committed records, and one that asks for
ends and looks at what is undecided. One thread makes all calls.

A read assigns the Consumer anew, and brokers answer its fetches at once, even without a record:
only an empty answer tells that everything up to the stable end was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from time import monotonic
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import (
    BrokerUnreachableError,
    ConfigError,
    LogRecreatedError,
    RetriableError,
    UnexpectedAnswerError,
)
from coop_consumer.kafka.clients import close_aside, making, successor, why_no_offsets
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.fetcher import waiting_messages
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.kafka.topics import Topics
from coop_consumer.kafka.translate import translated
from coop_consumer.kafka.undecided import records_between
from coop_consumer.logs.port import StableRead
from coop_consumer.logs.records import APPEND_HEADER, LogToken, TaggedRecord, VisibleRecord

READ_MAX = 20_000
"""A read returns after so many records; the next one goes on."""
_POLL_S = 0.1
_ANSWER_S = 2.0
_SILENT_S = 5.0
_PATIENCE_S = 10.0
"""So long one call waits for brokers; then its caller decides."""
_CHECK_EVERY_S = 1.0
"""A topic that is made again has the same name, and may have the same offsets."""
_BACKWARDS_FIRST, _BACKWARDS_MAX = 64, 16_384
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


class _Found(NamedTuple):
    """Records that were read, with the header of a name each."""

    records: list[VisibleRecord]
    tags: list[bytes]
    position: int


class CommittedReader:
    """Reads one partition.

    Args:
        config: Of the clients; its group is not used.
        tp: The partition.
        topics: Of the cluster.

    Attributes:
        empty: The token of the partition before its first record.

    Raises:
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        ConfigError: The topic has no such partition, or librdkafka refuses a setting.
    """

    def __init__(self, config: Config, tp: TopicPartition, topics: Topics) -> None:
        facts = topics.describe([tp.topic], verb="written")[tp.topic]
        if not 0 <= tp.partition < facts.partitions:
            raise ConfigError(
                "partition",
                f"={tp.partition} does not exist: {tp.topic} has the partitions 0 to "
                f"{facts.partitions - 1}",
                "Name one of them",
            )
        topics.check_right(tp.topic, "READ")
        self._config, self._tp, self._topics = config, tp, topics
        self.empty = LogToken(facts.id, tp.partition, -1)
        with making(config):
            self._consumer, self._asker = self._new_consumer(), self._new_asker()
        self._position = self._last_visible = -1
        self._checked_s = monotonic()

    def _new_consumer(self) -> Consumer:
        settings = self._config.progress_reader(committed=True)
        return Consumer(logged_in({**settings, "fetch.wait.max.ms": 0}), logger=client_log)

    def _new_asker(self) -> Consumer:
        settings = self._config.progress_reader()
        return Consumer(logged_in({**settings, "fetch.wait.max.ms": 0}), logger=client_log)

    def close(self) -> None:
        """Close the clients."""
        self._consumer.close()
        self._asker.close()

    def check_topic(self) -> None:
        """See that the topic is still the same one.

        Raises:
            LogRecreatedError: It was deleted, and made again under its name.
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        topic, self._checked_s = self._tp.topic, monotonic()
        if self._topics.describe([topic], verb="written")[topic].id != self.empty.topic_id:
            raise LogRecreatedError(topic, self._tp.partition)

    @property
    def is_check_due(self) -> bool:
        """Whether the topic was not looked at for a second."""
        return monotonic() - self._checked_s >= _CHECK_EVERY_S

    def end(self) -> int:
        """The end of the log now, decided or not."""
        return self._ends(committed=False)[1]

    def _ends(self, *, committed: bool) -> tuple[int, int]:
        """The first offset, and the stable end or the end."""
        until_s = monotonic() + _PATIENCE_S
        while True:
            client = self._consumer if committed else self._asker
            try:
                first, end = client.get_watermark_offsets(self._at(), _ANSWER_S)
            except KafkaException as error:
                tp, user = self._tp, self._config.user
                reason = why_no_offsets(client, tp.topic, tp.partition, error.args[0], user)
                if not isinstance(reason, RetriableError) or monotonic() >= until_s:
                    raise reason from error
                self._replace_if_cut_off()
            else:
                return first, end

    def _at(self, offset: int | None = None) -> Place:
        topic, number = self._tp.topic, self._tp.partition
        return Place(topic, number) if offset is None else Place(topic, number, offset)

    def _replace_if_cut_off(self) -> None:
        found = successor(self._consumer, self._new_consumer, self._tp.topic)
        if found is not None:
            close_aside(self._consumer)
            close_aside(self._asker)
            self._consumer, self._asker = found, self._new_asker()

    def read(self, beyond: int) -> StableRead:
        """Visible records above an offset. 2 ms if there are none; some 1 M records a second.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
            UnexpectedAnswerError: Records that were there were removed while they were read.
            LogRecreatedError: The topic was deleted, and made again.
        """
        first, stable_end = self._ends(committed=True)
        if stable_end < self._position or self.is_check_due:
            self.check_topic()
        start = max(beyond + 1, first)
        if beyond >= self._last_visible:
            start = max(start, self._position)
        found = _Found([], [], min(start, stable_end))
        if start < stable_end:
            found = self._read_to(stable_end, start, APPEND_HEADER, tags_max=1)
        records, tags, position = found
        # What lies beyond may be the first part of a transaction that was decided meanwhile.
        while records and records[-1].offset >= stable_end:
            records.pop()
        position = min(position, stable_end)
        # In this order: whoever is interrupted between the two, and asks again, gets all of it.
        self._last_visible = records[-1].offset if records else beyond
        self._position = position
        end = max(self.end(), position)
        append_id = tags[0] if tags else b""
        return StableRead(records, position, stable_end, end, first, append_id)

    def _read_to(self, end: int, start: int, tag: str, tags_max: int = READ_MAX) -> _Found:
        """Read until the position is at the end or behind it, or enough is found."""
        found, heard_s = _Found([], [], start), monotonic()
        self._consumer.assign([self._at(start)])
        try:
            while found.position < end and len(found.records) < READ_MAX:
                messages = waiting_messages(self._consumer, READ_MAX, _POLL_S)
                if messages:
                    heard_s = monotonic()
                    found = self._with(found, messages, tag, tags_max)
                else:
                    self._look_at_silence(monotonic() - heard_s, found.position)
        finally:
            self._consumer.unassign()
        return found

    def _with(self, found: _Found, messages: Sequence[Message], tag: str, tags_max: int) -> _Found:
        """What was found, and messages behind it; 0.4 µs a message without an error."""
        records, tags, position = found
        failed = [it for it in messages if it.error() is not None]
        sound = [it for it in messages if it.error() is None] if failed else messages
        offsets = [it.offset() or 0 for it in sound]
        if offsets and offsets[0] < position:  # fetched before the Consumer was assigned anew
            sound = [it for it in sound if (it.offset() or 0) >= position]
            offsets = [it.offset() or 0 for it in sound]
        if offsets:
            tags += [header(it, tag) for it in sound[: max(tags_max - len(tags), 0)]]
            keys, values = [it.key() for it in sound], [it.value() for it in sound]
            facts = zip(offsets, keys, values, strict=True)
            records += map(tuple.__new__, repeat(VisibleRecord), facts)
            position = offsets[-1] + 1
        for it in failed:
            error = it.error()
            assert error is not None, "it was there a moment ago"
            position = self._passed_over(error, it.offset(), position)
        return _Found(records, tags, position)

    def _look_at_silence(self, silent_s: float, position: int) -> None:
        if silent_s > _PATIENCE_S:
            where = f"{self._tp} from offset {position}"
            raise BrokerUnreachableError(
                self._config.bootstrap_servers, f"{where}: nothing for {_PATIENCE_S:g} s"
            )
        if silent_s > _SILENT_S:
            self._replace_if_cut_off()
            self._consumer.assign([self._at(position)])

    def _passed_over(self, error: KafkaError, offset: int | None, position: int) -> int:
        if error.code() == KafkaError._PARTITION_EOF:
            return max(position, offset or 0)
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return position  # librdkafka looks for a coordinator; nobody needs one here
        tp = self._tp
        if error.code() in _OUT_OF_RANGE:
            # Asked again, the log tells where it begins now; whoever needs more than that says so.
            detail = "its records were removed while they were read"
            raise UnexpectedAnswerError(f"{tp} from offset {position}", detail)
        reason = translated(error, f"topic {tp.topic}", self._config.user, "read")
        if not isinstance(reason, RetriableError):
            raise reason
        return position

    def backwards(self, tag: str) -> tuple[LogToken, Iterator[TaggedRecord]]:
        """The token now, and visible records from the last one backwards, with a header each.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        first, stable_end = self._ends(committed=True)
        found = self._backwards(first, stable_end, tag)
        last = next(found, None)
        if last is None:
            return self.empty.at(first - 1), iter(())
        return self.empty.at(last.record.offset), chain([last], found)

    def _backwards(self, first: int, end: int, tag: str) -> Iterator[TaggedRecord]:
        length = _BACKWARDS_FIRST
        while end > first:
            start = max(first, end - length)
            records, tags, _ = self._read_to(end, start, tag)
            pairs = list(map(TaggedRecord, records, tags))
            yield from (it for it in reversed(pairs) if it.record.offset < end)
            end, length = start, min(2 * length, _BACKWARDS_MAX)

    def undecided(self, offset: int) -> Message | None:
        """The record at an offset, decided or not; None: it has not come in time."""
        hidden = records_between(self._asker, self._at(offset), offset + 1, _ANSWER_S)
        return next((it for it in hidden if it.offset() == offset), None)


def header(message: Message, name: str) -> bytes:
    """The first header of a name; b"" if there is none."""
    for found in message.headers() or ():
        if found[0] == name:
            value = found[1]
            return value if isinstance(value, bytes) else (value or "").encode()
    return b""
