"""The status of a group as a value, for programs and notebooks.

In: settings, as a member has them. Out: a `GroupStatus`, which `coop-consumer status` shows as a
picture. It joins no group and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coop_consumer.admin.inspect import Inspector
from coop_consumer.config import Config
from coop_consumer.status.model import GroupStatus, group_status


def status_of(config: Config | Mapping[str, object], topics: Sequence[str] = ()) -> GroupStatus:
    """Look at a group, once: a second or so, and clients of its own.

    In a notebook the value draws itself, if `coop-consumer[cli]` is installed.

    Args:
        config: As of a member; `bootstrap.servers` and `group.id` are enough for a group without
            login and without a progress topic of another name.
        topics: Look at these, too, of which the group has neither members nor commits yet.

    Raises:
        BrokerUnreachableError: No broker answers.
        GroupMissingError: There is no such group.
        AuthorizationError: This user may not see it.
    """
    asked = config if isinstance(config, Config) else Config.from_dict(config)
    with Inspector(asked) as inspector:
        return group_status(inspector.see(topics, waits=False))
