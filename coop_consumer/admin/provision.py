"""Provisions a group: the topics that it needs, made as they must be, and what differs, told.

In: a group's configuration, its topics. Out: a finding for each topic. What is missing is made.
What is there is never changed, because only its owner knows who else uses it. The judgements are
pure (`coop_consumer.status.finding`), and so are the rights (`coop_consumer.status.rights`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from coop_consumer.admin.topic_admin import TopicAdmin
from coop_consumer.config import Config, OnFailure, choice_of
from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    CoopConsumerError,
    ExitCode,
)
from coop_consumer.kafka.admin_calls import OFFSETS_TOPIC
from coop_consumer.kafka.own_topics import (
    changelog_shape,
    progress_topic_settings,
    progress_topic_shape,
    shape_if_any,
    shape_of,
)
from coop_consumer.plain_text import counted
from coop_consumer.status.finding import (
    Finding,
    Severity,
    TopicShape,
    create_command,
    differing_partitions,
    fail,
    failed_by,
    judge_changelog,
    judge_dead_letters,
    judge_progress_topic,
    letters_shape,
    ok,
    times,
    warn,
)
from coop_consumer.status.rights import NeededRight, needed_rights

_Judge = Callable[[TopicShape], tuple[Finding, ...]]


@dataclass(frozen=True, slots=True)
class ProvisionedTopic:
    """A topic that the group needs for itself.

    Attributes:
        role: What for: "progress topic", "dead-letter topic" or "changelog".
        shape: What it is to be like; its settings are those that it gets when it is made.
        is_new: Whether it was not there before.
        findings: What was found, or done.
    """

    role: str
    shape: TopicShape
    is_new: bool
    findings: tuple[Finding, ...]


class Provisioner:
    """Looks at the topics of one group, and makes those that are missing.

    Args:
        config: A member's.
        topics: The topics that the group consumes, by name or pattern.
        keyed_state: Whether its worker keeps state.

    Attributes:
        topics: Those topics by name, as they are now.
        patterns: The patterns among `topics`.

    Raises:
        ConfigError: A topic would feed itself, or has two roles.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """

    def __init__(self, config: Config, topics: Sequence[str], *, keyed_state: bool) -> None:
        self._config = config
        self._keyed_state = keyed_state
        self._admin = TopicAdmin(config)
        self._admin.check_broker()
        choice = choice_of(config, topics)
        names = sorted(self._admin.chosen(choice))
        config.refuse_circles(names, keyed_state=keyed_state)
        self.patterns = choice.patterns
        self.topics = tuple(shape_of(self._admin, name) for name in names)

    @property
    def rights(self) -> tuple[NeededRight, ...]:
        """The rights that the group's user needs."""
        names = [topic.name for topic in self.topics]
        return needed_rights(self._config, names, keyed_state=self._keyed_state)

    def consumed(self) -> Iterator[Finding]:
        """The topics that are there already: those that the group consumes, and sends to."""
        for topic in self.topics:
            yield ok(f"topic {topic.name}", counted(topic.partitions, "partition"))
        for pattern in self.patterns:
            yield warn(
                f"topics {pattern}",
                "the topics that match now are provided for, and none that come later",
                "Call init again for those, or grant rights to a prefix of their names",
            )
        for name in sorted(self._config.output_names):
            yield self._output(name)

    def _output(self, name: str) -> Finding:
        check = f"topic {name}"
        try:
            shape = shape_if_any(self._admin, name)
        except AuthorizationError as error:
            return failed_by(check, error)
        if shape is None:
            remedy = self._config.command("topic", "create", name)
            return fail(check, "does not exist, and handlers send to it", remedy, ExitCode.MISSING)
        return ok(check, f"for output, {counted(shape.partitions, 'partition')}")

    def provide(self, *, dry_run: bool) -> Iterator[ProvisionedTopic]:
        """See each topic of the group, and make it if it is missing.

        What is refused is a finding, and ends nothing.

        Args:
            dry_run: Make nothing.

        Raises:
            BrokerUnreachableError: No broker answered.
        """
        for role, wanted, judge in self._due():
            try:
                found = shape_if_any(self._admin, wanted.name)
                if found is not None:
                    yield ProvisionedTopic(role, wanted, is_new=False, findings=judge(found))
                    continue
                told = self._missing(role, wanted) if dry_run else self._made(role, wanted)
            except BrokerUnreachableError:
                raise
            except CoopConsumerError as error:
                told = failed_by(f"{role} {wanted.name}", error)
            yield ProvisionedTopic(role, wanted, is_new=True, findings=(told,))

    def _due(self) -> Iterator[tuple[str, TopicShape, _Judge]]:
        """Each topic with its role, what it is to be like, and who judges one that is there."""
        config, where = self._config, self._config.bootstrap_servers
        brokers, like = self._admin.brokers(), self._like()
        progress = progress_topic_shape(config, like, brokers, is_own=config.exactly_once)

        def judged_progress(found: TopicShape) -> tuple[Finding, ...]:
            settings = progress_topic_settings(config)
            named = differing_partitions(found, config.progress_topic_partitions)
            return (*judge_progress_topic(found, like, settings, brokers, where), *named)

        yield "progress topic", progress, judged_progress
        if config.on_failure is OnFailure.DEAD_LETTER:
            for name, topics in self._by_dead_letters().items():
                letters = letters_shape(_largest(topics), name)
                yield "dead-letter topic", letters, partial(self._judged_letters, topics)
        if self._keyed_state:
            for topic in self.topics:
                log = changelog_shape(config, topic)
                yield "changelog", log, partial(_judged_changelog, log, where)

    def _by_dead_letters(self) -> dict[str, list[TopicShape]]:
        """The topics by the name of their dead-letter topic; they may share one."""
        found: dict[str, list[TopicShape]] = {}
        for topic in self.topics:
            found.setdefault(self._config.dead_letter_topic_for(topic.name), []).append(topic)
        return found

    def _judged_letters(
        self, topics: Sequence[TopicShape], found: TopicShape
    ) -> tuple[Finding, ...]:
        where = self._config.bootstrap_servers
        told = [
            it for topic in topics for it in judge_dead_letters(topic, found, found.name, where)
        ]
        return tuple(it for it in told if it.level is not Severity.OK) or (told[0],)

    def _like(self) -> TopicShape | None:
        """Kafka's own offsets topic; None: it does not exist yet, or may not be seen."""
        try:
            return shape_if_any(self._admin, OFFSETS_TOPIC)
        except AuthorizationError:
            return None

    def _missing(self, role: str, wanted: TopicShape) -> Finding:
        command = create_command(self._config.bootstrap_servers, wanted)
        return warn(
            f"{role} {wanted.name}", "does not exist; without --dry-run it is made", command
        )

    def _made(self, role: str, wanted: TopicShape) -> Finding:
        _, facts = self._admin.make(
            wanted.name, wanted.partitions, wanted.replication, wanted.settings
        )
        text = f"made, {counted(facts.partitions, 'partition')}, kept {times(facts.replication)}"
        return ok(f"{role} {wanted.name}", text)


def _largest(topics: Sequence[TopicShape]) -> TopicShape:
    """A topic that takes whatever one of these takes."""
    takes_most = max(topics, key=lambda it: int(it.settings.get("max.message.bytes", 0)))
    return replace(
        takes_most,
        partitions=max(it.partitions for it in topics),
        replication=max(it.replication for it in topics),
    )


def _judged_changelog(wanted: TopicShape, bootstrap: str, found: TopicShape) -> tuple[Finding, ...]:
    return tuple(judge_changelog(found, wanted, bootstrap))
