"""Looks at a group from outside: what status, reset and decisions need from the broker.

In: a configuration, whose `group.id` names the group. Out: a `GroupSeen`, offsets, and the two
writes of the command line (a base record with its tagged commit; a decision). It never joins the
group. It reads the group's partitions of the progress log to their ends, as a member does before
it starts, and of the data topics only the records that status names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as Place
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from assignors import WHOLE, TopicPartition
from coop_consumer.config import Config
from coop_consumer.core.events import LogRead
from coop_consumer.core.placement import log_partition_of
from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    TopicMissingError,
)
from coop_consumer.kafka.fetcher import waiting_messages
from coop_consumer.kafka.progress_log import ProgressReader
from coop_consumer.kafka.topics import EARLIEST, LATEST, TopicFacts, Topics
from coop_consumer.kafka.translate import translated
from coop_consumer.status.errors import GroupMissingError
from coop_consumer.status.model import progress_of
from coop_consumer.status.seen import (
    GroupSeen,
    Hashing,
    MemberSeen,
    PartitionSeen,
    RecordSeen,
    member_seen,
)
from offsets import ProgressStore

T = TypeVar("T")

_TIMEOUT_S = 10.0
_DEAD = "Dead"
_PAUSE_S = 0.1
_NO_ERROR = (0, kafka_errors.GroupIdNotFoundError.errno)
_LOADING = (
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.NotCoordinatorError,
)
_RECORDS_TIMEOUT_S = 3.0
_FAILED_READ_MAX = 20
_FETCH_BYTES = 65_536
_SCANNED_MAX = 2_000
"""Records looked at to find the one that holds a stable offset, for each partition."""


@dataclass(frozen=True, slots=True)
class Described:
    """A group as its coordinator describes it."""

    state: str
    protocol: str
    members: tuple[MemberSeen, ...]

    @property
    def exists(self) -> bool:
        """Whether the coordinator knows the group."""
        return self.state != _DEAD


class Inspector:
    """Sees one group, as often as asked. Use it as a context; one thread.

    Args:
        config: The configuration of a member of that group.

    Raises:
        BrokerUnreachableError: If no broker answers.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.topics = Topics(config)
        self.topics.check_broker()
        self._log: _LogView | None = None

    def __enter__(self) -> Self:
        """Nothing more to do."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close what reads the progress log."""
        if self._log is not None:
            self._log.close()

    # ---- the group -----------------------------------------------------------------------------

    def see(self, topics: Iterable[str] = ()) -> GroupSeen:
        """The group now: some 50 to 500 ms, and the reading of what is new in its log.

        Args:
            topics: Topics to look at besides those it subscribes to or has committed.

        Raises:
            GroupMissingError: If nobody knows the group.
            TopicMissingError: If one of `topics` does not exist.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        described, committed = self.described(), self.committed()
        if not (described.exists or committed or topics):
            raise GroupMissingError(self.config.group_id)
        facts = self._facts(described, committed, frozenset(topics))
        places = [TopicPartition(t, p) for t, f in facts.items() for p in range(f.partitions)]
        begins = self.topics.offsets(places, EARLIEST)
        ends = self.topics.offsets(places, LATEST)
        log = self._log_view()
        stores = log.stores(places)
        partitions = [
            PartitionSeen(
                tp=tp,
                topic_id=facts[tp.topic].id,
                begin=begins[tp],
                end=ends[tp],
                committed=committed.get(tp),
                store=stores[tp].partition(facts[tp.topic].id, tp.partition),
            )
            for tp in places
        ]
        hashing = Hashing(self.config.ordering.value, self.config.ordering_block_size).agreed_by(
            described.members
        )
        return GroupSeen(
            group=self.config.group_id,
            state=described.state,
            protocol=described.protocol,
            members=described.members,
            partitions=self._with_records(partitions, hashing),
            unreadable=log.unreadable(),
            at_ms=time.time_ns() // 1_000_000,
        )

    def described(self) -> Described:
        """The group's state and members, with what our own members tell of themselves.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        group = self.config.group_id
        with _describing(self.config) as admin:
            found = _when_loaded(lambda: admin.describe_groups([group])[group])
        described = Described(
            found.group_state, found.protocol_data, tuple(map(_member, found.members))
        )
        return described if described.exists else self._strangers()

    def _strangers(self) -> Described:
        """A group that is not of the classic protocol, or none: all its members are plain ones.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        group = self.config.group_id
        [future] = self.topics.admin.describe_consumer_groups([group]).values()
        try:
            found = future.result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return Described(_DEAD, "", ())
            raise translated(error.args[0], f"group {group}") from error
        members = tuple(
            MemberSeen(
                name=member.member_id,
                host=str(member.host).lstrip("/"),
                ranges={
                    TopicPartition(place.topic, place.partition): (WHOLE,)
                    for place in member.assignment.topic_partitions
                },
            )
            for member in found.members
        )
        return Described(found.state.name.capitalize(), found.partition_assignor, members)

    def broker_version(self) -> str:
        """Kafka's version as far as its protocol tells, such as "4.3".

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        with _describing(self.config) as admin:
            return ".".join(map(str, admin.broker_version()))

    def committed(self) -> dict[TopicPartition, tuple[int, str]]:
        """The group's committed offsets in Kafka's own store, with their metadata.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        group = self.config.group_id
        asked = [ConsumerGroupTopicPartitions(group)]
        [future] = self.topics.admin.list_consumer_group_offsets(asked).values()
        try:
            found = future.result(_TIMEOUT_S).topic_partitions
        except KafkaException as error:
            raise translated(error.args[0], f"group {group}") from error
        return {
            TopicPartition(place.topic, place.partition): (place.offset, place.metadata or "")
            for place in found
            if place.offset >= 0
        }

    def _facts(
        self,
        described: Described,
        committed: Iterable[TopicPartition],
        asked: frozenset[str],
    ) -> dict[str, TopicFacts]:
        """Ids and partition counts; a topic that the group knows and that is gone is left out."""
        known = {tp.topic for tp in committed}
        known |= {topic for member in described.members for topic in member.topics}
        facts = self.topics.describe(sorted(asked))
        for topic in sorted(known - asked):
            try:
                facts |= self.topics.describe([topic])
            except TopicMissingError:
                continue
        return dict(sorted(facts.items()))

    # ---- the progress log ----------------------------------------------------------------------

    def log_partitions(self) -> int:
        """How many partitions the progress topic has; 0: there is none."""
        name = self.config.progress_topic
        try:
            return self.topics.describe([name])[name].partitions
        except TopicMissingError:
            return 0

    def _log_view(self) -> _LogView:
        if self._log is None or self._log.partitions == 0:
            self._log = _LogView(self.config, self.log_partitions())
        return self._log

    # ---- records -------------------------------------------------------------------------------

    def _with_records(
        self, partitions: Sequence[PartitionSeen], hashing: Hashing
    ) -> tuple[PartitionSeen, ...]:
        """Read what is worth a look: failed records, and the one that holds the stable offset."""
        progress = {seen.tp: progress_of(seen) for seen in partitions}
        behind = {
            seen.tp: (known, max(known.stable, seen.begin))
            for seen in partitions
            if (known := progress[seen.tp]) is not None and known.stable < seen.end
        }
        if not behind:
            return tuple(partitions)
        with _RecordReader(self.config, hashing) as reader:
            found = reader.first(
                {tp: offset for tp, (_, offset) in behind.items()},
                lambda tp, record: not behind[tp][0].is_done(record.key_hash, record.offset),
            )
            failed = {
                seen.tp: sorted(seen.store.attempts())[:_FAILED_READ_MAX]
                for seen in partitions
                if seen.tp in behind
            }
            read = reader.at(failed)
        records = {tp: {record.offset: record} for tp, record in found.items()}
        for tp, more in read.items():
            records[tp] = records.get(tp, {}) | more
        return tuple(replace(seen, records=records.get(seen.tp, {})) for seen in partitions)


class _LogView:
    """The group's share of the progress log, folded; each look reads what is new."""

    def __init__(self, config: Config, partitions: int) -> None:
        self.partitions = partitions
        self._config = config
        self._stores: dict[int, ProgressStore] = {}
        self._heard: SimpleQueue[LogRead] = SimpleQueue()
        self._reads = 0
        self._reader = (
            ProgressReader(
                config.progress_reader(),
                config.progress_topic,
                self._heard.put,
                name="coop-inspect",
            )
            if partitions
            else None
        )

    def stores(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, ProgressStore]:
        """For each data partition the store that holds its history, read to the log's end.

        Raises:
            BrokerUnreachableError: If the log cannot be read to its end in time.
        """
        group = self._config.group_id
        numbers = {
            tp: log_partition_of(group, tp.topic, tp.partition, self.partitions or 1)
            for tp in places
        }
        self._read(set(numbers.values()))
        return {tp: self._store(number) for tp, number in numbers.items()}

    def unreadable(self) -> dict[str, int]:
        """Records that could not be read, by reason."""
        found: dict[str, int] = {}
        for store in self._stores.values():
            for reason, count in store.unreadable.items():
                found[reason] = found.get(reason, 0) + count
        return found

    def close(self) -> None:
        """End the reader's thread."""
        if self._reader is not None:
            self._reader.close()

    def _store(self, number: int) -> ProgressStore:
        return self._stores.setdefault(number, ProgressStore(self._config.group_id))

    def _read(self, numbers: set[int]) -> None:
        if self._reader is None:
            return
        self._reads += 1
        for number in sorted(numbers):
            self._reader.read(number, self._reads)
        while numbers:
            try:
                read = self._heard.get(timeout=_TIMEOUT_S)
            except Empty:
                raise BrokerUnreachableError(
                    self._config.bootstrap_servers,
                    f"{self._config.progress_topic} not read to its end in {_TIMEOUT_S:g} s",
                ) from None
            if read.restart:
                self._stores.pop(read.log_partition, None)
            store = self._store(read.log_partition)
            for record in read.records:
                store.apply(record)
            if read.complete >= self._reads:
                numbers.discard(read.log_partition)


