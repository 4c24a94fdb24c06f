"""Questions about many groups at once, and what `gc` changes. Thread-safe.

In: names of groups, offsets. Out: futures of what coordinators have answered, with our errors. See
`GroupOffsets` for the client.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from enum import Enum, auto
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeGroupsRequest

from assignors import TopicPartition
from coop_consumer.errors import AuthorizationError, UnexpectedAnswerError
from coop_consumer.kafka.group_offsets import GroupOffsets
from coop_consumer.kafka.membership import metadata_of
from coop_consumer.planning import PROTOCOL
from coop_consumer.status.errors import GroupInUseError
from coop_consumer.status.seen import NO_GROUP
from offsets import Committed

EMPTY = "Empty"
"""The coordinator's word for a group without members."""
_GONE = kafka_errors.GroupIdNotFoundError
_CLASSIC = ("", "classic")
"""The type of a group of the classic protocol; "": an old broker knows no other."""
_NO_TOPIC = (
    kafka_errors.UnknownTopicIdError.errno,
    kafka_errors.UnknownTopicOrPartitionError.errno,
)


class Whose(Enum):
    """Whose a group is, by what it shows."""

    OURS = auto()
    """It has members of this library."""
    OURS_EMPTY = auto()
    """It has no members, and has committed offsets of this library."""
    UNKNOWN = auto()
    """Neither is so: it is of others, or rebalances just now."""


class Groups(GroupOffsets):
    """All groups of a cluster, as far as this user may see them."""

    def listed(self) -> Future[dict[str, str]]:
        """The state of each group that Kafka knows, of any protocol; "": the broker is old.

        A group that this user may not describe is left out: ask for its `state`.
        """

        async def ask() -> dict[str, str]:
            return _states(await self._client._async_list_groups())

        return self.begin("", ask)

    def listed_classic(self) -> Future[dict[str, str]]:
        """The same of groups of the classic protocol, which all of ours are.

        The future raises:
            AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say.
        """

        async def ask() -> dict[str, str]:
            found = await self._client._async_list_groups()
            return _states(it for it in found if (it.get("group_type") or "").lower() in _CLASSIC)

        return self.begin("", ask)

    def whose(self, group: str, state: str) -> Future[Whose]:
        """Whose a group of the classic protocol is; asked once, whoever lists groups asks again.

        Args:
            group: Its id.
            state: As it was listed.

        The future raises:
            AuthorizationError: This user may not describe it.
            BrokerUnreachableError, UnexpectedAnswerError: As they say.
        """

        async def ask() -> Whose:
            if state != EMPTY:
                found = await self._described(group)
                if found is None or found.group_state != EMPTY:
                    is_ours = found is not None and found.protocol_data == PROTOCOL
                    return Whose.OURS if is_ours else Whose.UNKNOWN
            committed = await self._committed_of(group)
            is_ours = any(it.tagged[0] is not None for it in committed.values())
            return Whose.OURS_EMPTY if is_ours else Whose.UNKNOWN

        # No patience: the groups of a coordinator that loads would hold up all others.
        return self.begin(group, ask, 0.0)

    def state(self, group: str) -> Future[str]:
        """The state of a group of the classic protocol; "Dead": there is none.

        The future raises:
            AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say.
        """

        async def ask() -> str:
            found = await self._described(group)
            return NO_GROUP.state if found is None else str(found.group_state)

        return self.begin(group, ask)

    async def _described(self, group: str) -> Any:
        """The group as its coordinator describes it; None: there is no group of this name."""
        node = await self._client._find_coordinator_id(group)
        request = DescribeGroupsRequest(groups=[group])
        [found] = (await self._client._manager.send(request, node_id=node)).groups
        error = kafka_errors.for_code(found.error_code)
        if error is _GONE:
            return None
        if error is kafka_errors.GroupAuthorizationFailedError:
            raise AuthorizationError(f"group {group}", "describe", self._config.user)
        if error is not kafka_errors.NoError:
            raise error
        return found

    def all_committed(self, group: str) -> Future[dict[TopicPartition, Committed]]:
        """Everything that a group has committed, as far as this user may see its topics.

        The future raises:
            AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say.
        """
        return self.begin(group, lambda: self._committed_of(group))

    async def _committed_of(self, group: str) -> dict[TopicPartition, Committed]:
        try:
            found = (await self._client._async_list_group_offsets({group: None}))[group]
        except _GONE:
            return {}
        return {
            TopicPartition(place.topic, place.partition): Committed(it.offset, metadata_of(it))
            for place, it in found.items()
            if it.offset >= 0
        }

    def delete(self, group: str) -> Future[None]:
        """Delete a group and its committed offsets; one that does not exist is deleted already.

        The future raises:
            GroupInUseError: It has members, so it was left alone.
            AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say.
        """

        async def ask() -> None:
            told = (await self._client._async_delete_groups([group]))[group]
            error = kafka_errors.NoError if told == "OK" else getattr(kafka_errors, told)
            if error is kafka_errors.NonEmptyGroupError:
                raise GroupInUseError(group, ("one that has just joined",))
            if error is kafka_errors.GroupAuthorizationFailedError:
                raise AuthorizationError(f"group {group}", "delete", self._config.user)
            if error not in (kafka_errors.NoError, _GONE):
                raise error

        return self.begin(group, ask)

    def topic_names(self, ids: Collection[bytes]) -> Future[dict[bytes, str]]:
        """The names of the topics with these ids; those that do not exist are left out.

        The future raises:
            AuthorizationError: This user may not describe one of them.
            BrokerUnreachableError, UnexpectedAnswerError: As they say.
        """
        asked = [uuid.UUID(bytes=it) for it in ids]

        async def ask() -> dict[bytes, str]:
            if not asked:
                return {}
            found = await self._client._get_cluster_metadata(asked)
            names = {}
            for topic in found["topics"]:
                topic_id, code = uuid.UUID(str(topic["topic_id"])), topic["error_code"]
                if not code:
                    names[topic_id.bytes] = topic["name"]
                elif code == kafka_errors.TopicAuthorizationFailedError.errno:
                    where = f"the topic with id {topic_id}"
                    raise AuthorizationError(where, "describe", self._config.user)
                elif code not in _NO_TOPIC:
                    error = kafka_errors.for_code(code)
                    if issubclass(error, kafka_errors.RetriableError):
                        raise error
                    raise UnexpectedAnswerError("the list of topics", error.__name__)
            return names

        return self.begin("", ask)


def _states(listed: Iterable[dict[str, Any]]) -> dict[str, str]:
    return {it["group_id"]: it.get("group_state") or "" for it in listed}
