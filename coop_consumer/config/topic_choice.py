"""Which topics a member consumes: those that are named, and those that match a pattern. Pure.

Room: `coop_consumer.config`. In: names and patterns, as a user gives them; the topics that exist.
Out: the topics to consume. A name that begins with `^` is a pattern, as librdkafka has it: a
regular expression for the beginning of a topic's name. A pattern never takes what the group itself
writes, nor topics that begin with `__`; whoever wants to consume such a topic names it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.config.setting import shown
from coop_consumer.errors import ConfigError

if TYPE_CHECKING:
    from coop_consumer.config.settings import TypedSettings

_ANY_TOPIC = r"[A-Za-z0-9._-]+"


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Topics by name and by pattern.

    Attributes:
        named: The topics that are named.
        patterns: The patterns.
        spared: A regular expression for whole names of topics that no pattern takes.
    """

    named: frozenset[str]
    patterns: tuple[str, ...] = ()
    spared: str = ""

    def follows(self, topic: str) -> str | None:
        """The first pattern that takes a topic; None: none does, or the topic is named.

        >>> choice = TopicChoice(frozenset({"bills"}), ("^orders-", "^b"), r".*[.]dlq")
        >>> [choice.follows(it) for it in ("orders-eu", "orders-eu.dlq", "bills", "__orders-")]
        ['^orders-', None, None, None]
        """
        if topic in self.named or topic.startswith("__") or re.fullmatch(self.spared, topic):
            return None
        return next((pattern for pattern in self.patterns if re.match(pattern, topic)), None)

    def among(self, topics: Iterable[str]) -> frozenset[str]:
        """The topics to consume, if these exist; named ones whether they exist or not."""
        return self.named | {topic for topic in topics if self.follows(topic) is not None}


def choice_of(
    config: TypedSettings, topics: Iterable[str], outputs: Collection[str] = ()
) -> TopicChoice:
    """The choice of a member.

    Args:
        config: Says what the group itself writes.
        topics: Names and patterns.
        outputs: Topics that handlers send to, besides `output.topics`.
    """
    given = tuple(dict.fromkeys(topics))
    own = {config.progress_topic, config.own_progress_log, *outputs, *config.output_names}
    templates = (
        config.dead_letter_topic,
        config.state_changelog_topic.replace("{group}", config.group_id),
    )
    spared = [re.escape(name) for name in sorted(own)] + [
        _ANY_TOPIC.join(map(re.escape, template.split("{topic}"))) for template in templates
    ]
    return TopicChoice(
        frozenset(name for name in given if not is_pattern(name)),
        tuple(name for name in given if is_pattern(name)),
        "|".join(spared),
    )


def is_pattern(name: str) -> bool:
    """Whether a name stands for all topics that match it."""
    return name.startswith("^")


def named_only(topics: Iterable[str]) -> list[str]:
    """Those that are no patterns."""
    return [name for name in topics if not is_pattern(name)]


def check_pattern(name: str) -> None:
    """See that a name, if it is a pattern, is a regular expression.

    Raises:
        ConfigError: It is none.
    """
    if not is_pattern(name):
        return
    try:
        re.compile(name)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(
            "topics",
            f"={shown(name)} is no regular expression ({error})",
            "Correct it; a comma would end it: ^orders-(eu|us) names two",
        ) from error
