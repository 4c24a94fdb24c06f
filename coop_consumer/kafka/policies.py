"""Policies in partition 0 of progress topics: read at the start, and watched by the leader.

In: a configuration. Out: the policies in force, and a call when they have changed. A member reads
them when it starts, beside its join, and then only while it leads its group. Only the leader needs
policies, for its plan. Every group's commits go to that partition, so a read is not free. No join
ever waits for a read. Between two reads the client stays and fetches nothing: a new one each ten
seconds would be a new login each time.

Policies of topics are in the shared progress topic, for all groups. The policy of a group is where
the group's progress is. No transaction ever writes a policy, so a read waits for none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from coop_consumer.config import Config
from coop_consumer.core.policies import Policies, policies_of
from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    CoopConsumerError,
    TopicMissingError,
)
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.clients import making, why_no_offsets
from coop_consumer.kafka.fetcher import waiting_messages
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.kafka.translate import translated
from coop_consumer.log_events import LogEvent
from offsets import (
    CorruptRecordError,
    PolicyKey,
    PolicyRecord,
    decode_key,
    decode_value,
)

log = logging.getLogger(__name__)

LOG_PARTITION = 0
_BATCH_MAX = 5_000
_POLL_S = 0.1
_TIMEOUT_S = 10.0
_PASSED_OVER = (KafkaError._PARTITION_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED)
"""What ends no read: its end, and that the user may not join the group, for it is in none."""
_TOLD_FAILURE = 2
"""Once is no news: brokers take a moment to lead a topic that was just made. Nor are later ones."""
_TOMBSTONES_STAY_S = 50.0
"""A little less than the progress topic's `delete.retention.ms`. A policy withdrawn longer ago may
have left no trace in the log."""


class PolicyClient:
    """A Consumer by which any logs of policies are read, one after the other.

    One thread at a time. It is there from the first read on, until `close`.
    """

    def __init__(self) -> None:
        self.consumer: Consumer | None = None

    def close(self) -> None:
        """Close the Consumer. The next read makes another one, and continues."""
        consumer, self.consumer = self.consumer, None
        if consumer is not None:
            consumer.close()


class PolicyLog:
    """All policies in a progress topic; each read continues where the last one ended.

    One thread at a time. If it is lent no client, it has one from the first read on, until `close`.

    Args:
        config: Names the brokers.
        topic: The progress topic; None: the shared one.
    """

    def __init__(self, config: Config, topic: str | None = None) -> None:
        self._config = config
        self._topic = topic or config.progress_topic
        self._position = 0
        self._records: dict[PolicyKey, PolicyRecord] = {}
        self._read_s = time.monotonic()
        self._own = PolicyClient()

    @property
    def is_open(self) -> bool:
        """Whether it has a client of its own."""
        return self._own.consumer is not None

    def close(self) -> None:
        """Close its own client. The next read makes another one, and continues."""
        self._own.close()

    def read(self, lent: PolicyClient | None = None) -> Mapping[PolicyKey, PolicyRecord]:
        """The policies at the log's present end. Blocks; O(records since the last read).

        Args:
            lent: Reads it this time; None: its own client does.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        now_s = time.monotonic()
        if now_s > self._read_s + _TOMBSTONES_STAY_S:
            self._forget()
        client = lent or self._own
        try:
            self._read_on(client)
        except BrokerUnreachableError:
            if client.consumer is None:
                raise
            client.close()  # it may have lost every broker, see `clients.successor`
            self._read_on(client)
        self._read_s = now_s
        return dict(self._records)

    def _read_on(self, client: PolicyClient) -> None:
        """Read with the Consumer of before, or a new one; a new one that fails is closed."""
        is_new = client.consumer is None
        if client.consumer is None:
            settings = self._config.progress_reader()
            with making(self._config):
                client.consumer = Consumer(logged_in(settings), logger=client_log)
        try:
            self._read_with(client.consumer)
        except BaseException:
            if is_new:
                client.close()
            raise

    def _read_with(self, consumer: Consumer) -> None:
        topic = self._topic
        try:
            low, end = self._bounds(consumer)
            if end < self._position:  # truncated, or created again
                self._forget()
            self._position = max(self._position, low)
            if self._position < end:
                consumer.assign([Place(topic, LOG_PARTITION, self._position)])
                self._read_to(consumer, end)
        except KafkaException as error:
            raise translated(error.args[0], f"topic {topic}", operation="read") from error
        finally:
            consumer.unassign()  # else it would fetch what all groups commit

    def _bounds(self, consumer: Consumer) -> tuple[int, int]:
        place = Place(self._topic, LOG_PARTITION)
        try:
            found: tuple[int, int] = consumer.get_watermark_offsets(place, _TIMEOUT_S)
        except KafkaException as error:
            told = why_no_offsets(consumer, self._topic, LOG_PARTITION, error.args[0])
            raise told from error
        return found

    def _forget(self) -> None:
        """Let the next read start at the beginning."""
        self._position = 0
        self._records.clear()

    def _read_to(self, consumer: Consumer, end: int) -> None:
        deadline_s = time.monotonic() + _TIMEOUT_S
        while self._position < end:
            if time.monotonic() > deadline_s:
                detail = f"{self._topic} not read to its end in {_TIMEOUT_S:g} s"
                raise BrokerUnreachableError(self._config.bootstrap_servers, detail)
            for message in waiting_messages(consumer, _BATCH_MAX, _POLL_S):
                error, offset = message.error(), message.offset()
                if error is None:
                    self._fold(message)
                elif error.code() not in _PASSED_OVER:
                    raise KafkaException(error)
                self._position = max(self._position, (offset or 0) + (error is None))

    def _fold(self, message: Message) -> None:
        """Fold a record in; skip one that is no policy, or cannot be read."""
        data = message.value()
        try:
            key = decode_key(message.key() or b"")
            value = None if data is None else decode_value(key, data)
        except CorruptRecordError:
            return
        if isinstance(key, PolicyKey) and isinstance(value, PolicyRecord):
            self._records[key] = value
        elif isinstance(key, PolicyKey):
            self._records.pop(key, None)


