"""The contract of a group's members, from a configuration. Pure."""

from __future__ import annotations

from assignors import (
    Assignor,
    KeyRangeRangeAssignor,
    KeyRangeRoundRobinAssignor,
    KeyRangeStickyAssignor,
)
from coop_consumer.config import Balance, Config, UpgradeFrom
from coop_consumer.core.contract import PROGRESS

PROTOCOL = "keyrange"
"""The name under which the group protocol carries our assignment, whichever assignor makes it."""


def contract_of(config: Config, progress_topic_id: bytes, progress_partitions: int) -> str:
    """All that changes the meaning of a hash, or of progress, as one readable line."""
    guarantee = "at-least-once"
    if config.exactly_once:  # whoever fences others makes their ids
        guarantee = f"exactly-once,ids={config.transactional_id_prefix}"
    block = f",block={config.ordering_block_size}" if config.ordering == "none" else ""
    return (
        f"hash=mmh3-x64-128>>65,null=partition+offset,ordering={config.ordering}{block},"
        f"guarantee={guarantee},{PROGRESS}{progress_topic_id.hex()}/{progress_partitions},format=1"
    )


def assignor_of(config: Config) -> Assignor:
    """The assignor that the configuration names."""
    by_load = config.balance is Balance.LOAD
    match config.assignor:
        case "roundrobin":
            return KeyRangeRoundRobinAssignor(by_load=by_load)
        case "range":
            return KeyRangeRangeAssignor(by_load=by_load)
        case _:
            return KeyRangeStickyAssignor(split=config.split.value, by_load=by_load)


def plain_protocol_of(config: Config) -> str | None:
    """The plain assignor that this member offers besides `PROTOCOL`, or None."""
    return None if config.upgrade_from is UpgradeFrom.NONE else config.upgrade_from.value
