"""Topics as the broker describes them.

In: a configuration. Out: ids and partition counts of topics, their settings, offsets by time; or an
error that says what is missing and what to do. Blocking calls for start-up and the command line,
futures for a running member. `own_topics` creates and checks our own topics.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import ClusterMetadata, TopicDescription
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from assignors import TopicPartition
from coop_consumer.config import TopicChoice, sendable
from coop_consumer.config.setting import shown
from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    ConfigError,
    CoopConsumerError,
    TopicMissingError,
    UnexpectedAnswerError,
)
from coop_consumer.kafka.admin_calls import (
    AGREE_WITHIN_S,
    KNOWN_WITHIN_S,
    OFFSETS_TOPIC,
    AdminCalls,
)
from coop_consumer.kafka.own_topics import progress_topic

_EXISTS = KafkaError.TOPIC_ALREADY_EXISTS

EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # confluent types it not
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # confluent types it not


def at_time(time_ms: int) -> OffsetSpec:
    """The first record of a time (Unix ms) or later; of any record, if that is before 1970.

    A request for -1 asks for the end, and one for -2 for the beginning.
    """
    found: OffsetSpec = OffsetSpec.for_timestamp(max(time_ms, 0))
    return found


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic's facts for a member.

    Attributes:
        id: 16 bytes.
        partitions: Their number.
        replication: Copies of its least copied partition.
        message_max_bytes: Its `max.message.bytes`; 0: not asked, or not visible.
    """

    id: bytes
    partitions: int
    replication: int = 1
    message_max_bytes: int = 0


TopicsSeen = Callable[[dict[str, TopicFacts | None] | CoopConsumerError], None]
"""Takes what a look at topics has found, or why it has failed."""


