"""The topics that are ours: the progress topic and changelogs, made if need be, and checked.

In: a configuration, the topics as the broker has them. Out: the facts of a topic that is fit for
its purpose, or an error that says what is wrong with it and what to do. Blocking calls.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from coop_consumer.config import Config
from coop_consumer.errors import ChangelogError, ProgressTopicError, TopicMissingError
from coop_consumer.kafka.topics import TopicFacts, Topics

log = logging.getLogger(__name__)

PARTITIONS_DEFAULT = 50
_RETENTION_MS = 60_000
CHANGELOG_KEEPS_MS = 86_400_000
"""So long a changelog that we make tells of a deletion; it is Kafka's own default."""


def progress_topic(topics: Topics, config: Config, *, mend: bool = False) -> TopicFacts:
    """The progress topic, made if need be, and fit for its purpose.

    Args:
        topics: Of the cluster.
        config: A member's; names the topic, and says whether it may be made.
        mend: It was lost while members ran, and a broker may have made it again by itself, for a
            producer: if we may make it, we may also make it fit.

    Raises:
        ProgressTopicError: If it is missing and may not be made, or is not compacted.
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    name = config.progress_topic
    try:
        facts = topics.describe([name], patience_s=0)[name]
    except TopicMissingError:
        if not config.progress_topic_create:
            raise ProgressTopicError(
                name,
                "does not exist, and progress.topic.create=false",
                "Create it (coop-consumer doctor prints the command), or allow its creation",
            ) from None
        _create_progress_topic(topics, config)
        facts = topics.once_made(name)
    policy = topics.settings_of(name).get("cleanup.policy", "")
    if "compact" not in policy and mend and config.progress_topic_create:
        wanted = progress_topic_settings(config)
        topics.change(name, wanted)
        log.warning("progress topic %s: was made by a broker itself; it is compacted now", name)
        policy = wanted["cleanup.policy"]
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


def _create_progress_topic(topics: Topics, config: Config) -> None:
    name, like = config.progress_topic, topics.offsets_topic()
    refused = topics.create(
        name,
        config.progress_topic_partitions or (like.partitions if like else PARTITIONS_DEFAULT),
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


def changelog(topics: Topics, config: Config, name: str, data: TopicFacts) -> TopicFacts:
    """The changelog of a data topic, made if need be, with a partition for each of its own.

    Args:
        topics: Of the cluster.
        config: A member's; says whether the changelog may be made.
        name: Of the changelog.
        data: The data topic.

    Raises:
        ChangelogError: If it is missing or too small and may not be changed, or is not compacted.
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    try:
        facts = topics.describe([name], patience_s=0)[name]
    except TopicMissingError:
        if not config.state_changelog_create:
            raise ChangelogError(
                name,
                "does not exist, and state.changelog.create=false",
                f"Create it with cleanup.policy=compact and {data.partitions} partitions",
            ) from None
        replication = config.state_changelog_replication_factor or data.replication
        refused = topics.create(name, data.partitions, replication, changelog_settings())
        if refused is not None:
            raise _refused(name, refused.str()) from None
        facts = topics.once_made(name)
    if facts.partitions < data.partitions:
        problem = f"has {facts.partitions} partitions, and its topic {data.partitions}"
        if not config.state_changelog_create:
            raise ChangelogError(name, problem, f"Give the changelog {data.partitions} partitions")
        refused = topics.grow(name, data.partitions)
        if refused is not None:
            raise _refused(name, refused.str())
        facts = topics.once_made(name, data.partitions)
    policy = topics.settings_of(name).get("cleanup.policy", "")
    if policy != "compact":
        problem = f"has cleanup.policy={policy}, so state that rests would be deleted"
        raise ChangelogError(name, problem, "Set cleanup.policy=compact on it")
    return facts


def _refused(name: str, detail: str) -> ChangelogError:
    return ChangelogError(
        name,
        f"cannot be made as it should be ({detail})",
        "Create it with the rights of an administrator, with cleanup.policy=compact and as many "
        "partitions as its topic",
    )


def progress_topic_settings(config: Config) -> Mapping[str, str]:
    """The topic settings of the progress topic; all follow from what it is for."""
    return {
        "cleanup.policy": "compact",
        "delete.retention.ms": str(_RETENTION_MS),
        "min.compaction.lag.ms": str(_RETENTION_MS),
        "min.cleanable.dirty.ratio": "0.1",
        "segment.bytes": str(config.individual_commit_log_segment_bytes),
    }


def changelog_settings() -> Mapping[str, str]:
    """The topic settings of a changelog that we make."""
    return {"cleanup.policy": "compact", "delete.retention.ms": str(CHANGELOG_KEEPS_MS)}
