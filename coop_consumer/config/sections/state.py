"""Settings of keyed state. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.config.patterns import CHANGELOG_TEMPLATE, NOT_EMPTY
from coop_consumer.config.setting import Section, setting


@dataclass(frozen=True, kw_only=True, repr=False)
class StateSettings:
    """Settings of keyed state."""

    SECTION = Section.STATE

    state_dir: str | None = setting(
        None,
        "Where workers with `keyed_state` keep their stores. A process takes a directory of "
        "its own in it, and finds it again after a restart.",
        "without it every start reads the changelog from its beginning",
        pattern=NOT_EMPTY,
        derived="a temporary directory, deleted at the end",
    )
    state_changelog_topic: str = setting(
        "{group}-{topic}-state",
        "The compacted topic that holds the state of a topic's keys; {group} and {topic} stand "
        "for their names. Equal for all members of a group.",
        "each topic has a changelog of its own, with as many partitions",
        pattern=CHANGELOG_TEMPLATE,
    )
    state_changelog_create: bool = setting(
        True,
        "Whether a missing changelog is created, and gets more partitions with its topic.",
        "set it to false if an operator creates topics",
    )
    state_changelog_replication_factor: int | None = setting(
        None,
        "Replication of a changelog that is created.",
        "state is worth as much as its records",
        low=1,
        derived="as the data topic",
    )
