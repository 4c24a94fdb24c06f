"""A group as its coordinator describes it, with the user data of its members.

In: a configuration. Out: a `GroupDescription`, committed offsets. The view uses both clients:
kafka-python returns the members' user data, which confluent's drops; confluent's knows groups of
the newer protocol. Foreign errors are translated here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka.admin import AdminClient
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from assignors import WHOLE, TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import AuthorizationError, BrokerUnreachableError
from coop_consumer.kafka.admin_settings import for_admin, forget_coordinator
from coop_consumer.kafka.coordinator import PAUSE_S, description_of
from coop_consumer.kafka.membership import metadata_of
from coop_consumer.planning import PROTOCOL
from coop_consumer.status.seen import NO_GROUP, GroupDescription, MemberSeen, member_seen
from offsets import Committed

T = TypeVar("T")

_TIMEOUT_S = 10.0
_SUCCESSOR_S = 5.0
"""How long a client that takes the place of a failed one tries to reach a broker. Where brokers
are, that takes a moment; where none is, somebody waits to hear it."""
_DEAD = NO_GROUP.state
_NO_ERROR = (0, kafka_errors.GroupIdNotFoundError.errno)
_LOADING = (
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.NotCoordinatorError,
)


class StayingDescriber:
    """A client that describes groups, and stays open between two questions, until `close`.

    It may be asked about any group. One thread at a time.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._open: _Describer | None = None

    def close(self) -> None:
        """Close the client, if there is one."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def asked(self, ask: Callable[[_Describer], T]) -> T:
        """What the client answers; one that has failed does not stay open.

        Raises:
            KafkaError: Of kafka-python.
        """
        bootstrap_s = _TIMEOUT_S
        if self._open is not None:
            bootstrap_s = _SUCCESSOR_S
            try:
                return ask(self._open)
            except kafka_errors.AuthorizationError:
                raise  # about this group: for others the client is as good as before
            except kafka_errors.KafkaError:
                self.close()  # perhaps a connection was closed meanwhile: a new client
        try:
            self._open = _new_describer(self._config, bootstrap_s)
            return ask(self._open)
        except BaseException:
            self.close()
            raise


class CoordinatorView:
    """One group; each call asks the coordinator. See `member.ports.GroupView`.

    Args:
        config: Names the group, and how to reach its coordinator.
        admin: The confluent client, for groups that are not of the classic protocol.
        describer: Answers the other questions; None: each has a client of its own.
    """

    def __init__(
        self,
        config: Config,
        admin: Callable[[], AdminClient],
        describer: StayingDescriber | None = None,
    ) -> None:
        self._config = config
        self._admin = admin
        self._describer = describer

    def _asked(self, ask: Callable[[_Describer], T]) -> T:
        if self._describer is None:
            with _describing(self._config) as describer:
                return ask(describer)
        with _translated(self._config):
            return self._describer.asked(ask)

    def described(self) -> GroupDescription:
        """The group's state and members, with the user data of our own members."""
        group = self._config.group_id

        def ask(it: _Describer) -> Any:
            return _when_loaded(it, group, lambda: it.describe_groups([group]))[group]

        found = self._asked(ask)
        if found.group_state == _DEAD:
            return self._of_newer_protocol()
        members = tuple(_member(it, plain=found.protocol_data != PROTOCOL) for it in found.members)
        return GroupDescription(found.group_state, found.protocol_data, members)

    def _of_newer_protocol(self) -> GroupDescription:
        """A group that is not of the classic protocol, or no group: all members are plain ones."""
        found = description_of(self._admin(), self._config.group_id)
        if found is None:
            return NO_GROUP
        members = tuple(
            MemberSeen(
                name=member.member_id,
                host=str(member.host).lstrip("/"),
                ranges={
                    TopicPartition(place.topic, place.partition): (WHOLE,)
                    for place in member.assignment.topic_partitions
                },
            )
            for member in found.members
        )
        return GroupDescription(found.state.name.capitalize(), found.partition_assignor, members)

    def committed(self) -> dict[TopicPartition, Committed]:
        """The group's committed offsets in Kafka's own store, with their metadata."""
        return self._asked(lambda it: _committed_offsets(it, self._config.group_id))