class _RecordReader:
    """Reads single records of data topics, of many partitions at a time."""

    def __init__(self, config: Config, hashing: Hashing) -> None:
        settings = {
            "log_level": 2,
            "max.partition.fetch.bytes": _FETCH_BYTES,
            # The broker holds back an empty answer so long, and only that one tells the end.
            "fetch.wait.max.ms": 50,
        }
        self._consumer = Consumer({**config.data_plane(), **settings})
        self._hashing = hashing

    def __enter__(self) -> Self:
        """Nothing more to do."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the consumer."""
        self._consumer.close()

    def at(
        self, wanted: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, dict[int, RecordSeen]]:
        """The records at these offsets, as far as they are there; one of each partition a round."""
        found: dict[TopicPartition, dict[int, RecordSeen]] = {}
        for i in range(max(map(len, wanted.values()), default=0)):
            starts = {tp: offsets[i] for tp, offsets in wanted.items() if i < len(offsets)}
            for tp, record in self.first(starts, lambda *_: True).items():
                if record.offset == starts[tp]:
                    found.setdefault(tp, {})[record.offset] = record
        return found

    def first(
        self,
        starts: Mapping[TopicPartition, int],
        accept: Callable[[TopicPartition, RecordSeen], bool],
    ) -> dict[TopicPartition, RecordSeen]:
        """For each partition its first record from an offset on that is accepted.

        Without one where the partition ends before, where too many were looked at, or where it
        takes too long: a status is worth no more.
        """
        places = [Place(tp.topic, tp.partition, offset) for tp, offset in starts.items()]
        self._consumer.assign(places)
        left = dict.fromkeys(starts, _SCANNED_MAX)
        found: dict[TopicPartition, RecordSeen] = {}
        deadline = time.monotonic() + _RECORDS_TIMEOUT_S
        while left and time.monotonic() < deadline:
            for message in waiting_messages(self._consumer, 500, 0.1):
                tp = TopicPartition(message.topic() or "", message.partition() or 0)
                if tp not in left:
                    continue
                left[tp] -= 1
                # An error is the partition's end, or nothing to be had at this offset.
                record = None if message.error() is not None else self._seen(tp, message)
                if record is not None and accept(tp, record):
                    found[tp] = record
                if record is None or tp in found or not left[tp]:
                    del left[tp]
        return found

    def _seen(self, tp: TopicPartition, message: Message) -> RecordSeen:
        offset, key, (kind, timestamp_ms) = message.offset(), message.key(), message.timestamp()
        assert offset is not None, "a message without an offset"
        raw = None if key is None else bytes(key)
        key_hash = self._hashing.place(tp.partition, offset, raw)
        return RecordSeen(offset, raw, key_hash, timestamp_ms if kind else -1)


