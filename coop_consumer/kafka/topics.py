"""Topics as the broker describes them, and the progress topic made and checked.

In: a configuration. Out: ids and partition counts of the data topics, the progress topic's facts,
offsets by time; or an error that says what is missing and what to do. Blocking calls for start-up
and the command line, futures for a running member.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    ChangelogError,
    CoopConsumerError,
    ProgressTopicError,
    TopicMissingError,
    UnexpectedAnswerError,
)
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.translate import translated

log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_KNOWN_AGAIN_S = 0.02
_CRITICAL = 2
_PROBE_S = 1.0
_OFFSETS_TOPIC = "__consumer_offsets"
_PARTITIONS_DEFAULT = 50
_RETENTION_MS = 60_000
CHANGELOG_KEEPS_MS = 86_400_000
"""So long a changelog that we make tells of a deletion; it is Kafka's own default."""

EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # confluent types it not
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call] # confluent types it not


def at_time(time_ms: int) -> OffsetSpec:
    """The first record of a time (Unix ms) or later."""
    found: OffsetSpec = OffsetSpec.for_timestamp(time_ms)
    return found


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a member needs to know of a topic: its id (16 bytes) and number of partitions."""

    id: bytes
    partitions: int
    replication: int = 1


class Topics:
    """An AdminClient that speaks our words. Thread-safe.

    Args:
        config: The member's configuration.

    Raises:
        ConfigError: For a setting that librdkafka refuses.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        with making(config):
            self._admin = self._former = self._new_admin()
        self._in_doubt = False

    def _new_admin(self) -> AdminClient:
        # What fails is an error of the call that failed; librdkafka would also print it, 20 times a
        # second while no broker answers.
        return AdminClient({"log_level": _CRITICAL, **self._config.admin()})

    @property
    def admin(self) -> AdminClient:
        """The client; a new one after no broker was reached, see `clients.successor`."""
        if self._in_doubt:
            self._in_doubt = False
            self._former, self._admin = self._admin, self._new_admin()  # answers may be under way
        return self._admin

    def check_broker(self, timeout_s: float = _TIMEOUT_S) -> None:
        """Ask for metadata. A broker that does not answer is told within 2 s, and tried further.

        Raises:
            BrokerUnreachableError: If no broker answered in time.
            AuthorizationError: If the login was refused.
        """
        refusals: list[KafkaError] = []
        # A refused login is no error of any call, only a callback of whoever polls. The running
        # client is not polled, so some of our own ask: another one each time, see `successor`.
        settings = {"log_level": _CRITICAL, "error_cb": refusals.append, **self._config.admin()}
        where = f"cluster {self._config.bootstrap_servers}"
        deadline, told = time.monotonic() + timeout_s, False
        while True:
            left_s = deadline - time.monotonic()
            probe = AdminClient(settings)
            try:
                probe.list_topics(_OFFSETS_TOPIC, timeout=min(max(left_s, 0.1), _PROBE_S))
            except KafkaException as error:
                probe.poll(0)
                for refusal in refusals:
                    if refusal.code() == KafkaError._AUTHENTICATION:
                        raise self._reason(KafkaException(refusal), where) from error
                detail = _told_by(refusals) or error.args[0].str()
                if left_s <= 0:
                    raise self._reason(error, where, detail) from error
                if not told and deadline - time.monotonic() >= _PROBE_S:
                    told = True
                    log.warning("%s: no answer yet (%s); tried for %g s", where, detail, timeout_s)
            else:
                return

    def _translated(self, error: BaseException, where: str) -> CoopConsumerError:
        if not isinstance(error, KafkaException):
            return UnexpectedAnswerError(where, str(error))
        user = str(dict(self._config.passed).get("sasl.username", ""))
        found = translated(error.args[0], where, user, "read")  # which implies: describe
        if isinstance(found, BrokerUnreachableError):
            self._in_doubt = True
        return found

    def _reason(self, error: KafkaException, where: str, detail: str = "") -> CoopConsumerError:
        found = self._translated(error, where)
        if isinstance(found, BrokerUnreachableError):
            return self._unreachable(detail or found.detail)
        return found

    def _unreachable(self, detail: str) -> BrokerUnreachableError:
        return BrokerUnreachableError(self._config.bootstrap_servers, detail)

    def _answer(self, future: Future[Any], where: str) -> Any:
        """What the broker answers in time, or an error in our words."""
        try:
            return future.result(_TIMEOUT_S)
        except KafkaException as error:
            raise self._reason(error, where) from error
        except TimeoutError as error:  # librdkafka itself waits longer: for a broker that is mute
            self._in_doubt = True
            raise self._unreachable(f"{where}: silent for {_TIMEOUT_S:g} s") from error

    def describe(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        """Ids and partition counts of topics.

        Raises:
            TopicMissingError: For the first one that does not exist.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        asked = self.admin.describe_topics(TopicCollection(list(names)))
        return {
            name: _facts(self._answer(future, f"topic {name}")) for name, future in asked.items()
        }

    def ends_later(
        self,
        partitions: Collection[TopicPartition],
        done: Callable[[dict[TopicPartition, int]], None],
        *,
        committed: bool,
    ) -> None:
        """Where partitions end now; those whose end cannot be had are left out.

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

        futures = self.admin.list_offsets(asked, isolation_level=level, request_timeout=_TIMEOUT_S)
        for place, future in futures.items():
            future.add_done_callback(partial(told, TopicPartition(place.topic, place.partition)))

    def look_later(
        self,
        names: Collection[str],
        done: Callable[[dict[str, TopicFacts | None] | CoopConsumerError], None],
    ) -> None:
        """Look which of these topics exist (None: it does not) and how they are.

        `done` is called once, on a client thread; with the error if one topic cannot be seen.
        """
        found: dict[str, TopicFacts | None] = {}
        errors: list[CoopConsumerError] = []
        asked = self.admin.describe_topics(
            TopicCollection(sorted(names)), request_timeout=_TIMEOUT_S
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

    def progress_topic(self, *, mend: bool = False) -> TopicFacts:
        """The progress topic, made if need be, and fit for its purpose.

        Args:
            mend: It was lost while members ran, and a broker may have made it again by itself, for
                a producer: if we may make it, we may also make it fit.

        Raises:
            ProgressTopicError: If it is missing and may not be made, or is not compacted.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        name = self._config.progress_topic
        try:
            facts = self.describe([name])[name]
        except TopicMissingError:
            if not self._config.progress_topic_create:
                raise ProgressTopicError(
                    name,
                    "does not exist, and progress.topic.create=false",
                    "Create it (coop-consumer doctor prints the command), or allow its creation",
                ) from None
            self._create(name)
            facts = self._await(name)
        policy = self.settings_of(name).get("cleanup.policy", "")
        if "compact" not in policy and mend and self._config.progress_topic_create:
            policy = self._mend(name)
        if "compact" not in policy:
            raise ProgressTopicError(
                name,
                f"has cleanup.policy={policy}: its old records would be deleted, and progress lost",
                "Set cleanup.policy=compact on it",
            )
        if "delete" in policy:
            log.warning(
                "progress topic %s: has cleanup.policy=%s: what has rested for longer than its "
                "retention is deleted, and records behind a gap come again. Set it to compact.",
                name,
                policy,
            )
        return facts

    def _create(self, name: str) -> None:
        config = self._config
        partitions, replication = (
            config.progress_topic_partitions,
            (config.progress_topic_replication_factor),
        )
        like = self._offsets_topic()
        new = NewTopic(
            name,
            num_partitions=partitions or (like.partitions if like else _PARTITIONS_DEFAULT),
            replication_factor=replication or (like.replication if like else -1),
            config=progress_topic_settings(config),
        )
        try:
            self.admin.create_topics([new])[name].result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ProgressTopicError(
                    name,
                    f"does not exist and cannot be created ({error.args[0].str()})",
                    "Create it with the rights of an administrator; coop-consumer doctor prints "
                    "the command",
                ) from error
        except TimeoutError as error:
            raise self._unreachable(f"topic {name}: not created in {_TIMEOUT_S:g} s") from error

    def changelog(self, name: str, data: TopicFacts) -> TopicFacts:
        """The changelog of a data topic, made if need be, with a partition for each of its own.

        Raises:
            ChangelogError: If it is missing or too small and may not be changed, or is not
                compacted.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        config = self._config
        try:
            facts = self.describe([name])[name]
        except TopicMissingError:
            if not config.state_changelog_create:
                raise ChangelogError(
                    name,
                    "does not exist, and state.changelog.create=false",
                    f"Create it with cleanup.policy=compact and {data.partitions} partitions",
                ) from None
            replication = config.state_changelog_replication_factor or data.replication
            settings = {"cleanup.policy": "compact", "delete.retention.ms": str(CHANGELOG_KEEPS_MS)}
            new = NewTopic(name, data.partitions, replication, config=settings)
            asked = self.admin.create_topics([new])[name]
            self._changed(name, asked, KafkaError.TOPIC_ALREADY_EXISTS)
            facts = self._await(name)
        if facts.partitions < data.partitions:
            problem = f"has {facts.partitions} partitions, and its topic {data.partitions}"
            if not config.state_changelog_create:
                raise ChangelogError(name, problem, "Give it as many")
            asked = self.admin.create_partitions([NewPartitions(name, data.partitions)])[name]
            self._changed(name, asked, KafkaError.INVALID_PARTITIONS)
            facts = self._await(name, data.partitions)
        policy = self.settings_of(name).get("cleanup.policy", "")
        if policy != "compact":
            problem = f"has cleanup.policy={policy}, so state that rests would be deleted"
            raise ChangelogError(name, problem, "Set cleanup.policy=compact on it")
        return facts

    def _changed(self, name: str, asked: Future[Any], done_before: int) -> None:
        """Wait until a changelog is made or larger; another member may have been first."""
        try:
            asked.result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != done_before:
                raise ChangelogError(
                    name,
                    f"cannot be made as it should be ({error.args[0].str()})",
                    "Create it with the rights of an administrator, with cleanup.policy=compact "
                    "and as many partitions as its topic",
                ) from error
        except TimeoutError as error:
            raise self._unreachable(f"topic {name}: not made in {_TIMEOUT_S:g} s") from error

    def _mend(self, name: str) -> str:
        """Give a topic that is ours to make the settings that it would have got from us."""
        wanted = progress_topic_settings(self._config)
        changes = [
            ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
            for setting, value in wanted.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
        [changed] = self.admin.incremental_alter_configs([resource]).values()
        self._answer(changed, f"topic {name}")
        log.warning("progress topic %s: was made by a broker itself; it is compacted now", name)
        return wanted["cleanup.policy"]

    def _await(self, name: str, partitions: int = 1) -> TopicFacts:
        """A topic just made takes a moment to be known: 10 ms, on a busy broker a second."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                facts = self.describe([name])[name]
            except TopicMissingError:
                if time.monotonic() > deadline_s:
                    raise
            else:
                if facts.partitions >= partitions or time.monotonic() > deadline_s:
                    return facts
            time.sleep(_KNOWN_AGAIN_S)

    def _offsets_topic(self) -> TopicFacts | None:
        """Kafka's own offsets topic, whose shape ours takes; None before it exists."""
        try:
            return self.describe([_OFFSETS_TOPIC])[_OFFSETS_TOPIC]
        except Exception as error:
            if isinstance(error, BrokerUnreachableError):
                raise
            return None

    def settings_of(self, name: str) -> dict[str, str]:
        """The topic's settings by name; empty if we may not see them."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        try:
            found = self._answer(self.admin.describe_configs([resource])[resource], f"topic {name}")
        except AuthorizationError:
            return {"cleanup.policy": "compact"}  # not ours to see: trust whoever made it
        return {key: entry.value for key, entry in found.items() if entry.value is not None}

    def resolve_later(
        self, tp: TopicPartition, policy: str, done: Callable[[int | Exception], None]
    ) -> None:
        """Where "earliest" or "latest" points to; `done` is called on a client thread."""
        spec = EARLIEST if policy == "earliest" else LATEST
        for future in self.admin.list_offsets({Place(tp.topic, tp.partition): spec}).values():

            def told(future: Any) -> None:
                error = future.exception()
                done(error if error is not None else future.result().offset)

            future.add_done_callback(told)

    def names(self) -> list[str]:
        """All topics that this user may see, but Kafka's own.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        try:
            found = self.admin.list_topics(timeout=_TIMEOUT_S).topics
        except KafkaException as error:
            raise self._reason(error, "the list of topics") from error
        return sorted(name for name in found if not name.startswith("__"))

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
        asked = {Place(tp.topic, tp.partition): spec for tp in partitions}
        told = self.admin.list_offsets(asked, isolation_level=level) if asked else {}
        found = {}
        for place, future in told.items():
            answer = self._answer(future, f"topic {place.topic}")
            found[TopicPartition(place.topic, place.partition)] = answer.offset
        return found

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The epochs of the leaders who wrote the newest records; -1: not told. Blocking.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        asked = {Place(tp.topic, tp.partition): LATEST for tp in partitions}
        found = {}
        for place, future in self.admin.list_offsets(asked).items() if asked else ():
            epoch = self._answer(future, f"topic {place.topic}").leader_epoch
            found[TopicPartition(place.topic, place.partition)] = -1 if epoch is None else epoch
        return found


def progress_topic_settings(config: Config) -> dict[str, str]:
    """The topic settings of the progress topic; all follow from what it is for."""
    return {
        "cleanup.policy": "compact",
        "delete.retention.ms": str(_RETENTION_MS),
        "min.compaction.lag.ms": str(_RETENTION_MS),
        "min.cleanable.dirty.ratio": "0.1",
        "segment.bytes": str(config.individual_commit_log_segment_bytes),
    }


def _told_by(refusals: Sequence[KafkaError]) -> str:
    """The last word of a connection on why it failed, without librdkafka's notes on its state."""
    told = [it.str() for it in refusals if it.code() != KafkaError._ALL_BROKERS_DOWN]
    return told[-1].partition(" (after ")[0] if told else ""


def _facts(description: Any) -> TopicFacts:
    topic_id = description.topic_id
    high, low = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
    bits = ((high & (2**64 - 1)) << 64) | (low & (2**64 - 1))
    partitions = description.partitions
    replication = min((len(p.replicas) for p in partitions), default=1)
    return TopicFacts(bits.to_bytes(16, "big"), len(partitions), replication)