class Topics(AdminCalls):
    """Topics, their offsets and their settings, asked and changed. Thread-safe."""

    def describe(
        self,
        names: Iterable[str],
        *,
        patience_s: float = AGREE_WITHIN_S,
        verb: Literal["consumed", "written", "done"] = "consumed",
    ) -> dict[str, TopicFacts]:
        """Ids and partition counts of topics.

        Args:
            names: The topics.
            patience_s: How long to ask for a topic that does not exist, because it may be new.
            verb: What cannot be done with a missing topic, or without a right, for the error.

        Raises:
            TopicMissingError: For the first topic that does not exist.
            ConfigError: For the first name that no topic can have; nothing is asked.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        wanted = list(names)
        for name in wanted:
            if not sendable(name):  # no client could send it
                raise ConfigError(
                    "topics", f"={shown(name)} is no topic's name", "Correct the topic's name"
                )

        def ask() -> dict[str, TopicFacts]:
            asked = self.admin.describe_topics(TopicCollection(wanted))
            return {
                name: _facts(self._answer(future, f"topic {name}"))
                for name, future in asked.items()
            }

        try:
            found = self._until_known(ask, patience_s)
        except TopicMissingError as error:
            error.verb = verb
            raise
        except AuthorizationError as error:
            if verb == "written" and error.operation == "read":
                error.operation = "write"  # it implies "describe", which is missing
            raise
        self._seen_s |= dict.fromkeys(found, time.monotonic())
        return found

    def find(self, name: str) -> TopicFacts | None:
        """A topic's facts; None if it does not exist.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        try:
            return self.describe([name], patience_s=0)[name]
        except TopicMissingError:
            return None

    def chosen(self, choice: TopicChoice) -> dict[str, TopicFacts]:
        """The topics of a choice: each that is named, and those that match a pattern now.

        Raises:
            TopicMissingError: For the first named topic that does not exist.
            ConfigError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        found = self.describe(choice.named) if choice.named else {}
        if choice.patterns:
            found |= self._existing(choice.among(self.names()) - choice.named)
        return found

    def ends_later(
        self,
        partitions: Collection[TopicPartition],
        done: Callable[[dict[TopicPartition, int]], None],
        *,
        committed: bool,
    ) -> None:
        """The present ends of partitions; a partition is left out if its end is not known.

        `done` is called once, on a client thread. `committed`: up to the last stable offset only.
        """
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {Place(tp.topic, tp.partition): LATEST for tp in partitions}
        found: dict[TopicPartition, int] = {}
        left = set(partitions)
        if not left:
            done(found)
            return

        def told(tp: TopicPartition, future: Future[Any]) -> None:  # one after the other
            if future.exception() is None:
                found[tp] = future.result().offset
            left.discard(tp)
            if not left:
                done(found)

        futures = self.admin.list_offsets(
            asked, isolation_level=level, request_timeout=self.timeout_s
        )
        for place, future in futures.items():
            future.add_done_callback(partial(told, TopicPartition(place.topic, place.partition)))

    def look_later(self, names: Collection[str], choice: TopicChoice, done: TopicsSeen) -> None:
        """Describe these topics (None: the topic does not exist), and what matches a pattern.

        `done` is called once, on another thread; with the error if one topic is not visible.
        """
        if not choice.patterns:
            self._look_later(names, done)
            return

        def look() -> None:
            try:
                matching = choice.among(self.names())
            except CoopConsumerError as error:
                done(error)
            except Exception as error:  # noqa: BLE001 - else nobody would ever look again
                done(UnexpectedAnswerError("the list of topics", str(error)))
            else:
                self._look_later({*names, *matching}, done)

        # confluent-kafka has the list of topics only as a call that blocks.
        threading.Thread(target=look, name="coop-topics", daemon=True).start()

    def _look_later(self, names: Collection[str], done: TopicsSeen) -> None:
        found: dict[str, TopicFacts | None] = {}
        errors: list[CoopConsumerError] = []
        asked = self.admin.describe_topics(
            TopicCollection(sorted(names)), request_timeout=self.timeout_s
        )

        def told(name: str, future: Future[Any]) -> None:  # one after the other, on one thread
            error = future.exception()
            if error is None:
                found[name] = _facts(future.result())
            else:
                found[name] = None
                reason = self._translated(error, f"topic {name}")
                if not isinstance(reason, TopicMissingError):
                    errors.append(reason)
            if len(found) == len(asked):
                done(errors[0] if errors else found)

        for name, future in asked.items():
            future.add_done_callback(partial(told, name))

    # ---- our own topics ------------------------------------------------------------------------

    def progress_topic(self, *, mend: bool = False) -> TopicFacts:
        """The progress topic, created if missing; see `own_topics.progress_topic`."""
        return progress_topic(self, self._config, mend=mend)

    def create(
        self, name: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> KafkaError | None:
        """Create a topic; returns the error if it was refused. An existing topic is no error.

        Args:
            name: Its name.
            partitions: Their number.
            replication: Copies; -1: the brokers' default.
            settings: Its own settings.

        Raises:
            BrokerUnreachableError: No broker answered.
        """
        new = NewTopic(name, partitions, replication, config=dict(settings))
        return self._made(name, self.admin.create_topics([new])[name], _EXISTS)

    def grow(self, name: str, partitions: int) -> KafkaError | None:
        """Raise a topic's number of partitions; returns the error if refused. May be repeated.

        Raises:
            BrokerUnreachableError: No broker answered.
        """
        asked = self.admin.create_partitions([NewPartitions(name, partitions)])[name]
        return self._made(name, asked, KafkaError.INVALID_PARTITIONS)

    def _made(self, name: str, asked: Future[Any], done_before: int) -> KafkaError | None:
        try:
            asked.result(self.timeout_s)
        except KafkaException as error:
            refused: KafkaError = error.args[0]
            if refused.code() != done_before:
                return refused
        except TimeoutError as error:
            raise self._unreachable(f"topic {name}: not made in {self.timeout_s:g} s") from error
        self._seen_s[name] = time.monotonic()
        return None

    def change(self, name: str, settings: Mapping[str, str]) -> None:
        """Set settings of a topic.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        changes = [
            ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
            for setting, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)

        def alter() -> None:
            [changed] = self.admin.incremental_alter_configs([resource]).values()
            self._answer(changed, f"topic {name}")

        self._until_known(alter)

    def once_made(self, name: str, partitions: int = 1) -> TopicFacts:
        """A topic just created, or given partitions, once a broker knows of it.

        It takes 10 ms, on a busy broker a second.
        """
        deadline_s = time.monotonic() + KNOWN_WITHIN_S
        while True:
            facts = self.describe([name])[name]
            if facts.partitions >= partitions or time.monotonic() > deadline_s:
                return facts
            time.sleep(self.again_s)

    def offsets_topic(self) -> TopicFacts | None:
        """Kafka's own offsets topic, a model for our progress topic; None before it exists."""
        try:
            return self.find(OFFSETS_TOPIC)
        except Exception as error:
            if isinstance(error, BrokerUnreachableError):
                raise
            return None

    def settings_of(self, name: str) -> dict[str, str]:
        """The topic's settings by name; empty if we may not see them."""
        resource = ConfigResource(ResourceType.TOPIC, name)

        def ask() -> dict[str, ConfigEntry]:
            asked = self.admin.describe_configs([resource])[resource]
            found: dict[str, ConfigEntry] = self._answer(asked, f"topic {name}")
            return found

        try:
            found = self._until_known(ask)
        except AuthorizationError:
            return {}
        return {key: entry.value for key, entry in found.items() if entry.value is not None}

    def resolve_later(
        self, tp: TopicPartition, policy: str, done: Callable[[int | Exception], None]
    ) -> None:
        """The offset of "earliest" or "latest"; `done` is called on a client thread."""
        spec = EARLIEST if policy == "earliest" else LATEST
        for future in self.admin.list_offsets({Place(tp.topic, tp.partition): spec}).values():

            def told(future: Any) -> None:
                error = future.exception()
                done(error if error is not None else future.result().offset)

            future.add_done_callback(told)

    def names_that_begin(self, prefix: str) -> list[str]:
        """The topics whose names begin so, as far as this user may see them.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        return sorted(name for name in self._cluster("").topics if name.startswith(prefix))

    def names(self) -> list[str]:
        """All topics that this user may see, but Kafka's own.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        found = self._cluster("").topics
        return sorted(name for name in found if not name.startswith("__"))

    def brokers(self) -> int:
        """How many brokers there are.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        return len(self._cluster(OFFSETS_TOPIC).brokers)

    def _cluster(self, topic: str) -> ClusterMetadata:
        """A broker's view of the cluster, and of this topic; "": of all topics."""
        try:
            return self.admin.list_topics(topic or None, timeout=self.timeout_s)
        except KafkaException as error:
            where = f"topic {topic}" if topic else "the list of topics"
            raise self._reason(error, where) from error

    def allowed(self, name: str) -> list[str]:
        """The operations that this user may do on a topic, from the broker.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        asked = TopicCollection([name])
        [future] = self.admin.describe_topics(asked, include_authorized_operations=True).values()
        found: TopicDescription = self._answer(future, f"topic {name}")
        return [operation.name for operation in found.authorized_operations]

    def readable(self, names: Collection[str]) -> dict[str, TopicFacts | None]:
        """Which of these topics this user may read, all asked at once.

        Args:
            names: The topics; one that does not exist is left out.

        Returns:
            The facts of a topic; None: it may be seen, and not read.

        Raises:
            AuthorizationError: One may not be seen.
            BrokerUnreachableError: No broker answered.
        """
        if not names:
            return {}
        asked = TopicCollection(sorted(names))
        answers = self.admin.describe_topics(asked, include_authorized_operations=True)
        found: dict[str, TopicFacts | None] = {}
        for name, future in answers.items():
            with suppress(TopicMissingError):
                described: TopicDescription = self._answer(future, f"topic {name}")
                allowed = {it.name for it in described.authorized_operations}
                may_read = not allowed or bool({"READ", "ALL"} & allowed)
                found[name] = _facts(described) if may_read else None
        return found

    def check_right(self, name: str, right: Literal["READ", "WRITE"]) -> None:
        """See that this user has a right on a topic, as far as the broker says. Blocks.

        Clients say it late: an empty partition can be read without the right, and what a
        transactional Producer may not write waits until its time-out.

        Raises:
            AuthorizationError: The user has not, or may not describe the topic.
            TopicMissingError, BrokerUnreachableError: As they say.
        """
        allowed = self.allowed(name)
        if allowed and not {right, "ALL"} & set(allowed):
            raise AuthorizationError(f"topic {name}", right.lower(), self._config.user)

    def is_unfit(self, name: str) -> bool:
        """Whether brokers say now that a topic is missing, or that this user may not write to it.

        Blocks.
        """
        try:
            self.check_right(name, "WRITE")
        except (AuthorizationError, TopicMissingError):
            return True
        except CoopConsumerError:
            return False
        return False

    def by_ids(self, ids: Collection[bytes]) -> dict[str, TopicFacts]:
        """The topics with these ids, as far as this user may see them; others are left out.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        found = self._existing(self.names() if ids else [])
        return {name: facts for name, facts in found.items() if facts.id in ids}

    def _existing(self, names: Collection[str]) -> dict[str, TopicFacts]:
        """Those of these topics that still exist since they were listed."""
        asked = self.admin.describe_topics(TopicCollection(sorted(names))) if names else {}
        found = {}
        for name, future in asked.items():
            with suppress(AuthorizationError, TopicMissingError):
                found[name] = _facts(self._answer(future, f"topic {name}"))
        return found

    def offsets(
        self, partitions: Iterable[TopicPartition], spec: Any, *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Offsets by an `OffsetSpec`, blocking.

        Args:
            partitions: Of which.
            spec: `EARLIEST`, `LATEST`, or `at_time()`; -1 then: none so young.
            committed: The latest is the last stable offset, as readers of transactions see it.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        found = self._list_offsets(partitions, spec, isolation_level=level)
        return {tp: answer.offset for tp, answer in found.items()}

    def _list_offsets(
        self, partitions: Iterable[TopicPartition], spec: Any, **options: Any
    ) -> dict[TopicPartition, Any]:
        asked = {Place(tp.topic, tp.partition): spec for tp in partitions}

        def ask() -> dict[TopicPartition, Any]:
            told = self.admin.list_offsets(asked, **options) if asked else {}
            return {
                TopicPartition(place.topic, place.partition): self._answer(
                    future, f"topic {place.topic}"
                )
                for place, future in told.items()
            }

        return self._until_known(ask)

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The epochs of the leaders who wrote the newest records; -1: unknown. Blocking.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        found = self._list_offsets(partitions, LATEST)
        epochs = {tp: answer.leader_epoch for tp, answer in found.items()}
        return {tp: -1 if epoch is None else epoch for tp, epoch in epochs.items()}


def _facts(description: Any) -> TopicFacts:
    topic_id = description.topic_id
    high, low = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
    bits = ((high & (2**64 - 1)) << 64) | (low & (2**64 - 1))
    partitions = description.partitions
    replication = min((len(p.replicas) for p in partitions), default=1)
    return TopicFacts(bits.to_bytes(16, "big"), len(partitions), replication)
