"""Committed offsets in Kafka's own store, of any group that has no members. Thread-safe.

In: a group, offsets and metadata. Out: futures of what the coordinator has answered, with our
errors. One client serves all groups. It is kafka-python's: librdkafka's admin client crashes if a
coordinator is not ready (its issue 5040), and appends a NUL to metadata.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar

from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Place

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    CoopConsumerError,
    MisuseError,
    OffsetsPartlyStoredError,
    TopicMissingError,
    UnexpectedAnswerError,
)
from coop_consumer.kafka.admin_calls import AGREE_WITHIN_S
from coop_consumer.kafka.admin_settings import for_admin, forget_coordinator
from coop_consumer.kafka.coordinator import PAUSE_S
from coop_consumer.kafka.membership import metadata_of
from coop_consumer.status.errors import GroupInUseError
from offsets import Committed

T = TypeVar("T")

_AT_ONCE = 32
"""Requests of one client under way; others wait for their turn."""
_PATIENCE_S = 30.0
"""A new broker makes its offsets topic first."""
_WRITTEN_WITHIN_S = 120.0
"""Kafka's own producers try as long (`delivery.timeout.ms`): a slow broker that comes back first
loads the offsets of all groups."""
_MAY_PASS = kafka_errors.RetriableError
"""The same request is sent again, as Kafka's own clients do. If its answer was lost, it sets the
same offsets twice."""
_NOT_EMPTY = (
    kafka_errors.UnknownMemberIdError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.RebalanceInProgressError,
)
_UNKNOWN = kafka_errors.UnknownTopicOrPartitionError
_LOGIN = kafka_errors.SaslAuthenticationFailedError


class GroupOffsets:
    """A client of all groups' coordinators. See `committed_offsets` for one look without a client.

    Args:
        config: How to reach the brokers; its group is not used.

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._pending: set[Future[Any]] | None = set()  # None: closed
        keywords = for_admin(config.membership())
        try:
            self._client = _Client(**keywords)
        except kafka_errors.KafkaError as error:
            raise self._reason(error, f"cluster {config.bootstrap_servers}") from error

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Future[None]:
        """Commit offsets by one request. The coordinator appends them to its log as one batch.

        The future raises:
            OffsetsPartlyStoredError: Some partitions were refused, and the others are stored.
            TopicMissingError, GroupInUseError, MisuseError: All were refused.
            AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say.
        """
        asked = {
            Place(tp.topic, tp.partition): OffsetAndMetadata(it.offset, it.metadata, -1)
            for tp, it in offsets.items()
        }

        new_until_s = monotonic() + AGREE_WITHIN_S

        async def ask() -> None:
            answered = await self._client.commit(group, asked)
            refused = {
                place: error
                for place, error in answered.items()
                if error is not kafka_errors.NoError
            }
            if _UNKNOWN in refused.values() and monotonic() < new_until_s:
                raise _UNKNOWN  # not every broker knows a new topic yet
            if refused:
                self._raise_refused(group, asked.keys() - refused.keys(), refused)

        return self.begin(group, ask, _WRITTEN_WITHIN_S)

    def committed(
        self, group: str, places: Collection[TopicPartition]
    ) -> Future[dict[TopicPartition, Committed]]:
        """The committed offset of each of these partitions that has one.

        While a transaction with offsets of one of them is being committed, the answer waits.

        The future raises:
            AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say.
        """
        asked = [Place(tp.topic, tp.partition) for tp in places]

        async def ask() -> dict[TopicPartition, Committed]:
            try:
                found = await self._client.committed(group, asked)
            except kafka_errors.TopicAuthorizationFailedError as error:  # it does not say which
                topics = "topic " + ", ".join(sorted({place.topic for place in asked}))
                raise AuthorizationError(topics, "read", self._config.user) from error
            return {
                TopicPartition(*place): Committed(it.offset, metadata_of(it))
                for place, it in found.items()
                if it.offset >= 0
            }

        return self.begin(group, ask)

    def close(self) -> None:
        """Close the client; what is under way ends with an error. May be repeated."""
        self._client.close()
        with self._lock:
            pending, self._pending = self._pending, None
        for answer in pending or ():
            _end(answer, BrokerUnreachableError(self._config.bootstrap_servers, "closed meanwhile"))

    def begin(
        self,
        group: str,
        ask: Callable[[], Coroutine[Any, Any, T]],
        patience_s: float = _PATIENCE_S,
    ) -> Future[T]:
        """Ask about a group, again while a failure may pass; its future has errors of ours."""
        answer: Future[T] = Future()

        async def asked() -> None:
            try:
                _end(answer, await self._patiently(group, ask, patience_s))
            except CoopConsumerError as error:
                _end(answer, error)
            except Exception as error:  # noqa: BLE001 - it is the answer
                reason = self._reason(error, f"group {group}" if group else "the brokers")
                reason.__cause__ = error
                _end(answer, reason)

        with self._lock:
            if self._pending is None:
                raise BrokerUnreachableError(self._config.bootstrap_servers, "closed")
            self._pending.add(answer)
        answer.add_done_callback(self._forget)
        self._client.begin(asked)
        return answer

    def _forget(self, answer: Future[Any]) -> None:
        with self._lock:
            if self._pending is not None:
                self._pending.discard(answer)

    async def _patiently(
        self, group: str, ask: Callable[[], Coroutine[Any, Any, T]], patience_s: float
    ) -> T:
        """Repeat a request while its failure may pass."""
        until_s = monotonic() + patience_s
        while True:
            try:
                return await ask()
            except _MAY_PASS:
                if monotonic() > until_s:
                    raise
            forget_coordinator(self._client, group)
            await self._client.pause(PAUSE_S)

    def _raise_refused(
        self, group: str, stored: Collection[Place], refused: Mapping[Place, type[Exception]]
    ) -> None:
        """Raise for the first partition that was refused."""
        place, error = min(refused.items(), key=lambda it: it[0])
        if issubclass(error, kafka_errors.OffsetMetadataTooLargeError) and not stored:
            raise MisuseError(
                f"commit of {group}",
                f"the metadata of {place.topic}-{place.partition} is longer than the brokers take",
                "Make it shorter, or have their offset.metadata.max.bytes raised",
                "Nothing was stored",
            )
        if stored:
            raise OffsetsPartlyStoredError(
                group, _listed(stored), _listed(refused), error.__name__.removesuffix("Error")
            )
        if issubclass(error, _MAY_PASS) and error is not _UNKNOWN:
            raise error
        if issubclass(error, _NOT_EMPTY):
            raise GroupInUseError(group, ("one that is alive",))
        if issubclass(error, kafka_errors.GroupAuthorizationFailedError):
            raise self._reason(error(), f"group {group}")
        raise self._reason(error(), f"topic {place.topic}", place)

    def _reason(
        self, error: BaseException, where: str, place: Place | None = None
    ) -> CoopConsumerError:
        match error:
            case _LOGIN():
                return AuthorizationError(where, "authenticate", self._config.user)
            case kafka_errors.AuthorizationError():
                return AuthorizationError(where, "read", self._config.user)
            case _ if isinstance(error, _UNKNOWN) and place is not None:
                return TopicMissingError(place.topic, "written", place.partition)
            case kafka_errors.BrokerResponseError():
                return UnexpectedAnswerError(where, type(error).__name__.removesuffix("Error"))
            case _:
                detail = f"{where}: {type(error).__name__}: {error}"
                return BrokerUnreachableError(self._config.bootstrap_servers, detail)


