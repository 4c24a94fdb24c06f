"""Our own topics, the progress topic and changelogs: created if missing, and checked.

In: a configuration, the topics as the broker has them. Out: the facts of a topic that is fit for
its purpose, or an error that says what is wrong with it and what to do. Blocking calls.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from coop_consumer.config import Config, OnFailure
from coop_consumer.core.record_size import RECORD_MAX_BYTES, RECORD_MIN_BYTES
from coop_consumer.errors import (
    ChangelogError,
    CoopConsumerError,
    ProgressTopicError,
    TopicMissingError,
)
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted
from coop_consumer.status.finding import (
    Finding,
    Severity,
    TopicShape,
    alter_command,
    judge_dead_letters,
)

if TYPE_CHECKING:
    from coop_consumer.kafka.topics import TopicFacts, Topics

log = logging.getLogger(__name__)

PARTITIONS_DEFAULT = 50
COPIES_DEFAULT = 3
OWN_PARTITIONS_DEFAULT = 8
"""Of the progress topic of one group: each partition that a transaction writes costs 0.5 ms."""
MESSAGE_MAX_BYTES = 1_048_588
"""Kafka's default of `max.message.bytes`, set on our topics instead of the brokers' own."""
MESSAGE_LEAST_BYTES = 16_384
"""The size of a progress record after the finest split."""
DEAD_LETTER_MAX_BYTES = 104_857_600
"""The most that librdkafka fetches at once: a dead-letter topic takes whatever was fetched."""
_BATCH_BYTES = 1_000_000
"""librdkafka's default of `batch.size`."""
_KEY_SHARE = 8
"""The share of a record that its key and the batch add to its value, as one part in so many."""
_RETENTION_MS = 60_000
BROKERS_TIME = "LogAppendTime"
"""Brokers refuse a record whose clock is an hour ahead, if it carries its writer's time."""
CHANGELOG_KEEPS_MS = 86_400_000
"""How long our changelogs keep a deletion: Kafka's own default."""


def what_deletes(settings: Mapping[str, str]) -> str:
    """Which settings of a topic delete its old records; "" if none does, or none are known. Pure.

    >>> what_deletes({"cleanup.policy": "delete", "retention.ms": "604800000"})
    'cleanup.policy=delete with retention.ms=604800000, retention.bytes=-1'
    >>> what_deletes({"cleanup.policy": "compact", "retention.ms": "604800000"})
    ''
    """
    policy = settings.get("cleanup.policy", "")
    bounds = {it: settings.get(it, "-1") for it in ("retention.ms", "retention.bytes")}
    if "delete" not in policy or all(bound == "-1" for bound in bounds.values()):
        return ""
    return f"cleanup.policy={policy} with " + ", ".join(f"{it}={at}" for it, at in bounds.items())


def progress_topic(topics: Topics, config: Config, *, mend: bool = False) -> TopicFacts:
    """The progress topic, created if missing, and fit for its purpose.

    Args:
        topics: The cluster's topics.
        config: A member's; names the topic, and says whether it may be created.
        mend: The topic was lost while members ran, and a broker may have created it again for a
            producer. If we may create it, we may also set its settings.

    Raises:
        ProgressTopicError: The topic is missing and may not be created, is not compacted, or is too
            small for a record.
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    try:
        return _fit_progress_topic(topics, config, mend=mend)
    except TopicMissingError:  # somebody has deleted it since it was found
        return _fit_progress_topic(topics, config, mend=mend)


def _fit_progress_topic(topics: Topics, config: Config, *, mend: bool) -> TopicFacts:
    name, where = config.progress_log, config.bootstrap_servers
    facts = topics.find(name)
    if facts is None:
        if not config.progress_topic_create:
            raise ProgressTopicError(
                name,
                "does not exist, and progress.topic.create=false",
                "Create it (coop-consumer doctor prints the command), or allow its creation",
            )
        _create_progress_topic(topics, config)
        facts = topics.once_made(name)
    settings = topics.settings_of(name)
    policy = settings.get("cleanup.policy", "compact")  # if we may not see it, trust its creator
    if "compact" not in policy and mend and config.progress_topic_create:
        wanted = progress_topic_settings(config)
        topics.change(name, wanted)
        extra = LogEvent.PROGRESS_TOPIC_MENDED.extra(group=config.group_id, topic=name)
        log.warning(
            "progress topic %s: a broker created it; it is compacted now", name, extra=extra
        )
        policy, settings = wanted["cleanup.policy"], wanted
    if "compact" not in policy:
        raise ProgressTopicError(
            name,
            f"has cleanup.policy={policy}: its old records would be deleted, and progress lost",
            f"Set it: {alter_command(where, name, 'cleanup.policy', 'compact')}",
        )
    if "delete" in policy:
        log.warning(
            "progress topic %s: has cleanup.policy=%s: progress older than its retention is "
            "deleted, and its records behind a gap repeat. %s",
            name,
            policy,
            alter_command(where, name, "cleanup.policy", "compact"),
            extra=LogEvent.PROGRESS_TOPIC_DELETES.extra(group=config.group_id, topic=name),
        )
    limit = int(settings.get("max.message.bytes", 0))
    if 0 < limit < MESSAGE_LEAST_BYTES:
        raise ProgressTopicError(
            name,
            f"has max.message.bytes={limit}, and a record of progress may need "
            f"{MESSAGE_LEAST_BYTES}",
            f"Raise it: {alter_command(where, name, 'max.message.bytes', MESSAGE_MAX_BYTES)}",
        )
    return replace(facts, message_max_bytes=limit)


def record_max_bytes(progress: TopicFacts, config: Config) -> int:
    """The largest value to append to the progress log; a larger one is split.

    Args:
        progress: The progress topic, as `progress_topic` returns it.
        config: Of the member that appends.
    """
    limit = progress.message_max_bytes or MESSAGE_MAX_BYTES
    own_limit = int(dict(config.passed).get("message.max.bytes", limit))
    limit = min(limit, own_limit)
    return max(RECORD_MIN_BYTES, min(RECORD_MAX_BYTES, limit - limit // _KEY_SHARE))


def writer_settings(progress: TopicFacts, config: Config) -> dict[str, Any]:
    """The dict of a Producer for a `LogWriter`: batches that the progress topic takes.

    A dead letter may be larger than a batch; it goes by itself.
    """
    settings = {"message.max.bytes": DEAD_LETTER_MAX_BYTES, **config.producer()}
    limit = min(progress.message_max_bytes or _BATCH_BYTES, int(settings["message.max.bytes"]))
    wanted = int(settings.get("batch.size", _BATCH_BYTES))
    return {**settings, "batch.size": min(wanted, limit - limit // _KEY_SHARE)}


def for_batches_of(config: Config, topics: Topics, name: str) -> Config:
    """The configuration for producers of a topic: batches no larger than the topic takes.

    librdkafka gathers 1 MB whatever the topic takes; then it refuses small records together.

    Raises:
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    limit = int(topics.settings_of(name).get("max.message.bytes", MESSAGE_MAX_BYTES))
    return _with_batches_within(config, limit)