def committed_offsets(config: Config) -> dict[TopicPartition, Committed]:
    """The group's committed offsets in Kafka's own store, with their metadata.

    Not by Confluent's admin client: if the coordinator has moved or is not ready, librdkafka's
    crashes with a null pointer (its issue 5040).

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    with _describing(config) as describer:
        return _committed_offsets(describer, config.group_id)


def _committed_offsets(describer: _Describer, group: str) -> dict[TopicPartition, Committed]:
    found = _when_loaded(describer, group, lambda: describer.list_group_offsets(group))[group]
    return {
        TopicPartition(place.topic, place.partition): Committed(value.offset, metadata_of(value))
        for place, value in found.items()
        if value.offset >= 0
    }


def broker_version(config: Config) -> str:
    """Kafka's version as its protocol shows it, such as "4.3".

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    with _describing(config) as describer:
        return ".".join(map(str, describer.broker_version()))


def newest_version(config: Config, api_key: int) -> int:
    """The newest version of a request that a broker offers; -1: it does not know the request.

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    with _describing(config) as describer:
        return describer.newest_version(api_key)


class _Describer(KafkaAdminClient):  # type: ignore[misc] # kafka-python ships no types
    """kafka-python's admin client, which returns a group as the coordinator sent it.

    Confluent's client drops the members' user data. kafka-python's own answer turns the user data
    into text, which mixes up bytes that are not UTF-8 with their escapes.
    """

    def broker_version(self) -> tuple[int, ...]:
        """The newest version whose requests the broker offers."""
        found: tuple[int, ...] = self._manager.broker_version
        return found

    def newest_version(self, api_key: int) -> int:
        """See the function of this name."""
        offered: Mapping[int, tuple[int, int]] = self._manager.broker_version_data.api_versions
        _, newest = offered.get(api_key, (-1, -1))
        return newest

    def _describe_groups_process_response(self, response: Any) -> dict[str, Any]:
        for group in response.groups:
            if group.error_code not in _NO_ERROR:
                raise kafka_errors.for_code(group.error_code)
        return {group.group_id: group for group in response.groups}


def _new_describer(config: Config, bootstrap_s: float = _TIMEOUT_S) -> _Describer:
    settings = for_admin(config.membership())
    settings |= {
        "request_timeout_ms": int(_TIMEOUT_S * 1_000),
        "bootstrap_timeout_ms": int(bootstrap_s * 1_000),
    }
    return _Describer(**settings)


def _when_loaded(describer: KafkaAdminClient, group: str, ask: Callable[[], T]) -> T:
    """Repeat a question until the coordinator answers: a broker takes a moment after its start.

    The coordinator may have moved meanwhile, so it is looked up before each further try.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            return ask()
        except _LOADING:
            if time.monotonic() > deadline:
                raise
            forget_coordinator(describer, group)
            time.sleep(PAUSE_S)


@contextmanager
def _describing(config: Config) -> Iterator[_Describer]:
    """A client that describes groups, with our errors."""
    with _translated(config):
        admin = _new_describer(config)
        try:
            yield admin
        finally:
            admin.close()


@contextmanager
def _translated(config: Config) -> Iterator[None]:
    """Errors of the client in our words."""
    where = f"group {config.group_id}"
    try:
        yield
    except (kafka_errors.AuthorizationError, kafka_errors.SaslAuthenticationFailedError) as error:
        login = isinstance(error, kafka_errors.SaslAuthenticationFailedError)
        raise AuthorizationError(
            where, "authenticate" if login else "describe", config.user
        ) from error
    except kafka_errors.KafkaError as error:
        raise BrokerUnreachableError(config.bootstrap_servers, str(error)) from error


def _member(found: Any, *, plain: bool) -> MemberSeen:
    """A member. If `plain`, the group has plain members, and its user data are not ours."""
    told = _decoded(ConsumerProtocolSubscription, found.member_metadata)
    planned = _decoded(ConsumerProtocolAssignment, found.member_assignment)
    return member_seen(
        found.member_id,
        str(found.client_host).lstrip("/"),
        topics=told.topics if told else (),
        subscription=bytes(told.user_data or b"") if told and not plain else b"",
        assignment=bytes(planned.user_data or b"") if planned and not plain else b"",
        partitions=[
            TopicPartition(topic.topic, number)
            for topic in (planned.assigned_partitions if planned else ())
            for number in topic.partitions
        ],
    )


def _decoded(kind: Any, data: Any) -> Any:
    """A message of the consumer protocol; None if there is none or it cannot be read."""
    try:
        return kind.decode(bytes(data)) if data else None
    except Exception:  # noqa: BLE001 - foreign bytes may raise anything in a decoder
        return None
