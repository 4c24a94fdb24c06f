"""The rights that a group needs at the brokers, no more and no less. Pure.

In: a group's configuration, its topics, what its worker does. Out: the rights as values, and as
text for the tools that grant them. docs/security.md has the same table. It also has the rights that
only spare an administrator work.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from coop_consumer.config import Config, OnFailure
from coop_consumer.errors import ConfigError, grant_command
from coop_consumer.status.finding import TopicShape

READ, WRITE = "Read", "Write"


class ResourceKind(StrEnum):
    """What a right is about, in the words of Kafka's protocol."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    TRANSACTIONAL_ID = "TRANSACTIONAL_ID"

    @property
    def words(self) -> str:
        """For people."""
        return "transactional.id" if self is ResourceKind.TRANSACTIONAL_ID else self.value.lower()


@dataclass(frozen=True, slots=True)
class NeededRight:
    """What the user of a group must be allowed to do with a resource.

    Attributes:
        kind: The kind of the resource.
        name: Its name.
        operations: `READ`, `WRITE`, or both.
        purpose: What for.
        is_prefix: Whether all resources are meant whose names begin so.
    """

    kind: ResourceKind
    name: str
    operations: tuple[str, ...]
    purpose: str
    is_prefix: bool = False

    def __str__(self) -> str:
        pattern = f"{self.name}*" if self.is_prefix else self.name
        return f"{' and '.join(self.operations)} on {self.kind.words} {pattern}"


def needed_rights(
    config: Config, topics: Iterable[str], *, keyed_state: bool = False
) -> tuple[NeededRight, ...]:
    """The rights of a user who runs members, and looks at the group with `status`.

    Args:
        config: A member's.
        topics: The topics that the group consumes, by name.
        keyed_state: Whether its worker keeps state.

    Raises:
        ConfigError: The name of a changelog would not be valid.
    """
    topics = sorted(topics)
    progress = "reading what other members have finished, and committing progress"
    found = [
        *(_topic(name, "fetching its records", READ) for name in topics),
        NeededRight(
            ResourceKind.GROUP,
            config.group_id,
            (READ,),
            "joining it, and committing the offsets that lag tools see",
        ),
        _topic(config.progress_log, progress, READ, WRITE),
    ]
    if config.exactly_once:
        prefix = f"{config.transactional_id_prefix}{config.group_id}-"
        purpose = "its transactions, and ending those of members that are gone"
        found += [
            NeededRight(ResourceKind.TRANSACTIONAL_ID, prefix, (WRITE,), purpose, is_prefix=True),
            _topic(config.progress_topic, "policies of topics, so that they bind it", READ),
        ]
    if config.on_failure is OnFailure.DEAD_LETTER:
        letters = sorted({config.dead_letter_topic_for(name) for name in topics})
        found += [_topic(name, "dead letters", WRITE) for name in letters]
    if keyed_state:
        changelogs = [config.changelog_for(name) for name in topics]
        found += [_topic(name, "keyed state", READ, WRITE) for name in changelogs]
    found += [_topic(name, "what handlers send", WRITE) for name in sorted(config.output_names)]
    return tuple(_joined(found))


def _topic(name: str, purpose: str, *operations: str) -> NeededRight:
    return NeededRight(ResourceKind.TOPIC, name, operations, purpose)


def _joined(rights: Iterable[NeededRight]) -> Iterator[NeededRight]:
    """One right for each resource: a topic may be consumed, and sent to."""
    found: dict[tuple[str, str], list[NeededRight]] = {}
    for right in rights:
        found.setdefault((right.kind, right.name), []).append(right)
    for same in found.values():
        first = same[0]
        operations = tuple(sorted({it for right in same for it in right.operations}))
        purpose = "; ".join(right.purpose for right in same)
        yield NeededRight(first.kind, first.name, operations, purpose, first.is_prefix)


# ── For the tools that grant them ──

_STRIMZI_TYPES = {
    ResourceKind.TOPIC: "topic",
    ResourceKind.GROUP: "group",
    ResourceKind.TRANSACTIONAL_ID: "transactionalId",
}
_STRIMZI_API = "kafka.strimzi.io/v1"
"""Strimzi has it since 0.49, and nothing older since 1.0."""
_NAME_BYTES_MAX = 253
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_OBJECT_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def kafka_acls(rights: Iterable[NeededRight], principal: str, bootstrap: str) -> Iterator[str]:
    """The commands of Kafka's own tool, a line each."""
    for right in rights:
        what = f"{right.kind.words} {right.name}"
        yield grant_command(what, right.operations, principal, bootstrap, is_prefix=right.is_prefix)


def check_strimzi_user(principal: str) -> None:
    """See that Strimzi can have this user: it calls a user by its object.

    Raises:
        ConfigError: Kubernetes takes no object of this name.
    """
    if not _is_object_name(principal.removeprefix("User:").removeprefix("CN=")):
        raise ConfigError(
            "--principal",
            f"={principal}: Strimzi calls a user by its object, and Kubernetes takes no object of "
            "this name",
            "Name one as in User:ann, or User:CN=ann for a certificate; or leave out --as strimzi",
        )


def strimzi_user(rights: Iterable[NeededRight], principal: str) -> Iterator[str]:
    """A KafkaUser of Strimzi, as lines of YAML; JSON's texts are YAML's, too.

    Args:
        rights: What it may do.
        principal: One that `check_strimzi_user` lets pass.
    """
    user = principal.removeprefix("User:")
    name = user.removeprefix("CN=")
    yield from _strimzi_head("KafkaUser", name)
    if name != user:  # of a certificate that Strimzi does not issue
        yield from ("  authentication:", "    type: tls-external")
    yield from ("  authorization:", "    type: simple", "    acls:")
    for right in rights:
        yield "      - resource:"
        yield f"          type: {_STRIMZI_TYPES[right.kind]}"
        yield f"          name: {json.dumps(right.name)}"
        yield f"          patternType: {'prefix' if right.is_prefix else 'literal'}"
        yield f"        operations: [{', '.join(right.operations)}]"


def strimzi_topic(topic: TopicShape) -> Iterator[str]:
    """A KafkaTopic of Strimzi, as lines of YAML."""
    yield from _strimzi_head("KafkaTopic", _object_name(topic.name))
    yield f"  topicName: {json.dumps(topic.name)}"
    yield f"  partitions: {topic.partitions}"
    yield f"  replicas: {topic.replication}"
    if topic.settings:
        yield "  config:"
        for name, value in sorted(topic.settings.items()):
            yield f"    {name}: {json.dumps(value)}"


def _strimzi_head(kind: str, name: str) -> tuple[str, ...]:
    return (
        "---",
        f"apiVersion: {_STRIMZI_API}",
        f"kind: {kind}",
        "metadata:",
        f"  name: {name}",
        "  labels:",
        "    strimzi.io/cluster: CLUSTER",
        "spec:",
    )


def _object_name(name: str) -> str:
    """A name that Kubernetes takes, and no other topic's object has.

    >>> _object_name("orders"), _object_name("Orders_eu")
    ('orders', 'orders-eu-71abd3ad')
    """
    if _is_object_name(name):
        return name
    mark = f"-{sha256(name.encode()).hexdigest()[:8]}"
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return (words[: _NAME_BYTES_MAX - len(mark)] + mark).strip("-")


def _is_object_name(name: str) -> bool:
    return len(name) <= _NAME_BYTES_MAX and _OBJECT_NAME.fullmatch(name) is not None