def for_batches_of_any(config: Config) -> Config:
    """As `for_batches_of`, for topics that are known later and have Kafka's default.

    For a topic with a lower limit, see `batch_limit`.
    """
    return _with_batches_within(config, MESSAGE_MAX_BYTES)


def batch_limit(config: Config, topics: Topics, name: str) -> int | None:
    """How many bytes of a topic may be gathered; None: as many as a producer does by itself.

    A missing topic has no limit: its writer gets the error.

    Args:
        config: Of the producer, see `for_batches_of_any`.
        topics: The cluster's topics.
        name: The topic.

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    try:
        topics.describe([name], patience_s=0)
        fitted = for_batches_of(config, topics, name)
    except TopicMissingError:
        return None
    limit = int(dict(fitted.passed)["batch.size"])
    return limit if limit < int(dict(config.passed).get("batch.size", _BATCH_BYTES)) else None


def _with_batches_within(config: Config, limit: int) -> Config:
    passed = dict(config.passed)
    wanted = int(passed.get("batch.size", _BATCH_BYTES))
    passed["batch.size"] = min(wanted, limit - limit // _KEY_SHARE)
    return replace(config, passed=tuple(sorted(passed.items())))


def _create_progress_topic(topics: Topics, config: Config) -> None:
    name, like = config.progress_log, topics.offsets_topic()
    refused = topics.create(
        name,
        config.progress_topic_partitions or _partitions(config, like),
        config.progress_topic_replication_factor or (like.replication if like else -1),
        progress_topic_settings(config),
    )
    if refused is not None:
        raise ProgressTopicError(
            name,
            f"does not exist and cannot be created ({refused.str()})",
            "Create it with the rights of an administrator; coop-consumer doctor prints the "
            "command",
        )


def _partitions(config: Config, like: TopicFacts | None) -> int:
    """How many partitions a progress topic gets that is created; `like`: Kafka's own."""
    if config.exactly_once:
        return OWN_PARTITIONS_DEFAULT
    return like.partitions if like else PARTITIONS_DEFAULT


def changelog(topics: Topics, config: Config, source: str, data: TopicFacts) -> TopicFacts:
    """The changelog of a data topic, created if missing, with as many partitions.

    Args:
        topics: The cluster's topics.
        config: A member's; says whether the changelog may be created.
        source: The data topic's name.
        data: The data topic.

    Raises:
        ConfigError: The changelog's name would not be valid.
        ChangelogError: It is missing or too small and may not be changed, or is not compacted.
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    name = config.changelog_for(source)
    facts = topics.find(name)
    if facts is None:
        if not config.state_changelog_create:
            raise ChangelogError(
                name,
                "does not exist, and state.changelog.create=false",
                "Create it with cleanup.policy=compact and "
                f"{counted(data.partitions, 'partition')}",
            )
        replication = config.state_changelog_replication_factor or data.replication
        settings = changelog_settings(topics.settings_of(source))
        refused = topics.create(name, data.partitions, replication, settings)
        if refused is not None:
            raise _refused(name, refused.str())
        facts = topics.once_made(name)
    if facts.partitions < data.partitions:
        problem = f"has {counted(facts.partitions, 'partition')}, and its topic {data.partitions}"
        if not config.state_changelog_create:
            raise ChangelogError(
                name, problem, f"Give the changelog {counted(data.partitions, 'partition')}"
            )
        refused = topics.grow(name, data.partitions)
        if refused is not None:
            raise _refused(name, refused.str())
        facts = topics.once_made(name, data.partitions)
    found = topics.settings_of(name)
    policy = found.get("cleanup.policy", "compact")
    if policy != "compact":
        problem = f"has cleanup.policy={policy}, so state that rests would be deleted"
        raise ChangelogError(name, problem, "Set cleanup.policy=compact on it")
    return replace(facts, message_max_bytes=int(found.get("max.message.bytes", 0)))


def shape_of(
    topics: Topics, name: str, verb: Literal["consumed", "written"] = "consumed"
) -> TopicShape:
    """A topic with its settings; `verb` as in `Topics.describe`.

    Raises:
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    facts = topics.describe([name], patience_s=0, verb=verb)[name]
    return TopicShape(name, facts.partitions, facts.replication, topics.settings_of(name))


