"""Which progress log a group has: the shared one, or a topic of its own with exactly once.

In: a configuration that names a group, what its coordinator says of it. Out: the configuration by
which the group works. All commands go by this, so nobody has to name a group's guarantee.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from coop_consumer.config import Config, Guarantee, IsolationLevel, UpgradeFrom
from coop_consumer.errors import AuthorizationError, ConfigError
from coop_consumer.kafka.topics import Topics
from coop_consumer.status.guarantee import GuaranteeAtWork, guarantee_at_work
from coop_consumer.status.seen import GroupDescription
from offsets import Committed


def config_at_work(
    config: Config, topics: Topics, described: GroupDescription, committed: Collection[Committed]
) -> Config:
    """The configuration by which the group works, for whoever reads or writes its log.

    Asks for a topic only if neither members nor tags of committed offsets tell.

    Args:
        config: Of whoever asks; `group.id` names the group.
        topics: The cluster's.
        described: The group.
        committed: Its committed offsets.

    Raises:
        ConfigError: A group with this name cannot work with exactly once, though its tags say so.
        BrokerUnreachableError: No broker answered.
    """
    found = guarantee_at_work(
        described.members,
        committed,
        config.processing_guarantee,
        lambda: _has_own_log(config, topics),
    )
    return _with(config, found)


def _with(config: Config, found: GuaranteeAtWork) -> Config:
    if found.guarantee is Guarantee.AT_LEAST_ONCE:
        return replace(config, processing_guarantee=found.guarantee)
    return replace(
        config,
        processing_guarantee=found.guarantee,
        transactional_id_prefix=found.id_prefix or config.transactional_id_prefix,
        # Members of such a group have no other values.
        isolation_level=IsolationLevel.READ_COMMITTED,
        upgrade_from=UpgradeFrom.NONE,
    )


def _has_own_log(config: Config, topics: Topics) -> bool:
    """Whether there is a topic that only a group with exactly once has; False: none to be seen."""
    try:
        own = _with(config, GuaranteeAtWork(Guarantee.EXACTLY_ONCE)).progress_log
        return topics.find(own) is not None
    except (ConfigError, AuthorizationError):
        return False