class GroupPolicyLog:
    """The policies that bind a group. See `PolicyLog`.

    Args:
        config: As the group works.
    """

    def __init__(self, config: Config) -> None:
        self._group = config.group_id
        self._shared = PolicyLog(config)
        is_own = config.progress_log != config.progress_topic
        self._own = PolicyLog(config, config.progress_log) if is_own else None

    @property
    def is_open(self) -> bool:
        """Whether it has a client."""
        return self._shared.is_open or (self._own is not None and self._own.is_open)

    def close(self) -> None:
        """Close its clients."""
        self._shared.close()
        if self._own is not None:
            self._own.close()

    def read(self, lent: PolicyClient | None = None) -> Policies:
        """The policies now. Blocks; O(records since the last read).

        Args:
            lent: Reads them this time; None: clients of its own do.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
            TopicMissingError: There is no progress topic. If the group has one of its own, each of
                the two may be missing, and the shared one may be hidden from its user: then it has
                no policies.
        """
        if self._own is None:
            return policies_of(self._shared.read(lent), self._group)
        shared = _if_any(self._shared, lent, TopicMissingError, AuthorizationError)
        own = _if_any(self._own, lent, TopicMissingError)
        topics = policies_of(shared, self._group).topics
        return Policies(topics, policies_of(own, self._group).group)


def _if_any(
    log: PolicyLog, lent: PolicyClient | None, *passed_over: type[CoopConsumerError]
) -> Mapping[PolicyKey, PolicyRecord]:
    try:
        return log.read(lent)
    except passed_over:
        return {}


class PolicyWatch:
    """The policies that a member uses for its plan if it leads.

    Args:
        config: The member's.
        changed: Called on the watch's own thread when our last plan used older policies.
    """

    def __init__(self, config: Config, changed: Callable[[], None]) -> None:
        self._config = config
        self._changed = changed
        self._log = GroupPolicyLog(config)
        self._reading = threading.Lock()
        self._known: Policies | None = None
        self._planned: Policies | None = None  # the policies of our last plan
        self._failures = 0  # of looks running

    def look(self) -> None:
        """Read again if the policies matter: at first, and while we lead. Returns at once."""
        if self._reading.locked():
            return
        if self._known is None or self._planned is not None:
            self._begin(self._look)
        elif self._log.is_open:
            self._begin(self._close)

    def end(self) -> None:
        """Close the clients, after a read that is under way; returns at once."""
        self._begin(self._close)

    def _begin(self, call: Callable[[], None]) -> None:
        name = f"coop-policies-{self._config.group_id}"
        threading.Thread(target=call, name=name, daemon=True).start()

    def _close(self) -> None:
        with self._reading:
            self._log.close()

    def joining(self) -> None:
        """Note that a rebalance begins: the next leader is not known yet."""
        self._planned = None

    def for_plan(self) -> Policies:
        """The policies for our plan, as we lead. If they are old, `changed` is called soon."""
        planned = self._planned = self._known or Policies()
        return planned

    def read(self) -> Policies:
        """The present policies. Blocks.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        with self._reading:
            self._known = self._log.read()
            return self._known

    def _look(self) -> None:
        try:
            known = self.read()
        except CoopConsumerError as error:
            self._failures += 1
            told = "policies cannot be read yet, and are read again until they can: %s"
            extra = LogEvent.POLICIES_UNKNOWN.extra(group=self._config.group_id, error=error)
            if self._failures == _TOLD_FAILURE:
                log.info(told, error, extra=extra)
            else:
                log.debug(told, error, extra=extra)
            return
        self._failures = 0
        planned = self._planned
        if planned is not None and planned != known:
            self._changed()