def shape_if_any(topics: Topics, name: str) -> TopicShape | None:
    """As `shape_of`; None if the topic does not exist."""
    try:
        return shape_of(topics, name)
    except TopicMissingError:
        return None


def judged_dead_letters(topics: Topics, config: Config, name: str) -> list[Finding]:
    """Whether the dead-letter topic of a topic exists, and takes every record of the topic.

    Raises:
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    if config.on_failure is not OnFailure.DEAD_LETTER:
        return []
    letters = config.dead_letter_topic_for(name)
    shape = shape_if_any(topics, letters)
    return judge_dead_letters(shape_of(topics, name), shape, letters, config.bootstrap_servers)


def warn_of_dead_letters(topics: Topics, config: Config, names: Iterable[str]) -> None:
    """Warn at the start of what would hold back dead letters; never raises."""
    for name in names:
        try:
            found = judged_dead_letters(topics, config, name)
        except CoopConsumerError as error:
            unknown = LogEvent.DEAD_LETTER_TOPIC_UNKNOWN
            extra = unknown.extra(group=config.group_id, topic=name, error=error)
            told = "the dead-letter topic of %s cannot be looked at: %s"
            log.debug(told, name, error, extra=extra)
            continue
        unfit = LogEvent.DEAD_LETTER_TOPIC_UNFIT.extra(group=config.group_id, topic=name)
        for it in found:
            if it.level is not Severity.OK:
                parts = (config.group_id, it.check, it.text, it.remedy)
                log.warning("group %s, %s: %s. %s", *parts, extra=unfit)


def _refused(name: str, detail: str) -> ChangelogError:
    return ChangelogError(
        name,
        f"cannot be made as it should be ({detail})",
        "Create it with the rights of an administrator, with cleanup.policy=compact and as many "
        "partitions as its topic",
    )


def progress_topic_settings(config: Config) -> dict[str, str]:
    """The settings of the progress topic; its purpose decides all of them."""
    return {
        "cleanup.policy": "compact",
        "delete.retention.ms": str(_RETENTION_MS),
        "min.compaction.lag.ms": str(_RETENTION_MS),
        "min.cleanable.dirty.ratio": "0.1",
        "segment.bytes": str(config.individual_commit_log_segment_bytes),
        "max.message.bytes": str(MESSAGE_MAX_BYTES),
        "message.timestamp.type": BROKERS_TIME,
    }


def progress_topic_shape(
    config: Config, like: TopicShape | None, brokers: int, *, is_own: bool
) -> TopicShape:
    """What a progress topic is to be like.

    Args:
        config: A member's.
        like: Kafka's own offsets topic; None: it does not exist yet, or may not be seen.
        brokers: How many the cluster has.
        is_own: Whether it is that of one group with exactly once, or the shared one.
    """
    default = OWN_PARTITIONS_DEFAULT if is_own else PARTITIONS_DEFAULT
    partitions = default if is_own or like is None else like.partitions
    replication = like.replication if like else min(COPIES_DEFAULT, brokers)
    return TopicShape(
        config.own_progress_log if is_own else config.progress_topic,
        config.progress_topic_partitions or partitions,
        config.progress_topic_replication_factor or replication,
        progress_topic_settings(config),
    )


def changelog_shape(config: Config, source: TopicShape) -> TopicShape:
    """What the changelog of a topic is to be like.

    Raises:
        ConfigError: Its name would not be valid.
    """
    return TopicShape(
        config.changelog_for(source.name),
        source.partitions,
        config.state_changelog_replication_factor or source.replication,
        changelog_settings(source.settings),
    )


def changelog_settings(source: Mapping[str, str]) -> dict[str, str]:
    """The settings of a changelog that we create for a data topic with these settings."""
    limit = max(MESSAGE_MAX_BYTES, int(source.get("max.message.bytes", 0)))
    return {
        "cleanup.policy": "compact",
        "delete.retention.ms": str(CHANGELOG_KEEPS_MS),
        "max.message.bytes": str(limit),
        "message.timestamp.type": BROKERS_TIME,
    }
