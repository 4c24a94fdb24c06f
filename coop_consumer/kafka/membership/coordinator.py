"""kafka-python's group coordinator, bent to our purpose.

In: the driver's polls, the broker's answers. Out: calls of a listener at the moments of a
generation; offsets stored and looked up. It may touch the client's IO thread, on which nearly all
of it runs. Two promises are kept here. The listener gets each assignment with exactly the
generation and member id that it was made for. A commit carries the generation that its caller
names, or is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from kafka import errors as kafka_errors
from kafka.consumer.subscription_state import SubscriptionState, SubscriptionType
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.consumer import (
    DEFAULT_GENERATION_ID,
    UNKNOWN_MEMBER_ID,
    HeartbeatRequest,
    OffsetCommitRequest,
)
from kafka.structs import TopicPartition
from kafka.util import Timer

from coop_consumer.core.blocked_read import RunId
from coop_consumer.kafka.membership.errors import StaleError
from coop_consumer.kafka.membership.fencing import fence
from coop_consumer.kafka.membership.group_protocol import (
    NOTHING,
    OpaqueAssignor,
    PlainAssignor,
    decode,
    readable,
)
from coop_consumer.kafka.membership.listener import (
    AssignmentSnapshot,
    MembershipListener,
    Offsets,
    OffsetsFound,
)
from coop_consumer.kafka.membership.seat import Seat
from coop_consumer.log_events import LogEvent
from offsets import Committed

log = logging.getLogger(__name__)

_LET_GO_POLL_S = 0.01
"""How often a join looks whether the listener has let go of everything."""

_SETTLES_S = 0.1
"""How often a fence looks whether the group is stable."""

_EVICTED = "the group no longer knows this member: its session expired, or it was removed"
TAKEN_OVER = "another process has joined under this name"
_LEFT_BEHIND = "the group went on to another generation without this member"


class Coordinator(ConsumerCoordinator):  # type: ignore[misc] # ships no types
    """kafka-python's coordinator; it calls the listener at each moment and wakes the driver.

    Everything runs on the IO thread, but `poll`, `close` and `request_rejoin`.
    """

    _join_task: Any
    """The base's: the join under way, or one whose answer nobody has taken in."""

    def __init__(
        self,
        client: Any,
        topics: Sequence[str],
        assignors: Sequence[OpaqueAssignor | PlainAssignor],
        listener: MembershipListener,
        *,
        wake: Callable[[], None],
        leaving: Callable[[], bool],
        settings: Mapping[str, Any],
        seat: Seat | None = None,
    ) -> None:
        # First, because the base's constructor already lets metadata updates in.
        self._listener = listener
        self._wake = wake
        self._leaving = leaving
        self._plain = next((it for it in assignors if isinstance(it, PlainAssignor)), None)
        self.snapshot: AssignmentSnapshot | None = None
        self.failure: Exception | None = None
        self.alive_until_ms = float("-inf")
        self.answered_s: float | None = None  # when a request of the group was answered last
        self.joining = False
        self._rejoin_again = False
        self._seat = seat
        self._is_seated = False
        subscription = SubscriptionState()
        # Not `subscribe`, which refuses an empty list: no topic may match a pattern yet.
        subscription._set_subscription_type(SubscriptionType.AUTO_TOPICS)
        subscription.change_subscription(topics)
        super().__init__(
            client, subscription, assignors=assignors, **{**settings, "enable_auto_commit": False}
        )
        if seat is not None and (member := seat.take()):
            self.reset_generation(member)

    # -- moments of a generation ------------------------------------------------------------------

    def group_protocols(self) -> Any:
        """What JoinGroup offers, best first."""
        if self._plain is not None:
            self._plain.generation = self._generation.generation_id
        self._rejoin_again = False  # what is asked of the listener now is what is sent
        return super().group_protocols()

    def need_rejoin(self) -> bool:
        """Whether to join, or to continue a join.

        A leader that joins for new partitions has led before it is synced. From then on the base
        class sees no reason to join: it would drop the answer, and send no heartbeat any more.
        """
        return self._join_task is not None or bool(super().need_rejoin())

    async def join_group_async(self, timeout_ms: float | None = None) -> bool:
        """Continue a join, also one that was answered since the last poll.

        The base class would drop the answer and join again: a rebalance for all.
        """
        ended = self._join_task
        if ended is not None and ended.succeeded():

            async def answer() -> Any:
                return ended.value

            self._join_task = self._manager.call_soon(answer)
        return bool(await super().join_group_async(timeout_ms))

    async def _on_join_prepare_async(self, *args: Any, **kwargs: Any) -> None:
        if self._plain is not None:
            await self._await_release()
        self.joining = True
        # The broker keeps a member that joins for the rebalance timeout, without heartbeats.
        self._prove_alive(monotonic(), self.config["max_poll_interval_ms"])
        await super()._on_join_prepare_async(*args, **kwargs)

    async def _await_release(self) -> None:
        """Wait until the listener has released what it may not keep; heartbeats continue.

        The others do not wait for a listener that takes too long. Its driver stands still, so after
        `max_poll_interval_ms` the heartbeats end the membership, as with a plain consumer.
        """
        held = self.snapshot
        if held is None:
            return
        let_go = self._listener.on_revoking()
        while not let_go.done() and self.snapshot is held:
            if self._leaving():
                raise kafka_errors.KafkaTimeoutError("it leaves, and does not join again")
            await self._net.sleep(_LET_GO_POLL_S)

    def _perform_assignment(self, leader_id: str, protocol: str, members: Sequence[Any]) -> Any:
        for member in members:
            member.metadata = readable(member.metadata, member.member_id)
        try:
            planned = super()._perform_assignment(leader_id, protocol, members)
        except Exception as error:
            # Without an answer of the leader, every member would wait until its session expired.
            extra = LogEvent.PLAN_FAILED.extra(group=self.group_id, error=error)
            told = (
                "group %s: this member leads the group and could not plan, so it ends, and nobody "
                "gets a range until another member leads. Nothing is lost. Report this defect, "
                "with its traceback, and start the process again"
            )
            log.exception(told, self.group_id, extra=extra)
            self.fail(error, "this member could not assign as leader")
            return {member.member_id: NOTHING for member in members}
        self._ask_only_for(self._subscription.group_subscription())
        return planned

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment: bytes
    ) -> None:
        # Replaces the base's method, which keeps fetch positions. Given a partition of a topic that
        # this member does not subscribe to, that method would join for ever without an error.
        if not self._is_leader:
            self._assignment_snapshot = None  # only a leader watches for changed partition counts
        if self._rejoin_again:
            self.request_rejoin()  # asked for while the join was under way, which forgot it
        if self.failure is not None or generation == DEFAULT_GENERATION_ID:
            return  # it ends, or was dropped after the answer came and joins again
        assignment = decode(member_assignment)
        plain = self._plain is not None and protocol == self._plain.name
        how = f"plain, by {protocol}" if plain else "by key ranges"
        told = "group %s: generation %d (%s), member %s"
        extra = LogEvent.MEMBER_JOINED.extra(group=self.group_id)
        log.info(told, self.group_id, generation, how, member_id, extra=extra)
        self.snapshot = AssignmentSnapshot(
            generation,
            member_id,
            self.group_instance_id,
            None if plain else assignment.user_data,
            {topic: tuple(numbers) for topic, numbers in assignment.assigned_partitions},
            plain,
        )
        if self._seat is not None:
            self._is_seated = True
            self._seat.joined("" if self.group_instance_id else member_id)
        self._listener.on_assigned(self.snapshot)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Leave the group and end."""
        super().close(autocommit=autocommit, timeout_ms=timeout_ms)
        if self._seat is not None and self._is_seated:  # else a predecessor may still sit there
            self._seat.left()

    def lose(self, reason: str) -> None:
        """Tell the listener, once, that the assignment held no longer counts. Raises nothing."""
        if self.snapshot is None:
            return
        self.snapshot = None
        try:
            self._listener.on_lost(reason)
        except Exception as error:
            extra = LogEvent.MEMBERSHIP_CALL_FAILED.extra(group=self.group_id, error=error)
            told = (
                "group %s: this member has lost its place in the group, could not note it, and "
                "ends. What is not committed comes again, and nothing is lost. Report this defect, "
                "with its traceback, and start the process again"
            )
            log.exception(told, self.group_id, extra=extra)
            self.fail(error, reason)

    def fail(self, error: Exception, reason: str) -> None:
        """End this membership: the driver wakes and finds the first failure."""
        self.failure = self.failure or error
        self.lose(reason)
        self._wake()

    # -- what kafka-python notices ----------------------------------------------------------------

    def subscribe(self, topics: Sequence[str]) -> None:
        """Replace the subscription; the base sees that it differs, and joins again."""
        if set(topics) == self._subscription.subscription:
            return
        self._subscription.change_subscription(topics)
        self._cluster.set_topics(topics)
        self._ask_only_for(topics)
        self._wake()

    def _ask_only_for(self, topics: Iterable[str]) -> None:
        """Ask brokers for these topics alone: kafka-python never forgets one that is gone."""
        self._cluster._topics = set(topics)

    def rejoin(self) -> None:
        """Join again, with user data asked for after this call."""
        self._rejoin_again = True
        self.request_rejoin()

    def request_rejoin(self) -> None:
        """Note that the group must be joined again; the driver wakes to do it."""
        super().request_rejoin()
        self._wake()

    def reset_generation(self, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        """Forget the generation: the broker no longer counts on this member in it."""
        super().reset_generation(member_id)
        reason = _EVICTED if member_id == UNKNOWN_MEMBER_ID else _LEFT_BEHIND
        self.lose(f"{reason}; joining again")
        self._wake()

    def _handle_metadata_update(self, cluster: Any) -> None:
        try:
            super()._handle_metadata_update(cluster)
        finally:
            self._wake()  # new partitions: a leader has to assign them

    async def _heartbeat_loop(self) -> None:
        try:
            await super()._heartbeat_loop()
        finally:
            self._wake()  # a loop that broke is found by the next poll

    def poll_heartbeat(self) -> None:
        """Feed `max_poll_interval_ms`; raises what has ended the heartbeats."""
        try:
            super().poll_heartbeat()
        except Exception:
            self.request_rejoin()  # only a join restarts a broken loop
            raise

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> None:
        session_timeout_ms = self.config["session_timeout_ms"]
        self.answered_s = monotonic()
        try:
            super()._handle_heartbeat_response(response, send_time)
        except kafka_errors.RebalanceInProgressError:
            self._prove_alive(send_time, session_timeout_ms)
            raise
        except kafka_errors.FencedInstanceIdError as error:
            # The base logs these two and continues as if it were a member.
            self.fail(error, TAKEN_OVER)
            raise
        except kafka_errors.GroupAuthorizationFailedError as error:
            self.fail(error, "the right to read the group was withdrawn")
            raise
        self._prove_alive(send_time, session_timeout_ms)

    def _process_sync_group_response(self, response: Any, send_time: float) -> bytes:
        self.answered_s, self.joining = monotonic(), False
        assignment: bytes = super()._process_sync_group_response(response, send_time)
        self._prove_alive(send_time, self.config["session_timeout_ms"])
        return assignment

    def _prove_alive(self, since_s: float, for_ms: int) -> None:
        self.alive_until_ms = since_s * 1000 + for_ms

    # -- offsets ----------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets, generation: int) -> None:
        """Store offsets under this generation; raises kafka-python's errors or `StaleError`."""

        async def store() -> None:
            snapshot = self._held(generation, "commit")
            response = await self._manager.send(
                self._commit_request(offsets, snapshot), node_id=self.coordinator_id
            )
            for topic in response.topics:
                for partition in topic.partitions:
                    _raise_for(partition.error_code, topic.name)

        # A topic that was deleted stays unknown: who leaves would wait for nothing.
        await self._patiently(store, but_not=kafka_errors.UnknownTopicOrPartitionError)

    async def confirm(self, generation: int) -> None:
        """Ask whether the broker knows us in this generation; raises as `commit` does."""

        async def ask() -> None:
            snapshot = self._held(generation, "a question")
            request = HeartbeatRequest(
                group_id=self.group_id,
                generation_id=snapshot.generation,
                member_id=snapshot.member_id,
                group_instance_id=snapshot.group_instance_id,
            )
            response = await self._manager.send(request, node_id=self.coordinator_id)
            with suppress(kafka_errors.RebalanceInProgressError):  # only a member gets this answer
                _raise_for(response.error_code, f"group {self.group_id}")

        await self._patiently(ask)

    async def committed(self, partitions: Sequence[tuple[str, int]]) -> OffsetsFound:
        """Look up committed offsets; raises kafka-python's errors."""
        wanted = [TopicPartition(*place) for place in partitions]
        # Not fetch_committed_offsets: it may hand out an answer that was asked for earlier.
        found = await self._patiently(lambda: self._send_offset_fetch_request(wanted))
        return {
            tuple(it): (
                Committed(found[it].offset, metadata_of(found[it])) if it in found else None
            )
            for it in wanted
        }

    async def fence(
        self, undecided: Collection[RunId], id_of: Callable[[RunId], str]
    ) -> Sequence[RunId]:
        """See `fencing.fence`; repeats it until the group is stable, and if a failure may pass."""
        found: Sequence[RunId] | None = None
        while found is None:
            found = await self._patiently(lambda: fence(self, undecided, id_of))
            if found is None:
                await self._net.sleep(_SETTLES_S)
        return found

    async def asked(
        self, request: Any, *, node_id: int | str | None = None, anywhere: bool = False
    ) -> Any:
        """The answer of a broker: of the group's coordinator, if none is named."""
        if node_id is None and not anywhere:
            node_id = self.coordinator_id
        return await self._manager.send(request, node_id=node_id)

    async def pause(self, seconds: float) -> None:
        """Let the IO thread do something else for so long."""
        await self._net.sleep(seconds)

    def _held(self, generation: int, what: str) -> AssignmentSnapshot:
        snapshot = self.snapshot
        if snapshot is None or snapshot.generation != generation:
            held = "none" if snapshot is None else snapshot.generation
            raise StaleError(f"{what} of generation {generation}, but it holds {held}")
        return snapshot

    async def _patiently(
        self,
        send: Callable[[], Coroutine[Any, Any, Any]],
        *,
        but_not: type[Exception] | tuple[()] = (),
    ) -> Any:
        """Repeat a request while its failure may pass, up to the request timeout.

        Raises:
            KafkaError: Of kafka-python; what is `but_not` to be repeated at once.
        """
        timer = Timer(self.config["request_timeout_ms"])
        while True:
            try:
                if not await self.ensure_coordinator_ready_async(timeout_ms=timer.timeout_ms):
                    raise kafka_errors.CoordinatorNotAvailableError
                return await send()
            except kafka_errors.NotCoordinatorError as error:
                self.coordinator_dead(error)
            except but_not:
                raise
            except kafka_errors.RetriableError:
                if timer.expired:
                    raise
            await self._net.sleep(self.config["retry_backoff_ms"] / 1000)

    def _commit_request(self, offsets: Offsets, snapshot: AssignmentSnapshot) -> Any:
        # Not the base's commit: it uses the generation at the time of sending, and it drops the
        # present membership when an old generation is refused.
        topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
        partition_type = topic_type.OffsetCommitRequestPartition
        return OffsetCommitRequest(
            max_version=8,
            group_id=self.group_id,
            generation_id_or_member_epoch=snapshot.generation,
            member_id=snapshot.member_id,
            group_instance_id=snapshot.group_instance_id,
            topics=[
                topic_type(
                    name=name,
                    partitions=[
                        partition_type(
                            partition_index=number,
                            committed_offset=offset,
                            committed_leader_epoch=-1,
                            committed_metadata=metadata,
                        )
                        for (topic, number), (offset, metadata) in sorted(offsets.items())
                        if topic == name
                    ],
                )
                for name in sorted({topic for topic, _ in offsets})
            ],
        )


def metadata_of(committed: Any) -> str:
    """The metadata of a committed offset, without the final NUL of librdkafka.

    librdkafka's admin client stores the C string's final NUL with them, and only its own reader
    removes it. A tag set by `coop-consumer reset` must still read as our tag.
    """
    metadata: str = committed.metadata or ""
    return metadata.rstrip("\0")


def _raise_for(error_code: int, topic: str) -> None:
    error_type = kafka_errors.for_code(error_code)
    if error_type is not kafka_errors.NoError:
        raise error_type(topic)
