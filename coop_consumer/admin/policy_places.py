"""Where policies are: of topics in the shared progress topic, of a group where its progress is.

In: a configuration, the name of a topic or a group. Out: the configuration whose progress topic has
its policy; the policies in force. A policy of a group that has another progress topic since it was
set is not in force.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import replace

from coop_consumer.admin.inspect import Inspector
from coop_consumer.config import Config, Guarantee
from coop_consumer.errors import AuthorizationError, ConfigError, TopicMissingError
from coop_consumer.kafka.policies import PolicyLog
from coop_consumer.kafka.topics import Topics
from offsets import PolicyKey, PolicyRecord


def place_of(config: Config, key: PolicyKey) -> Config:
    """A configuration whose progress log has this policy.

    Args:
        config: Of whoever asks; of the group, if it is a group's policy.
        key: The policy.

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    if key.scope == "topic":
        return replace(config, processing_guarantee=Guarantee.AT_LEAST_ONCE)
    with Inspector(config) as inspector:
        inspector.look()
        return inspector.config


def policies_in_force(
    config: Config, only: Collection[PolicyKey]
) -> Mapping[PolicyKey, PolicyRecord]:
    """The policies that forbid something, by what they concern.

    Args:
        config: Names the brokers and the shared progress topic.
        only: Those to look for; none: all, which asks for each group that has one.

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    topics = Topics(config)
    topics.check_broker()
    shared = _read(config, config.progress_topic)
    found = {key: record for key, record in shared.items() if key.scope == "topic"}
    groups = [key for key in only if key.scope == "group"]
    for key in groups or ([] if only else _groups(config, topics, shared)):
        try:
            place = place_of(replace(config, group_id=key.name), key)
        except (AuthorizationError, ConfigError):  # a name that no group has, or one that is hidden
            if only:
                raise
            place = config
        is_shared = place.progress_log == config.progress_topic
        records = shared if is_shared else _read(config, place.progress_log)
        found |= {key: records[key]} if key in records else {}
    return found


def _groups(
    config: Config, topics: Topics, shared: Mapping[PolicyKey, PolicyRecord]
) -> Iterator[PolicyKey]:
    """The groups that may have a policy: in the shared topic, or in a topic of their own."""
    yield from sorted(key for key in shared if key.scope == "group")
    prefix = f"{config.progress_topic}-"
    for name in topics.names_that_begin(prefix):
        key = PolicyKey("group", name.removeprefix(prefix))
        if key not in shared and key in _read(config, name):
            yield key


def _read(config: Config, topic: str) -> Mapping[PolicyKey, PolicyRecord]:
    with closing(PolicyLog(config, topic)) as log:
        try:
            return log.read()
        except TopicMissingError:
            return {}
