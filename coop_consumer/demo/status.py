"""The picture of the cooperative group that the demo shows: what `coop-consumer status` prints.

In: an address and a group. Out: something rich prints. It asks the broker, and joins no group.
"""

from __future__ import annotations

from collections.abc import Mapping

from coop_consumer.admin.inspect import Inspector
from coop_consumer.config import Config
from coop_consumer.status.model import group_status
from coop_consumer.status.picture import Picture


def status_picture(clients: Mapping[str, str], group: str) -> Picture:
    """The group now; about half a second."""
    with Inspector(Config.from_dict({**clients, "group.id": group})) as inspector:
        return Picture(group_status(inspector.see(waits=False)))
