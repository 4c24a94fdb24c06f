"""Checks the surroundings of a group: clients, broker, topics, rights, Java.

In: a configuration, topics. Out: findings, in the order in which one failure explains the next.
It asks and changes nothing; it reports what it cannot ask. The judgements are pure
(`coop_consumer.status.finding`).
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import metadata

import confluent_kafka

from coop_consumer.admin.inspect import Inspector
from coop_consumer.broker import JavaMissingError, find_java
from coop_consumer.config import Config, OnFailure, choice_of, named_only
from coop_consumer.core.blocked_read import RunId
from coop_consumer.errors import (
    AuthorizationError,
    ConfigError,
    CoopConsumerError,
    ExitCode,
)
from coop_consumer.kafka.coordinator import allowed_on_group
from coop_consumer.kafka.group_view import broker_version
from coop_consumer.kafka.own_topics import (
    COPIES_DEFAULT,
    MESSAGE_MAX_BYTES,
    judged_dead_letters,
    progress_topic_settings,
    progress_topic_shape,
    shape_if_any,
    shape_of,
)
from coop_consumer.kafka.topics import TopicFacts
from coop_consumer.kafka.transaction_check import check_transactions, id_of, transactor_settings
from coop_consumer.plain_text import counted
from coop_consumer.planning import PROTOCOL, plain_protocol_of
from coop_consumer.status.finding import (
    Finding,
    Severity,
    TopicShape,
    alter_command,
    create_command,
    fail,
    failed_by,
    judge_progress_topic,
    judge_rights,
    judge_transactions,
    judge_writing,
    ok,
    transactions_refused,
    warn,
)

_OFFSETS_TOPIC = "__consumer_offsets"


def check_up(config: Config, topics: Sequence[str], *, has_group: bool) -> Iterator[Finding]:
    """Check everything that a member of the group needs; yields findings as they come.

    Args:
        config: A member's configuration.
        topics: The topics to consume.
        has_group: Whether `group.id` names a group to check.
    """
    yield _clients()
    yield _java()
    started = time.monotonic()
    try:
        inspector = Inspector(config)
    except CoopConsumerError as error:
        yield failed_by("broker", error)
        return
    with inspector:
        yield from _Checkup(inspector).all(topics, started, has_group=has_group)


def _clients() -> Finding:
    versions = ", ".join(
        f"{name} {metadata.version(name)}"
        for name in ("coop-consumer", "confluent-kafka", "kafka-python")
    )
    text = (
        f"{versions}, librdkafka {confluent_kafka.libversion()[0]}, "
        f"Python {platform.python_version()}"
    )
    if not metadata.version("kafka-python").startswith("3.0."):
        return fail(
            "clients",
            f"{text}: this library works with kafka-python 3.0 alone",
            "pip install 'kafka-python>=3.0.12,<3.1'",
            ExitCode.USAGE,
        )
    return ok("clients", text)


def _java() -> Finding:
    try:
        java = find_java()
    except JavaMissingError as error:
        return warn(
            "java", "none is new enough; only the embedded broker and Spark need it", str(error)
        )
    return ok("java", f"Java {java.major} at {java.executable}")


class _Checkup:
    """One check-up of one cluster."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._topics = inspector.topics
        self._admin = inspector.topics.admin
        self._brokers = 1

    @property
    def _config(self) -> Config:
        """As the group works, once that was asked for."""
        return self._inspector.config

    def all(self, topics: Sequence[str], started: float, *, has_group: bool) -> Iterator[Finding]:
        """Every check; a failure does not prevent the next check."""
        if has_group:
            with suppress(CoopConsumerError):  # another finding reports it
                self._inspector.look()
        is_once = has_group and self._config.exactly_once
        patterns, topics = self._matching(topics)
        checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
            ("broker", partial(self._broker, started)),
            ("topics", partial(self._roles, topics)),
            *(
                (f"topics {pattern}", partial(self._pattern, pattern, it))
                for pattern, it in patterns
            ),
            *((f"topic {name}", partial(self._topic, name)) for name in topics),
            *((f"topic {name}", partial(self._related_topics, name)) for name in topics),
            *(
                (f"topic {name}", partial(self._output_topic, name))
                for name in sorted(self._config.output_names)
            ),
            ("progress topic", partial(self._progress_topic, is_own=is_once)),
        ]
        if is_once:
            checks.append((f"topic {self._config.progress_topic}", self._policies))
            checks.append(("transactions", self._transactions))
        if has_group:
            checks.append((f"group {self._config.group_id}", self._group))
        for name, check in checks:
            try:
                yield from check()
            except CoopConsumerError as error:
                yield failed_by(name, error)

    def _broker(self, started: float) -> Iterator[Finding]:
        version = broker_version(self._config)
        took_ms = round((time.monotonic() - started) * 1_000)
        self._brokers = self._topics.brokers()
        where = self._config.bootstrap_servers
        text = f"{where}: {self._brokers} x Apache Kafka {version}, answered in {took_ms} ms"
        if self._brokers < COPIES_DEFAULT:
            remedy = f"Run {COPIES_DEFAULT} brokers or more where data matters"
            few = f"with fewer than {COPIES_DEFAULT} brokers no topic has {COPIES_DEFAULT} copies"
            yield warn("broker", f"{text}; {few}", remedy)
        else:
            yield ok("broker", text)

    def _roles(self, topics: Sequence[str]) -> Iterator[Finding]:
        """A finding only if a topic feeds itself."""
        self._config.refuse_circles(topics)
        yield from ()

    def _matching(
        self, topics: Sequence[str]
    ) -> tuple[list[tuple[str, list[str] | CoopConsumerError]], list[str]]:
        """For each pattern what matches it, or why that is not known; and all topics by name."""
        choice = choice_of(self._config, topics)
        try:
            names = self._topics.names() if choice.patterns else []
        except CoopConsumerError as error:
            return [(pattern, error) for pattern in choice.patterns], sorted(choice.named)
        found: dict[str, list[str]] = {pattern: [] for pattern in choice.patterns}
        for name in names:
            if (pattern := choice.follows(name)) is not None:
                found[pattern].append(name)
        return list(found.items()), [
            *named_only(topics),
            *sorted(choice.among(names) - choice.named),
        ]

    def _pattern(self, pattern: str, found: list[str] | CoopConsumerError) -> Iterator[Finding]:
        if isinstance(found, CoopConsumerError):
            raise found
        where = f"topics {pattern}"
        if found:
            yield ok(where, f"matches {', '.join(found)}")
        else:
            remedy = "Create a topic, or correct the pattern; members wait until there is one"
            yield warn(where, "matches no topic that this user may see", remedy)

    def _rights(self, resource: str, allowed: Iterable[str], *needed: str) -> Finding:
        config = self._config
        return judge_rights(resource, allowed, needed, config.user, config.bootstrap_servers)

    def _topic(self, name: str) -> Iterator[Finding]:
        shape, allowed = shape_of(self._topics, name), self._topics.allowed(name)
        yield ok(
            f"topic {name}",
            f"{counted(shape.partitions, 'partition')}, replication {shape.replication}",
        )
        yield self._rights(f"topic {name}", allowed, "READ", "DESCRIBE")

    def _progress_topic(self, *, is_own: bool) -> Iterator[Finding]:
        config = self._config
        name = config.progress_log if is_own else config.progress_topic
        try:
            like = shape_if_any(self._topics, _OFFSETS_TOPIC)
        except AuthorizationError:
            like = None  # Kafka's own topic only serves for comparison, if we may see it
        shape = shape_if_any(self._topics, name)
        wanted = progress_topic_settings(config)
        if shape is not None:
            yield from judge_progress_topic(
                shape, like, wanted, self._brokers, config.bootstrap_servers
            )
            yield self._rights(
                f"topic {name}", self._topics.allowed(name), "READ", "WRITE", "DESCRIBE"
            )
            yield from self._offsets_topic(like)
            return
        made = progress_topic_shape(config, like, self._brokers, is_own=is_own)
        command = create_command(config.bootstrap_servers, made)
        if config.progress_topic_create:
            text = "does not exist; the first member creates it, if its user may"
            yield warn(f"progress topic {name}", text, command)
        else:
            text = "does not exist, and progress.topic.create=false"
            yield fail(f"progress topic {name}", text, command, ExitCode.MISSING)

    def _policies(self) -> Iterator[Finding]:
        """The progress topic of other groups, where policies of topics are; there may be none."""
        shared = self._config.progress_topic
        try:
            if shape_if_any(self._topics, shared) is None:
                return
            allowed = self._topics.allowed(shared)
        except AuthorizationError:
            allowed = []
        found = self._rights(f"topic {shared}", allowed, "READ")
        if found.level is Severity.FAIL:
            text = f"{found.text}, so policies of topics, which are there, do not bind this group"
            found = warn(found.check, text, found.remedy)
        yield found

    def _transactions(self) -> Iterator[Finding]:
        """Whether a member could make transactions. Asks for an id that is the same each time."""
        config = self._config
        run = RunId("doctor", 0)
        settings = transactor_settings(TopicFacts(b"", 0), config, run)
        try:
            check_transactions(config, settings)
        except AuthorizationError as error:
            prefix = f"{config.transactional_id_prefix}{config.group_id}-"
            where = config.bootstrap_servers
            yield transactions_refused(str(error), where, config.user, prefix)
            return
        version, _ = confluent_kafka.libversion()
        yield ok(
            "transactions",
            f"the brokers accept transactional.id {id_of(config, run)}, and librdkafka {version} "
            "takes the metadata of a group in the known form",
        )

    def _offsets_topic(self, offsets: TopicShape | None) -> Iterator[Finding]:
        """The offsets topic: the coordinator keeps members, assignments and offsets in it."""
        limit = int((offsets.settings if offsets else {}).get("max.message.bytes", 0))
        if 0 < limit < MESSAGE_MAX_BYTES:
            yield warn(
                f"topic {_OFFSETS_TOPIC}",
                f"max.message.bytes={limit} is below {MESSAGE_MAX_BYTES}: the coordinator refuses "
                "an assignment, or a commit of offsets, that is larger",
                alter_command(
                    self._config.bootstrap_servers,
                    _OFFSETS_TOPIC,
                    "max.message.bytes",
                    MESSAGE_MAX_BYTES,
                ),
            )

    def _output_topic(self, name: str) -> Iterator[Finding]:
        """A topic that handlers send to."""
        shape, allowed = shape_of(self._topics, name, "written"), self._topics.allowed(name)
        yield ok(f"topic {name}", f"for output, {counted(shape.partitions, 'partition')}")
        yield from self._copies(f"topic {name}", shape)
        yield self._rights(f"topic {name}", allowed, "WRITE", "DESCRIBE")

    def _related_topics(self, name: str) -> Iterator[Finding]:
        """The changelog of a consumed topic, if there is one, and its dead-letter topic."""
        if shape_if_any(self._topics, name) is None:
            return  # another finding reports it
        with suppress(ConfigError):  # the changelog's name would not be valid, so there is none
            log = shape_if_any(self._topics, self._config.changelog_for(name))
            if log is not None:
                allowed = self._topics.allowed(log.name)
                yield self._rights(f"changelog {log.name}", allowed, "READ", "WRITE", "DESCRIBE")
            if log is not None and log.settings:
                found = judge_writing(
                    f"changelog {log.name}", log, MESSAGE_MAX_BYTES, self._config.bootstrap_servers
                )
                yield from found or [
                    ok(f"changelog {log.name}", counted(log.partitions, "partition"))
                ]
                yield from self._copies(f"changelog {log.name}", log)
        yield from judged_dead_letters(self._topics, self._config, name)
        if self._config.on_failure is OnFailure.DEAD_LETTER:
            letters = shape_if_any(self._topics, self._config.dead_letter_topic_for(name))
            if letters is not None:
                yield from self._copies(f"dead-letter topic {letters.name}", letters)

    def _copies(self, check: str, topic: TopicShape) -> list[Finding]:
        """Whether transactions that write to a topic are safe there."""
        if not self._config.exactly_once:
            return []
        return judge_transactions(check, topic, self._brokers)

    def _group(self) -> Iterator[Finding]:
        check, described = f"group {self._config.group_id}", self._inspector.group.described()
        known = (PROTOCOL, plain_protocol_of(self._config))
        foreign = described.members and described.protocol not in known
        if foreign:
            yield fail(
                check,
                f"{described.state}, {counted(len(described.members), 'member')} of another "
                f"protocol ({described.protocol or 'unknown'})",
                "Stop them first (their committed offsets are taken over), replace them one by one "
                "(upgrade.from), or choose another group",
            )
        elif described.exists:
            once = ", exactly once" if self._config.exactly_once else ""
            yield ok(check, f"{described.state}, {counted(len(described.members), 'member')}{once}")
        else:
            yield ok(check, "does not exist yet; its first member begins it")
        allowed = allowed_on_group(self._admin, self._config.group_id)
        yield self._rights(check, allowed, "READ", "DESCRIBE")
