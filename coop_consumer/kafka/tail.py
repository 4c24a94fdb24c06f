"""Follows several partitions by one Consumer, each from an offset of its own.

In: offsets; partitions to pause. Out: messages as they come, of each partition in order and without
a gap (I10), and the position in each. Joins no group and stores nothing. For one thread.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as Place

from assignors import TopicPartition
from coop_consumer import forks
from coop_consumer.config import Config
from coop_consumer.errors import BrokerUnreachableError, InputGoneError
from coop_consumer.kafka.clients import Silence, making, successor
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.fetcher import waiting_messages
from coop_consumer.kafka.log_end import offset_of
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.kafka.topics import EARLIEST, LATEST, Topics
from coop_consumer.kafka.translate import translated

BATCH_MAX = 1_000

_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


class Tail:
    """The records behind some offsets, and those that come.

    Args:
        config: Of the client; its isolation level says which records are seen.
        reader: Who reads, for errors.
        offsets: Of each partition the first to read. It was there a moment ago.
    """

    def __init__(self, config: Config, reader: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.positions = dict(offsets)
        self._config, self._reader = config, reader
        self.paused: set[TopicPartition] = set()
        self._silence = Silence()
        with making(config):
            self._consumer = self._new_consumer()
        self._assign()
        forks.watch(self)
        self._is_fork = False

    def shut_in_fork(self) -> None:
        """Refuse calls in a forked child: the client belongs to its parent."""
        forks.keep(self._consumer)
        self._is_fork = True
        self._consumer = forks.Shut("this call", self._reader)  # type: ignore[assignment]

    def _new_consumer(self) -> Consumer:
        return Consumer(logged_in(self._config.data_plane()), logger=client_log)

    def _assign(self) -> None:
        places = [Place(tp.topic, tp.partition, offset) for tp, offset in self.positions.items()]
        self._consumer.assign(places)
        self.paused.clear()

    def keep_paused(self, wanted: set[TopicPartition]) -> None:
        """Fetch no more of these partitions, and again of all others."""
        for change, places in (
            (self._consumer.pause, wanted - self.paused),
            (self._consumer.resume, self.paused - wanted),
        ):
            if places:
                change([Place(tp.topic, tp.partition) for tp in places])
        self.paused = set(wanted)

    def messages(self, timeout_s: float) -> list[Message]:
        """The messages that have come; waits for the first, and possibly returns none.

        Raises:
            InputGoneError: A partition does not have the records at its position any more.
            TopicMissingError, AuthorizationError: As they say.
        """
        found = waiting_messages(self._consumer, BATCH_MAX, timeout_s)
        if not found:
            self._replace_if_cut_off()
            return []
        self._silence.end()
        return [message for message in found if self._is_next(message)]

    def _is_next(self, message: Message) -> bool:
        tp = TopicPartition(message.topic() or "", message.partition() or 0)
        offset, error = message.offset() or 0, message.error()
        if error is None:
            if offset < self.positions[tp]:  # librdkafka returns some messages twice
                return False
            self.positions[tp] = offset + 1
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            # Between the last record and the end are only holes.
            self.positions[tp] = max(self.positions[tp], offset)
        elif error.code() in _OUT_OF_RANGE:
            raise self._gone(tp)
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # it is in no group
            topics = {it.topic for it in self.positions}
            where = f"topic {tp.topic or ', '.join(sorted(topics))}"  # some errors name none
            told = translated(error, where, self._config.user, "read")
            if not isinstance(told, BrokerUnreachableError):  # librdkafka retries those
                raise told
        return False

    def _gone(self, tp: TopicPartition) -> InputGoneError:
        topics, offset = Topics(self._config), self.positions[tp]
        low, end = offset_of(topics, tp, EARLIEST), offset_of(topics, tp, LATEST)
        return InputGoneError(self._reader, tp.topic, tp.partition, offset, low, end)

    def _replace_if_cut_off(self) -> None:
        if not self._silence.is_due():
            return
        topic = next(iter(self.positions)).topic
        found = successor(self._consumer, self._new_consumer, topic)
        if found is not None:
            self._consumer.close()
            self._consumer = found
            self._assign()

    def close(self) -> None:
        """Close the client."""
        if not self._is_fork:
            self._consumer.close()
