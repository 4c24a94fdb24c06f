"""The conditional producer: appends to a partition only if nobody else has appended meanwhile.

In: records, and the last visible record that the caller knows. Out: the token of the last record of
the append, or a `Conflict`, and then nothing of the append is in the log. It works on Kafka as it
is: a transaction is committed only if its records lie exactly behind all that was read
(`logs.conditional` has the rules). One thread uses a producer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from assignors import TopicPartition
from coop_consumer import forks
from coop_consumer.arguments import instance, seconds, whole
from coop_consumer.config import Config, Settings
from coop_consumer.config.setting import shown
from coop_consumer.errors import CoopConsumerError, LogTokenError, MisuseError
from coop_consumer.logs.appender import TIMEOUT_S, Appender, check_size, new_append_id
from coop_consumer.logs.bulk_load import BulkLoaded, bulk_load
from coop_consumer.logs.conditional import AppendEnd
from coop_consumer.logs.kafka_log import KafkaLog, config_of
from coop_consumer.logs.records import (
    APPEND_ID_BYTES,
    Conflict,
    LogToken,
    NewRecord,
    TaggedRecord,
    VisibleRecord,
)
from coop_consumer.plain_text import counted


class ConditionalProducer:
    """Check-and-set on one partition. One thread at a time calls it.

    ```python
    with ConditionalProducer({"bootstrap.servers": "b:9092"}, "orders", 0, "importer") as producer:
        token = producer.token()
        end = producer.append([NewRecord(b"k", b"v")], token)
    ```

    Args:
        config: Settings of the clients, or a dict of them; its group is not used.
        topic: An existing topic.
        partition: Of the topic.
        name: Of the writer; part of its transactional.id. A new producer of a name ends what its
            predecessor has open. Producers that work at the same time have names of their own.

    Raises:
        ConfigError: For a setting, or a partition that does not exist.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """

    def __init__(
        self,
        config: Config | Settings | Mapping[str, object],
        topic: str,
        partition: int,
        name: str,
    ) -> None:
        self.name, self.place = name, (topic, partition)
        tp = TopicPartition(topic, partition)
        self._log = KafkaLog(config_of(config, name), tp, name)
        self._appender = Appender(self._log)
        self._is_fork = self._is_closed = False
        self._in_use = threading.RLock()  # nobody waits for it
        forks.watch(self)

    def shut_in_fork(self) -> None:
        """Refuse calls in a forked child: the clients belong to its parent."""
        forks.keep(self._log, self._appender)
        self._is_fork, self._in_use = True, threading.RLock()
        shut = forks.Shut("this call", f"conditional producer {self.name}")
        self._log, self._appender = shut, shut  # type: ignore[assignment]

    def token(self) -> LogToken:
        """The last visible record now. Searches the log backwards for it; mostly 5 ms.

        It is never older than the last append of this producer, whose marker may be on the way.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        with self._used():
            token, _ = self._log.backwards("")
            return token.at(max(token.offset, self._appender.appended))

    def read(self, beyond: LogToken) -> list[VisibleRecord]:
        """All visible records beyond a token, up to the last stable offset now.

        What retention has removed is not among them: see `first_offset`.

        Raises:
            LogTokenError: It is no token of this partition, or in the future.
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        offset, found = self._checked(beyond).offset, list[VisibleRecord]()
        with self._used():
            while True:
                seen = self._log.read(offset)
                found += seen.records
                if offset >= seen.end:
                    raise self._ahead(offset, seen.end)
                if seen.is_complete:
                    return found
                offset = found[-1].offset if found else offset

    def append(
        self,
        records: Sequence[NewRecord],
        expected: LogToken,
        *,
        append_id: bytes = b"",
        timeout_s: float = TIMEOUT_S,
    ) -> LogToken | Conflict:
        """Append records, if `expected` is still the last visible record.

        They lie one behind the other, and become visible together. Uncontended it takes some 3 ms.

        Args:
            records: From 1 to 100,000, of up to 64 MiB together.
            expected: From `token`, or from an earlier append.
            append_id: 16 bytes that name this append. If it is sent again under its id, even by
                another process, it is found in the log, and not appended twice. By default it
                gets one of its own.
            timeout_s: When it is given up.

        Returns:
            The token of its last record; or `Conflict`, and then nothing of it is in the log.

        Raises:
            LogTokenError: The token is of another topic or partition, negative, or in the future.
            AppendTooLargeError, RecordTooLargeError, RecordRefusedError: Nothing is in the log.
            NoTransactionsError, AuthorizationError, TopicMissingError: As they say.
            LogBlockedError: Somebody's transaction is undecided; nothing is in the log.
            AppendAbortedError: It was given up, and is not in the log.
            AppendInDoubtError: It was given up, and may be in the log. Send it again, under the id
                that the error has.
        """
        check_size(records, self.place)
        given: object = append_id
        if not isinstance(given, bytes) or len(given) not in (0, APPEND_ID_BYTES):
            size = (
                f"has {counted(len(given), 'byte')}"
                if isinstance(given, bytes)
                else f"is {shown(given)}"
            )
            raise MisuseError(
                "append()",
                f"append_id {size}",
                f"Give {APPEND_ID_BYTES}, such as os.urandom({APPEND_ID_BYTES})",
            )
        wait_s = seconds("append()", timeout_s)
        if wait_s is None:
            raise MisuseError("append()", "timeout_s is None", "Give a number of seconds")
        offset = self._checked(expected).offset
        with self._used():
            appender = self._appender
            end = appender.append(records, offset, append_id or new_append_id(), timeout_s=wait_s)
            if end is AppendEnd.APPENDED:
                return expected.at(appender.appended)
            if end is AppendEnd.CONFLICT:
                return Conflict(expected, expected.at(appender.found))
            raise self._ahead(offset, self._log.end())

    def bulk_load(self, records: Iterable[NewRecord], *, begin: int | None = None) -> BulkLoaded:
        """Append a long list of records, each once, however often the loader starts again.

        Args:
            records: All of the load, in an order that is the same at each start.
            begin: The number of the record to go on at (the first one is 0), if the log has lost
                its beginning and has no record of this load. Not used otherwise.

        Raises:
            BulkLoadConflictError: Somebody else has appended meanwhile, such as a second loader.
            LogConflictError: The log has lost its beginning and has no record of this load, and
                there is no `begin`.
            MisuseError: The records are others than those that are in the log. The topic is
                compacted.
            CoopConsumerError: As `append`. To go on, start it again.
        """
        self._check_open()
        if not isinstance(records, Iterable):
            raise MisuseError(
                "bulk_load()", f"{shown(records)} is no list of records", "Give it NewRecords"
            )
        if begin is not None and whole("bulk_load()", begin, "number of a record") < 0:
            raise MisuseError("bulk_load()", f"begin={begin}", "Give a number of 0 or above")
        with self._used():
            self._check_kept()
            return bulk_load(self, records, begin)

    def _check_kept(self) -> None:
        """See that the topic keeps the last record of a load; trust it if nothing is told."""
        topic = self.place[0]
        if "compact" in self._log.topics.settings_of(topic).get("cleanup.policy", ""):
            raise MisuseError(
                "bulk_load()",
                f"{topic} is compacted: the last record of a load may go, and tells where to go on",
                f"Set cleanup.policy=delete on {topic}, or write another topic",
                "Nothing was appended",
            )

    def take_over(self) -> None:
        """End what a predecessor of the name has open, or wait until it is committed.

        Raises:
            NoTransactionsError, AuthorizationError, ConfigError: As they say.
            AppendAbortedError: Brokers do not answer.
        """
        with self._used():
            self._appender.take_over()

    def last_tagged(self, header: str) -> tuple[LogToken, Iterator[TaggedRecord]]:
        """The token now, and visible records from the last one backwards, with a header each."""
        with self._used():
            return self._log.backwards(header)

    def first_offset(self) -> int:
        """Of the first record that the log still has.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        with self._used():
            return self._log.read(self._log.end()).first_offset

    @contextmanager
    def _used(self) -> Iterator[None]:
        """See that it is open, and that no other thread is in a call: its clients serve one."""
        self._check_open()
        if not self._in_use.acquire(blocking=False):
            raise MisuseError(
                f"conditional producer {self.name}",
                "another thread is in a call of it",
                "Make one for each thread, with names of their own",
            )
        try:
            yield
        finally:
            self._in_use.release()

    def _ahead(self, offset: int, end: int) -> CoopConsumerError:
        """The error of a token that names an offset beyond the end."""
        self._log.check_topic()
        return LogTokenError(*self.place, f"names offset {offset}, and the log ends at {end}")

    def _check_open(self) -> None:
        if self._is_closed:
            raise MisuseError(f"conditional producer {self.name}", "it is closed", "Make a new one")

    def _checked(self, token: LogToken) -> LogToken:
        self._check_open()
        instance("a token", token, LogToken)
        whole("a token", token.offset, "offset")
        empty = self._log.empty()
        if token.topic_id != empty.topic_id:
            self._log.check_topic()
            given: object = token.topic_id
            told = given.hex() if isinstance(given, bytes) else shown(given)
            problem = f"is of another topic (its id is {told})"
        elif token.partition != empty.partition:
            problem = f"is of partition {token.partition}"
        elif token.offset < -1:
            problem = f"names offset {token.offset}"
        else:
            return token
        raise LogTokenError(*self.place, problem)

    def close(self) -> None:
        """Close the clients."""
        if self._is_fork or self._is_closed:
            return
        with self._used():
            self._is_closed = True
            self._log.close()

    def __enter__(self) -> Self:
        """Return the producer: it is ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
