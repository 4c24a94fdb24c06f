"""Topics for people: made, listed, and shown with their partitions.

In: a configuration, names. Out: values to show, or an error that says what to do. Blocking calls;
it asks the brokers, and reads no record.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin._config import ConfigEntry, ConfigResource, ConfigSource
from confluent_kafka.admin._resource import ResourceType

from assignors import TopicPartition
from coop_consumer.errors import (
    AuthorizationError,
    CoopConsumerError,
    TopicMissingError,
    UnexpectedAnswerError,
)
from coop_consumer.kafka.patience import LEADERLESS_S
from coop_consumer.kafka.topics import EARLIEST, LATEST, TopicFacts, Topics
from coop_consumer.kafka.translate import translated
from coop_consumer.plain_text import counted
from coop_consumer.status.errors import TopicDiffersError, TopicRefusedError

BROKERS_DEFAULT = -1
"""Kafka's word for "as the brokers are set"."""

_DENIED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_REMEDIES = {
    KafkaError.INVALID_PARTITIONS: "Give --partitions a number that the brokers allow",
    KafkaError.INVALID_REPLICATION_FACTOR: (
        "Give --replication no more copies than there are brokers"
    ),
    KafkaError.INVALID_CONFIG: (
        "Correct --topic-config; Kafka's documentation lists the settings of topics"
    ),
    KafkaError.TOPIC_EXCEPTION: "Choose another name",
}


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition, as brokers describe it.

    Attributes:
        number: Which one.
        begin: Its first offset; None: no broker says.
        end: The offset that its next record gets; None: no broker says.
        leader: The broker that leads it; None: none does.
        replicas: The brokers that are to have it.
        in_sync: Those that have all of it.
    """

    number: int
    begin: int | None
    end: int | None
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic, as brokers describe it.

    Attributes:
        name: Its name.
        id: As Kafka's tools write it.
        partitions: By number.
        settings: Its own settings; all others are the brokers'.
    """

    name: str
    id: str
    partitions: tuple[PartitionView, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


class TopicAdmin(Topics):
    """Makes topics, lists them, and shows them."""

    def make(
        self, name: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> tuple[bool, TopicFacts]:
        """Make a topic; whether it is new, and its facts once brokers serve all of it.

        One that is there already, as it was to be, is no error. Only what is named is compared.

        Args:
            name: Its name.
            partitions: Their number, or `BROKERS_DEFAULT`.
            replication: Copies, or `BROKERS_DEFAULT`.
            settings: Its own settings.

        Raises:
            TopicDiffersError: It is there, and differs.
            UnexpectedAnswerError: It is made, and has a partition that nobody leads for a minute.
            TopicRefusedError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        there = self.find(name)
        if there is not None:
            self._refuse_other(name, there, partitions, replication, settings)
            return False, there
        refused = self.create(name, partitions, replication, settings)
        if refused is not None:
            raise _refusal(name, refused, self._config.user)
        return True, self._once_served(name, partitions)

    def _once_served(self, name: str, partitions: int) -> TopicFacts:
        """A topic just made, once each partition has a leader that knows itself to be it.

        Brokers know of a topic at once, and begin to lead one partition after the other: 2,000 of
        them take seconds.
        """
        facts = self.once_made(name, partitions)
        places = [TopicPartition(name, number) for number in range(facts.partitions)]
        until_s = time.monotonic() + LEADERLESS_S
        while True:
            try:
                self.offsets(places, EARLIEST)
            except UnexpectedAnswerError as error:
                if time.monotonic() >= until_s:
                    error.add_note(f"Topic {name} is made. It can be used once that has passed.")
                    raise
            else:
                return facts

    def _refuse_other(
        self,
        name: str,
        there: TopicFacts,
        partitions: int,
        replication: int,
        settings: Mapping[str, str],
    ) -> None:
        if partitions not in (BROKERS_DEFAULT, there.partitions):
            has = counted(there.partitions, "partition")
            raise TopicDiffersError(name, f"with {has}, not {partitions}")
        if replication not in (BROKERS_DEFAULT, there.replication):
            problem = f"with replication {there.replication}, not {replication}"
            raise TopicDiffersError(name, problem)
        if settings:
            found = self.settings_of(name)
            for setting, value in settings.items():
                if found.get(setting, value) != value:  # settings that we may not see pass
                    problem = f"with {setting}={found[setting]}, not {value}"
                    raise TopicDiffersError(name, problem)

    def sizes(self, *, internal: bool) -> dict[str, TopicFacts]:
        """All topics that this user may describe, by name.

        Args:
            internal: Also those whose names begin with two underscores: Kafka's, and progress.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        names = self.names_that_begin("") if internal else self.names()
        while names:
            try:
                return self.describe(names, patience_s=0)
            except TopicMissingError as gone:  # since it was listed
                names.remove(gone.topic)
        return {}

    def view(self, name: str) -> TopicView:
        """One topic with its partitions.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        facts = self.describe([name], verb="done")[name]  # it asks again while brokers disagree
        [asked] = self.admin.describe_topics(TopicCollection([name])).values()
        found: Any = self._answer(asked, f"topic {name}")
        numbers = sorted(it.id for it in found.partitions)
        begins, ends = self._known(name, numbers, EARLIEST), self._known(name, numbers, LATEST)
        partitions = tuple(
            PartitionView(
                number=it.id,
                begin=begins.get(it.id),
                end=ends.get(it.id),
                leader=None if it.leader is None or it.leader.id < 0 else it.leader.id,
                replicas=tuple(node.id for node in it.replicas),
                in_sync=tuple(node.id for node in it.isr),
            )
            for it in sorted(found.partitions, key=lambda it: it.id)
        )
        readable_id = urlsafe_b64encode(facts.id).decode().rstrip("=")
        return TopicView(name, readable_id, partitions, self._own_settings(name))

    def _known(self, name: str, numbers: list[int], spec: Any) -> dict[int, int]:
        """Offsets by partition; none if a partition has no leader that could say."""
        try:
            found = self.offsets([TopicPartition(name, number) for number in numbers], spec)
        except CoopConsumerError:
            return {}
        return {tp.partition: offset for tp, offset in found.items()}

    def _own_settings(self, name: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, name)
        [asked] = self.admin.describe_configs([resource]).values()
        try:
            found: dict[str, ConfigEntry] = self._answer(asked, f"topic {name}")
        except AuthorizationError:
            return {}
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG
        return {
            key: entry.value or ""
            for key, entry in sorted(found.items())
            if entry.source in (own, own.value)
        }


def _refusal(name: str, error: KafkaError, user: str) -> CoopConsumerError:
    if error.code() in _DENIED:
        return AuthorizationError(f"topic {name}", "create", user)
    if error.code() in _REMEDIES or error.code() == KafkaError.POLICY_VIOLATION:
        remedy = _REMEDIES.get(error.code(), "Ask who runs the brokers which policy refuses it")
        return TopicRefusedError(name, error.str(), remedy)
    return translated(error, f"topic {name}", user, "create")
