"""Questions about many groups at once, and what `gc` changes. Thread-safe.

In: names of groups, offsets. Out: futures of what coordinators have answered, with our errors. See
`GroupOffsets` for the client.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from concurrent.futures import Future

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeGroupsRequest

from assignors import TopicPartition
from coop_consumer.errors import AuthorizationError, UnexpectedAnswerError
from coop_consumer.kafka.group_offsets import GroupOffsets
from coop_consumer.kafka.membership import metadata_of
from coop_consumer.status.errors import GroupInUseError
from coop_consumer.status.seen import NO_GROUP
from offsets import Committed

_GONE = kafka_errors.GroupIdNotFoundError
_NO_TOPIC = (
    kafka_errors.UnknownTopicIdError.errno,
    kafka_errors.UnknownTopicOrPartitionError.errno,
)


class Groups(GroupOffsets):
    """All groups of a cluster, as far as this user may see them."""

    def listed(self) -> Future[dict[str, str]]:
        """The state of each group that Kafka knows, of any protocol; "": the broker is old.

        A group that this user may not describe is left out: ask for its `state`.
        """

        async def ask() -> dict[str, str]:
            found = await self._client._async_list_groups()
            return {it["group_id"]: it.get("group_state") or "" for it in found}

        return self.begin("", ask)

    def state(self, group: str) -> Future[str]:
        """The state of a group of the classic protocol; "Dead": there is none.

        The future raises:
            AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say.
        """

        async def ask() -> str:
            node = await self._client._find_coordinator_id(group)
            request = DescribeGroupsRequest(groups=[group])
            [found] = (await self._client._manager.send(request, node_id=node)).groups
            error = kafka_errors.for_code(found.error_code)
            if error is _GONE:
                return NO_GROUP.state
            if error is kafka_errors.GroupAuthorizationFailedError:
                raise AuthorizationError(f"group {group}", "describe", self._config.user)
            if error is not kafka_errors.NoError:
                raise error
            state: str = found.group_state
            return state

        return self.begin(group, ask)

    def all_committed(self, group: str) -> Future[dict[TopicPartition, Committed]]:
        """Everything that a group has committed, as far as this user may see its topics.

        The future raises:
            AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say.
        """

        async def ask() -> dict[TopicPartition, Committed]:
            try:
                found = (await self._client._async_list_group_offsets({group: None}))[group]
            except _GONE:
                return {}
            return {
                TopicPartition(place.topic, place.partition): Committed(it.offset, metadata_of(it))
                for place, it in found.items()
                if it.offset >= 0
            }

        return self.begin(group, ask)

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
