"""The roles of topics in a group: consumed, its progress, its dead letters, its state. Pure.

Room: `coop_consumer.config`. In: names, with the settings that gave them. Out: nothing, or a
`ConfigError` that names the setting if one topic would have two roles. Such a topic feeds itself:
each processed record writes another record to process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coop_consumer.errors import ConfigError

KAFKAS_OWN = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
"""Brokers write these themselves: for each commit, say."""


@dataclass(frozen=True, slots=True)
class Role:
    """One topic, and its use by a group.

    Attributes:
        name: The topic.
        setting: The setting or argument that named it.
        value: The value of that setting; `name` follows from it.
        words: The group's use of it, as in "is consumed here".
        feeds: What would happen if it were consumed, too.
    """

    name: str
    setting: str
    value: str
    words: str
    feeds: str = ""


def consumed(names: Iterable[str]) -> list[Role]:
    """Topics that are read."""
    return [Role(name, "topics", name, "consumed here") for name in names]


def progress(name: str, value: str) -> Role:
    """A progress topic, of the setting's name or made of it."""
    return Role(
        name,
        "progress.topic",
        value,
        "where progress is kept",
        "each commit would be a record to process, for ever",
    )


def dead_letters(name: str, template: str, topic: str) -> Role:
    """The dead-letter topic of a topic."""
    feeds = "what fails there would be sent there again, for ever"
    if name != topic:
        feeds = f"what fails in {topic} would come back as a record to process"
    words = f"where dead letters of {topic} go"
    return Role(name, "dead.letter.topic", template, words, feeds)


def changelog(name: str, template: str, topic: str) -> Role:
    """The changelog of a topic."""
    return Role(
        name,
        "state.changelog.topic",
        template,
        f"where state of {topic} goes",
        "each change of state would be a record to process, for ever",
    )


def sent(name: str) -> Role:
    """A topic that handlers send to."""
    return Role(name, "output.topics", name, "where handlers send to")


def output(name: str) -> Role:
    """The topic that a sink writes to."""
    return Role(name, "topic", name, "written to here")


def refuse_two_roles(roles: Sequence[Role]) -> None:
    """See that no topic has two roles, and none is Kafka's own. O(roles).

    Args:
        roles: The later one is named by the error if two meet.

    Raises:
        ConfigError: One has.
    """
    seen: dict[str, Role] = {}
    for role in roles:
        if role.name in KAFKAS_OWN:
            raise ConfigError(
                role.setting,
                f"={role.value}{_made(role)} is a topic of the brokers, which they write for each "
                "commit and transaction",
                "Name a topic of your own",
            )
        other = seen.setdefault(role.name, role)
        if other.setting == role.setting:
            continue  # several topics may share one for their dead letters
        why = "their records cannot be told apart"
        if other.setting == "topics":
            why = role.feeds or "what is written there would be a record to process, for ever"
        raise ConfigError(
            role.setting,
            f"={role.value}{_made(role)} is {other.words}: {why}",
            f"Name another topic, or let {role.name} not be {other.words}",
        )


def _made(role: Role) -> str:
    return "" if role.value == role.name else f" makes {role.name}, which"