class _Describer(KafkaAdminClient):  # type: ignore[misc] # kafka-python ships no types
    """kafka-python's admin client, handing out a group as the coordinator sent it.

    Confluent's client drops the members' user data, and kafka-python's own answer makes text of it,
    in which bytes that are not UTF-8 cannot be told from their escapes.
    """

    def broker_version(self) -> tuple[int, ...]:
        """The version whose set of requests the broker offers."""
        found: tuple[int, ...] = self._manager.broker_version
        return found

    def _describe_groups_process_response(self, response: Any) -> dict[str, Any]:
        for group in response.groups:
            if group.error_code not in _NO_ERROR:
                raise kafka_errors.for_code(group.error_code)
        return {group.group_id: group for group in response.groups}


def _when_loaded(ask: Callable[[], T]) -> T:
    """Ask until the group's coordinator is there: after its start a broker takes a moment."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            return ask()
        except _LOADING:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)


@contextmanager
def _describing(config: Config) -> Iterator[_Describer]:
    """A client to describe groups with, its errors in our words."""
    keywords = {
        name: value
        for name, value in config.membership().items()
        if name in KafkaAdminClient.DEFAULT_CONFIG
    }
    where = f"group {config.group_id}"
    try:
        admin = _Describer(**keywords)
        try:
            yield admin
        finally:
            admin.close()
    except (kafka_errors.AuthorizationError, kafka_errors.SaslAuthenticationFailedError) as error:
        login = isinstance(error, kafka_errors.SaslAuthenticationFailedError)
        user = str(dict(config.passed).get("sasl.username", ""))
        raise AuthorizationError(where, "authenticate" if login else "describe", user) from error
    except kafka_errors.KafkaError as error:
        raise BrokerUnreachableError(config.bootstrap_servers, str(error)) from error


def _member(found: Any) -> MemberSeen:
    told = _decoded(ConsumerProtocolSubscription, found.member_metadata)
    planned = _decoded(ConsumerProtocolAssignment, found.member_assignment)
    return member_seen(
        found.member_id,
        str(found.client_host).lstrip("/"),
        topics=told.topics if told else (),
        subscription=bytes(told.user_data or b"") if told else b"",
        assignment=bytes(planned.user_data or b"") if planned else b"",
        partitions=[
            TopicPartition(topic.topic, number)
            for topic in (planned.assigned_partitions if planned else ())
            for number in topic.partitions
        ],
    )


def _decoded(kind: Any, data: Any) -> Any:
    """A message of the consumer protocol, or None where there is none or it cannot be read."""
    try:
        return kind.decode(bytes(data)) if data else None
    except Exception:  # noqa: BLE001 - whatever a stranger's bytes make of a decoder
        return None
