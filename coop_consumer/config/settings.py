"""The table: every setting of this library with its type, default, bounds and reasons. Pure.

Room: `coop_consumer.config`. The rows are in `sections`. Here they become one class. It checks them
and derives values that several settings decide together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from coop_consumer.config import roles
from coop_consumer.config.choices import ExecutorName, Guarantee, OnFailure
from coop_consumer.config.contradictions import contradictions
from coop_consumer.config.patterns import KAFKA_NAME
from coop_consumer.config.sections.failure import FailureSettings
from coop_consumer.config.sections.group import GroupSettings
from coop_consumer.config.sections.memory import MemorySettings
from coop_consumer.config.sections.operation import OperationSettings
from coop_consumer.config.sections.progress import ProgressSettings
from coop_consumer.config.sections.sharing import SharingSettings
from coop_consumer.config.sections.state import StateSettings
from coop_consumer.config.sections.timing import TimingSettings
from coop_consumer.config.setting import Setting, settings_of, shown
from coop_consumer.config.topic_choice import check_pattern, is_pattern, named_only
from coop_consumer.cores import usable_cores
from coop_consumer.errors import ConfigError, GroupIdMissingError
from offsets import Tag

_WORKERS = 64
_TRIED_FOR_MS = 300_000
_COMMIT_AT_RECORDS = 256

TopicNames: TypeAlias = list[str] | tuple[str, ...] | set[str] | frozenset[str]
"""Types that may name topics: to a type checker, a text is also a sequence of texts."""


# A dataclass takes the fields of its last base first: the table begins with the group.
@dataclass(frozen=True, kw_only=True, repr=False)
class TypedSettings(
    OperationSettings,
    TimingSettings,
    FailureSettings,
    MemorySettings,
    StateSettings,
    ProgressSettings,
    SharingSettings,
    GroupSettings,
):
    """All settings of this library, typed. A None means "as `derived` says" (see the table).

    Raises:
        ConfigError: For a value of another type or out of bounds, or two that contradict.
    """

    def __post_init__(self) -> None:
        if not self.group_id:
            raise GroupIdMissingError
        for setting in SETTINGS.values():
            setting.check(getattr(self, setting.field))
        for name in self.topic_names:
            check_pattern(name)
        for contradiction in contradictions(self):
            raise contradiction

    @property
    def records_per_key_max(self) -> int:
        """`max.records.per.key`, or the tenth of the lanes that stands for it; at least 1."""
        return self.max_records_per_key or max(1, self.max_records_in_lanes // 10)

    @property
    def exactly_once(self) -> bool:
        """Whether what handlers leave behind and the progress of its records are transactions."""
        return self.processing_guarantee is Guarantee.EXACTLY_ONCE

    @property
    def progress_log(self) -> str:
        """The topic that holds the progress of this group.

        Transactions of one group must not hold up the reads of others, and must not be taken for
        facts by readers that do not wait for them. So such a group has a topic of its own.
        """
        return self.own_progress_log if self.exactly_once else self.progress_topic

    @property
    def own_progress_log(self) -> str:
        """The topic that holds the progress of this group while it works with exactly once."""
        return f"{self.progress_topic}-{self.group_id}"

    @property
    def tag(self) -> Tag:
        """Of offsets that members commit, see `offsets.history`."""
        return Tag.EXACTLY_ONCE if self.exactly_once else Tag.AT_LEAST_ONCE

    @property
    def commit_at_records(self) -> int:
        """So many finished records make a commit due, see `commit.max.records`."""
        return self.commit_max_records or (2**63 if self.exactly_once else _COMMIT_AT_RECORDS)

    @property
    def tried_for_ms(self) -> int:
        """The least time for which a record is tried. If only `max.attempts` is set, 0."""
        if self.attempts_for_ms is not None:
            return self.attempts_for_ms
        default = SETTINGS["max.attempts"].default
        return _TRIED_FOR_MS if self.max_attempts == default else 0

    @property
    def topic_names(self) -> tuple[str, ...]:
        """`topics`, one by one, names and patterns; empty if it is not set."""
        return _names(self.topics) if self.topics else ()

    @property
    def output_names(self) -> frozenset[str]:
        """`output.topics`, one by one."""
        return frozenset(_names(self.output_topics)) if self.output_topics else frozenset()

    @property
    def ops_host_names(self) -> frozenset[str]:
        """`ops.allowed.hosts`, one by one."""
        return frozenset(_names(self.ops_allowed_hosts)) if self.ops_allowed_hosts else frozenset()

    def workers_on(self, executor: ExecutorName) -> int:
        """The default number of a pool's workers, by its executor."""
        by_executor: dict[ExecutorName, int] = {"process": usable_cores(), "inline": 1}
        return self.workers or by_executor.get(executor, _WORKERS)

    def capacity_for(self, workers: int) -> int:
        """This member's weight when it runs `workers` workers."""
        return self.capacity or workers

    def dead_letter_topic_for(self, topic: str) -> str:
        """The dead-letter topic of `topic`, for records that failed for good."""
        return self.dead_letter_topic.replace("{topic}", topic)

    def changelog_for(self, topic: str) -> str:
        """The changelog of a topic's keyed state.

        Raises:
            ConfigError: The group's name has characters that no topic name has, or the name is too
                long.
        """
        name = self.state_changelog_topic.replace("{topic}", topic)
        name = name.replace("{group}", self.group_id)
        if not re.fullmatch(KAFKA_NAME.regex, name):
            raise ConfigError(
                "state.changelog.topic",
                f"={self.state_changelog_topic} makes {name}, and a topic's name has "
                f"{KAFKA_NAME.words}",
                "Set it to a name without {group}",
            )
        return name

    def refuse_circles(
        self, topics: Iterable[str], *, keyed_state: bool = False, outputs: Iterable[str] = ()
    ) -> None:
        """Check that no topic to consume is written by the group, or is Kafka's own.

        Args:
            topics: The topics to consume; patterns take none of those.
            keyed_state: Whether the worker keeps state.
            outputs: Topics that handlers send to, besides `output.topics`; they may be consumed.

        Raises:
            ConfigError: A topic would feed itself, or handlers would write to one of ours.
        """
        names = named_only(topics)
        ours = [
            roles.progress(it, self.progress_topic)
            for it in sorted({self.progress_topic, self.progress_log})
        ]
        if keyed_state:
            template = self.state_changelog_topic
            ours += [roles.changelog(self.changelog_for(it), template, it) for it in names]
        roles.refuse_two_roles([*ours, *map(roles.sent, sorted({*outputs, *self.output_names}))])
        found = [*roles.consumed(names), *ours]
        if self.on_failure is OnFailure.DEAD_LETTER:
            template = self.dead_letter_topic
            found += [
                roles.dead_letters(self.dead_letter_topic_for(it), template, it) for it in names
            ]
        roles.refuse_two_roles(found)

    def refuse_output(self, topic: str) -> None:
        """Check that nobody writes records of his own to the progress topic, or one of Kafka's own.

        Raises:
            ConfigError: `topic` is one of them.
        """
        ours = [
            roles.progress(it, self.progress_topic)
            for it in sorted({self.progress_topic, self.progress_log})
        ]
        roles.refuse_two_roles([*ours, roles.output(topic)])


def chosen_topics(topics: Iterable[str]) -> tuple[str, ...]:
    """Topics as an argument gives them, held to what the setting `topics` may hold.

    Raises:
        ConfigError: If they are none, or one is no topic's name and no pattern, or they are one
            text: each of its letters would be a topic's name.
    """
    if isinstance(topics, str | bytes) or not isinstance(topics, Iterable):
        remedy = "Give a list of names, of one topic, too: ['orders']"
        raise ConfigError("topics", f"={shown(topics)} is no list of names", remedy)
    names = _names(str(SETTINGS["topics"].parse(list(topics))))
    for name in names:
        check_pattern(name)
    return names


def checked_topics(topics: Iterable[str]) -> tuple[str, ...]:
    """As `chosen_topics`, where topics can only be named.

    Raises:
        ConfigError: As `chosen_topics`, and for a pattern.
    """
    names = chosen_topics(topics)
    for name in names:
        if is_pattern(name):
            problem = f"={shown(name)} is a pattern, and only members of a group follow patterns"
            raise ConfigError("topics", problem, "Name the topics")
    return names


def _names(topics: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in topics.split(","))


SETTINGS: dict[str, Setting] = settings_of(TypedSettings)
"""The table: dotted name → setting, in the order of the documentation."""