def _end(answer: Future[T], outcome: T | Exception) -> None:
    """Answer, unless the caller has cancelled it or the client was closed."""
    with suppress(InvalidStateError):
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)


def _listed(places: Collection[Place]) -> str:
    """Some partitions, in order."""
    names = [f"{place.topic}-{place.partition}" for place in sorted(places)]
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


class _Client(KafkaAdminClient):  # type: ignore[misc] # kafka-python ships no types
    """kafka-python's admin client, as coroutines on its own thread."""

    def __init__(self, **keywords: Any) -> None:
        self._asks: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._running = 0
        # A connection that has as many requests under way refuses the next one.
        super().__init__(**keywords, max_in_flight_requests_per_connection=2 * _AT_ONCE)

    def begin(self, ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine, which raises nothing, when it is its turn. Any thread may call."""
        self._asks.append(ask)
        self._manager.call_soon(self._run_some)

    async def _run_some(self) -> None:
        if self._running == _AT_ONCE:
            return
        self._running += 1
        while self._asks:
            await self._asks.popleft()()
        self._running -= 1

    async def pause(self, seconds: float) -> None:
        await self._net.sleep(seconds)

    async def commit(
        self, group: str, offsets: Mapping[Place, OffsetAndMetadata]
    ) -> dict[Place, type[Exception]]:
        found: dict[Place, type[Exception]] = await self._async_alter_group_offsets(group, offsets)
        return found

    async def committed(
        self, group: str, places: Collection[Place]
    ) -> dict[Place, OffsetAndMetadata]:
        found = await self._async_list_group_offsets({group: list(places)})
        offsets: dict[Place, OffsetAndMetadata] = found[group]
        return offsets

    def _list_group_offsets_requests(self, group_specs: Any) -> Iterator[Any]:
        for group, request in super()._list_group_offsets_requests(group_specs):
            request.require_stable = True  # the base asks for offsets below an open transaction
            yield group, request
