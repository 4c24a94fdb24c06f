"""Membership in a Kafka consumer group: this member's generation, and what the leader gave it.

Room: `coop_consumer.kafka`; the only module that touches kafka-python, whose coordinator is not
public API (hence the version pin). In: client settings, topics, opaque bytes of a listener. Out:
calls of that listener, offsets committed under the generation of an assignment. It may touch the
broker and two threads: kafka-python's IO thread (heartbeats, requests, all callbacks but the last)
and one driver (`coop-membership-<group>`) that connects, joins, and sleeps until something happens.
It knows nothing of key ranges. Kept here: an assignment is told with exactly the generation and
member id it was made for; a commit carries the generation that its caller names or is refused;
callbacks come one at a time; no failing callback holds up the group.

The group runs Kafka's classic protocol with the eager mode: a revocation there is only a word, so
nobody stops for a rebalance. What moves is settled by key range elsewhere.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol, TypeAlias

from kafka import KafkaConsumer
from kafka import errors as kafka_errors
from kafka.consumer.subscription_state import SubscriptionState
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.net.compat import KafkaNetClient
from kafka.protocol.consumer import DEFAULT_GENERATION_ID, UNKNOWN_MEMBER_ID, OffsetCommitRequest
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.structs import TopicPartition
from kafka.util import Timer, ensure_valid_topic_name

from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    ConfigError,
    CoopConsumerError,
    FencedError,
    ForeignProtocolError,
    GroupIdMissingError,
    MemberLostError,
    MembershipError,
    TopicMissingError,
)

log = logging.getLogger(__name__)

Offsets: TypeAlias = Mapping[tuple[str, int], tuple[int, str]]
"""(topic, partition) → (the first offset not yet done, metadata of at most 4,096 bytes)."""

Committed: TypeAlias = dict[tuple[str, int], tuple[int, str] | None]
"""(topic, partition) → (offset, metadata), or None where the group has committed nothing."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member as the leader sees it; `user_data` is what its `on_joining` returned."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    user_data: bytes


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """What the leader gives one member.

    `partitions` (topic → partition numbers) is for the eyes of standard tools, which show it as
    the member's assignment; a partition may stand with several members. What holds is `user_data`.
    """

    partitions: Mapping[str, Sequence[int]]
    user_data: bytes


@dataclass(frozen=True, slots=True)
class AssignmentSnapshot:
    """An assignment together with the identity under which it holds.

    `user_data` is None where no leader of ours made it: with `partitions` empty the leader could
    not assign (no metadata yet, or it failed) and another generation follows; with partitions, the
    broker assigned whole partitions itself, during a migration from the newer group protocol.
    """

    generation: int
    member_id: str
    group_instance_id: str | None
    user_data: bytes | None
    partitions: Mapping[str, tuple[int, ...]]


class MembershipListener(Protocol):
    """What a member hears of its group.

    Calls come one at a time, all but `on_fatal` on kafka-python's IO thread: while one runs,
    heartbeats wait, so it hands work over and returns, and never blocks on a `Membership` method.
    If one raises, the member leaves the group and `on_fatal` tells why.
    """

    def on_joining(self) -> bytes:
        """Return this member's user data for the next generation; asked at every JoinGroup.

        From this call until `on_assigned`, what the data claim may shrink but not grow. A join may
        be repeated, so two calls can come without an assignment between them.
        """

    def on_assigned(self, snapshot: AssignmentSnapshot) -> None:
        """Take the assignment of a new generation; it replaces the one before.

        The same generation comes again when a static member restarts, or when this member rejoined
        with unchanged user data.
        """

    def on_lost(self, reason: str) -> None:
        """Learn that the assignment held no longer counts: others may own all of it already.

        Comes at most once an assignment, and only if one was held. The member joins again by
        itself, unless `on_fatal` follows. A member that leaves by `leave` is not told.
        """

    def on_fatal(self, error: CoopConsumerError) -> None:
        """Learn that membership has ended for good; the last call, on the driver thread."""

    def lead_assign(
        self, partitions: Mapping[str, int], members: Sequence[GroupMember]
    ) -> Mapping[str, MemberAssignment]:
        """Assign, as leader, all partitions to the members; returns member id → assignment.

        `partitions` is topic → number of partitions, for those subscribed topics that the leader
        has metadata of; it is never empty. A member may name other topics as well: another call
        follows when their metadata arrive. Members left out get nothing. To be pure: the result
        depends on the arguments alone, so whoever leads, the outcome is the same.
        """


_HAS_LEFT = (
    "This member has left the group; what it had not committed comes again at the other members."
)
_NOT_STORED = "The request is given up, and it is not known to be stored; the membership goes on."


class Membership:
    """One member of one group, from `start` to `leave`. Methods may be called from any thread.

    Args:
        kwargs: settings by kafka-python's names, as for its `KafkaConsumer`; `bootstrap_servers`
            and `group_id` at least. `max_poll_interval_ms` is the rebalance timeout: how long
            others wait for this member when it is stuck. `heartbeat_interval_ms` sets how fast a
            rebalance is noticed.
        topics: what this member subscribes to; at least one.
        protocol: the assignor's name in the group; all members must use the same.
        listener: who is told; see `MembershipListener`.
        connect_timeout_ms: how long to try for a first answer of a broker before giving up.
        topic_timeout_ms: how long a subscribed topic may be unknown at the start, because a new
            topic takes a moment to be known to every broker.

    Raises:
        ConfigError: a setting or a topic's name is refused, or the group's name is missing.

    Costs two daemon threads, about 2 MB, and 0.25 % of a core at two heartbeats a second.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        topics: Sequence[str],
        protocol: str,
        listener: MembershipListener,
        *,
        connect_timeout_ms: int = 10_000,
        topic_timeout_ms: int = 5_000,
    ) -> None:
        self._settings = _settings(kwargs)
        self._group: str = self._settings["group_id"]
        self._topics = _checked(topics)
        self._protocol = protocol
        self._listener = listener
        self._connect_timeout_ms = connect_timeout_ms
        self._topic_timeout_ms = topic_timeout_ms
        self._wake = threading.Event()
        self._leaving = threading.Event()
        self._leave_timeout_ms = 0
        self._lock = threading.Lock()  # guards _coordinator against requests after its end
        self._coordinator: _Coordinator | None = None
        self._client: Any = None
        self._driver: threading.Thread | None = None

    def start(self) -> None:
        """Connect and join in the background; returns at once. To be called once.

        What goes wrong from here on is told by `on_fatal`: `BrokerUnreachableError` after
        `connect_timeout_ms`, `TopicMissingError`, `AuthorizationError`, `ForeignProtocolError`.

        Raises:
            ConfigError: kafka-python refuses a setting.
        """
        assert self._driver is None, "start() is called once"
        try:
            self._client = KafkaNetClient(**self._settings)
        except (kafka_errors.KafkaConfigurationError, TypeError, ValueError) as error:
            raise _refused(f"cannot be configured: {error}") from error
        # kafka-python does not hand this setting on to its metadata requests.
        self._client.cluster.config["allow_auto_create_topics"] = False
        name = f"coop-membership-{self._group}"
        self._driver = threading.Thread(target=self._drive, name=name, daemon=True)
        self._driver.start()

    @property
    def snapshot(self) -> AssignmentSnapshot | None:
        """The assignment held now, or None: not yet joined, lost, or left."""
        coordinator = self._coordinator
        return coordinator.snapshot if coordinator else None

    def alive(self, now_ms: float) -> bool:
        """Whether the broker surely still counts on this member at `now_ms` (monotonic clock).

        True until one session timeout after the last request that the broker answered; while
        joining, until the rebalance timeout. Good for stopping early and for alarms. Safety must
        never depend on it: only the generation fences.
        """
        coordinator = self._coordinator
        return (
            coordinator is not None
            and coordinator.snapshot is not None
            and now_ms < coordinator.alive_until_ms
        )

    def request_rejoin(self) -> None:
        """Join again, soon, with fresh user data.

        A rebalance for all follows if this member leads or its user data changed; if not, the
        broker returns the present assignment. A nonce in the user data makes it always a rebalance.
        """
        coordinator = self._coordinator
        if coordinator is not None:
            coordinator.rejoin()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Replace the subscription, and rejoin if it differs.

        A topic that does not exist is no error here: it is assigned once it is created.

        Raises:
            ConfigError: a topic's name is refused.
        """
        with self._lock:
            self._topics = _checked(topics)
            if self._coordinator is not None:
                self._coordinator.subscribe(self._topics)

    def commit(
        self, offsets: Offsets, generation: int, done: Callable[[CoopConsumerError | None], None]
    ) -> None:
        """Commit offsets for the group under `generation`, that of the assignment held.

        Returns at once. `done` is called exactly once, with None when the broker has stored all
        offsets, or with the error; on the IO thread, or before this returns if there is none. What
        may pass (a coordinator that moves or loads) is tried again for `request_timeout_ms`.

        The broker checks member and generation, not ownership nor order: a lower offset replaces a
        higher one, so at most one commit of a partition should be in flight.

        Args:
            offsets: what to commit; metadata are stored beside it.
            generation: from the `AssignmentSnapshot` under which the offsets were earned.
            done: called with the outcome; must be quick.

        Errors given to `done`: `MemberLostError` when the generation is not that of the assignment
        held, or the group has moved on; `FencedError`; `AuthorizationError`;
        `BrokerUnreachableError` when it is not known whether the offsets were stored.
        """
        self._request(lambda it: it.commit(offsets, generation), lambda _, error: done(error))

    def committed(self, partitions: Iterable[tuple[str, int]]) -> Future[Committed]:
        """Look up what the group has committed for some (topic, partition).

        Needs no generation. Don't wait for the result in a callback of this class. The future
        fails with the errors of `commit`.
        """
        wanted = list(partitions)
        future: Future[Committed] = Future()

        def answer(found: Committed | None, error: CoopConsumerError | None) -> None:
            if error is None:
                assert found is not None
                future.set_result(found)
            else:
                future.set_exception(error)

        self._request(lambda it: it.committed(wanted), answer)
        return future

    def leave(self, timeout_ms: int = 10_000) -> None:
        """Leave the group and end both threads; waits at most `timeout_ms`. May be repeated.

        A dynamic member tells the coordinator, so the others are rebalanced at once. A static
        member goes silently: it can return under its name until its session expires. Unanswered
        commits and look-ups fail with `MemberLostError`. No callback comes after this returned in
        time. Called inside a callback, it only asks: the driver leaves right after.
        """
        self._leave_timeout_ms = timeout_ms
        self._leaving.set()
        self._wake.set()
        driver = self._driver
        if driver is None or threading.current_thread() in self._own_threads():
            return
        driver.join(timeout_ms / 1000)

    # -- the driver thread ------------------------------------------------------------------------

    def _drive(self) -> None:
        failure: CoopConsumerError | None = None
        try:
            self._connect()
            self._follow()
        except (CoopConsumerError, kafka_errors.KafkaError) as error:
            failure = self._translate(error, _HAS_LEFT)
        except Exception as error:
            log.exception("group %s: membership failed", self._group)
            failure = self._translate(error, _HAS_LEFT)
        self._end(failure)
        if failure is not None and not self._leaving.is_set():
            self._listener.on_fatal(failure)

    def _connect(self) -> None:
        """Find a broker and the topics, so that a leader has metadata at its first join."""
        manager, cluster = self._client._manager, self._client.cluster
        self._client._net.start()
        bootstrap = manager.bootstrap_async(self._connect_timeout_ms)
        self._sleep_until_done(bootstrap, self._connect_timeout_ms + 1000)
        if bootstrap.failed():
            raise bootstrap.exception
        if not bootstrap.is_done and not self._leaving.is_set():
            raise kafka_errors.KafkaTimeoutError("a broker accepts connections but is silent")
        timer = Timer(self._topic_timeout_ms)
        while missing := [it for it in self._topics if not cluster.partitions_for_topic(it)]:
            if self._leaving.is_set():
                return
            if denied := cluster.unauthorized_topics.intersection(missing):
                raise kafka_errors.TopicAuthorizationFailedError(denied)
            if timer.expired:
                raise TopicMissingError(missing[0])
            cluster.set_topics(self._topics)
            self._sleep_until_done(cluster.request_update(), timer.timeout_ms)
        # A topic deleted later must not make every member ask for it ten times a second.
        cluster.config["retry_backoff_ms"] = 1_000
        with self._lock:
            self._coordinator = _Coordinator(
                self._client,
                self._topics,
                _OpaqueAssignor(self._protocol, self._listener),
                self._listener,
                wake=self._wake.set,
                settings={**self._settings, "api_version": manager.broker_version},
            )

    def _follow(self) -> None:
        """Join whenever it is needed; else sleep until the coordinator wakes this thread."""
        coordinator = self._coordinator
        # Polls also feed max.poll.interval, by which kafka-python tells that a driver is stuck.
        nap_s = self._settings["max_poll_interval_ms"] / 3000
        while coordinator is not None and not self._leaving.is_set():
            self._wake.clear()
            if coordinator.failure is not None:
                raise coordinator.failure
            try:
                settled = coordinator.poll(timeout_ms=_POLL_MS)
            except kafka_errors.RetriableError as error:
                log.warning("group %s: tries again (%s)", self._group, error)
                self._leaving.wait(_POLL_MS / 1000)
                continue
            if settled:
                self._wake.wait(nap_s)

    def _end(self, failure: CoopConsumerError | None) -> None:
        """Leave the group and close the client, after which no callback can come."""
        with self._lock:
            coordinator, self._coordinator = self._coordinator, None
        try:
            if coordinator is not None:
                if failure is not None:
                    self._client._net.run(coordinator.lose, str(failure))
                coordinator.snapshot = None
                timeout_ms = self._leave_timeout_ms or _FAILED_LEAVE_MS
                coordinator.close(autocommit=False, timeout_ms=timeout_ms)
        except Exception:
            log.exception("group %s: could not leave; the session will expire", self._group)
        finally:
            self._client.close()

    def _sleep_until_done(self, future: Any, timeout_ms: float) -> None:
        timer = Timer(timeout_ms)
        future.add_both(lambda _: self._wake.set())
        while not (future.is_done or self._leaving.is_set() or timer.expired):
            self._wake.wait(timer.timeout_secs)
            self._wake.clear()

    def _own_threads(self) -> tuple[threading.Thread | None, ...]:
        return self._driver, self._client._net._io_thread

    # -- requests of the caller -------------------------------------------------------------------

    def _request(
        self,
        ask: Callable[[_Coordinator], Coroutine[Any, Any, Any]],
        answer: Callable[[Any, CoopConsumerError | None], None],
    ) -> None:
        """Run `ask` on the IO thread; `answer` gets its result or error, exactly once."""
        with self._lock:
            coordinator = self._coordinator
            if coordinator is not None:
                self._client._net.call_soon_with_future(self._asked, coordinator, ask, answer)
                return
        answer(None, self._lost("it has not joined yet, or has left"))

    async def _asked(
        self,
        coordinator: _Coordinator,
        ask: Callable[[_Coordinator], Coroutine[Any, Any, Any]],
        answer: Callable[[Any, CoopConsumerError | None], None],
    ) -> None:
        # What stands here is the outcome if the client closes while the request is under way.
        error: CoopConsumerError | None = self._lost("it left before the broker had answered")
        result = None
        try:
            result = await ask(coordinator)
            error = None
        except kafka_errors.FencedInstanceIdError as fenced:
            error = self._translate(fenced, _HAS_LEFT)
            coordinator.fail(error, _TAKEN_OVER)
        except Exception as failure:  # noqa: BLE001 - the one who asked is told
            error = self._translate(failure, _NOT_STORED)
        finally:
            try:
                answer(result, error)
            except Exception:
                log.exception("group %s: the callback of a request failed", self._group)

    def _lost(self, detail: str) -> MemberLostError:
        return MemberLostError(self._group, self._name(), detail)

    def _translate(self, error: Exception, consequence: str) -> CoopConsumerError:
        if isinstance(error, CoopConsumerError):
            return error
        translated = _in_our_words(error, self._settings, self._name()) or MembershipError(
            self._group, f"{type(error).__name__}: {error}", consequence
        )
        translated.__cause__ = error
        return translated

    def _name(self) -> str:
        """The member id, or what this member is known by before it has one."""
        if snapshot := self.snapshot:
            return snapshot.member_id
        name: str = self._settings["group_instance_id"] or self._settings["client_id"]
        return name


# -- kafka-python, bent to our purpose -------------------------------------------------------------

_POLL_MS = 200
"""How long the driver waits for a join before it looks whether it should leave."""

_FAILED_LEAVE_MS = 2_000
"""How long a member that ends by a failure waits for the answer to its LeaveGroup."""

_NOTHING: bytes = ConsumerProtocolAssignment(
    version=0, assigned_partitions=[], user_data=None
).encode()
"""The assignment of a leader that could not assign: no partitions, no user data."""

_NO_TOPICS: bytes = ConsumerProtocolSubscription(version=0, topics=[], user_data=b"").encode()
"""The subscription that stands for an unreadable one: its member wants and owns nothing."""


class _OpaqueAssignor(AbstractPartitionAssignor):  # type: ignore[misc] # ships no types
    """Carries the listener's bytes through Kafka's consumer protocol, without looking inside."""

    def __init__(self, protocol: str, listener: MembershipListener) -> None:
        self._protocol = protocol
        self._listener = listener

    @property
    def name(self) -> str:
        return self._protocol

    def metadata(self, topics: Iterable[str]) -> Any:
        return ConsumerProtocolSubscription(
            version=0, topics=sorted(topics), user_data=self._listener.on_joining()
        )

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, bytes]:
        group = [
            GroupMember(
                member.member_id,
                member.group_instance_id,
                tuple(member.metadata.topics),
                bytes(member.metadata.user_data or b""),
            )
            for member in members
        ]
        topics = {topic for member in group for topic in member.topics}
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        known = {topic: counts[topic] for topic in sorted(topics) if counts[topic]}
        # Without metadata there is nothing to assign yet; their arrival starts a rebalance.
        plan = self._listener.lead_assign(known, group) if known else {}
        if strangers := plan.keys() - {member.member_id for member in group}:
            raise ValueError(f"lead_assign assigned to non-members: {sorted(strangers)}")
        return {member.member_id: _encode(plan.get(member.member_id)) for member in group}

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Do nothing: `_Coordinator` tells the listener, with the member id."""


class _Coordinator(ConsumerCoordinator):  # type: ignore[misc] # ships no types
    """Kafka-python's coordinator, which tells its moments to the listener and wakes the driver.

    Everything runs on the IO thread, but `poll`, `close` and `request_rejoin`.
    """

    def __init__(
        self,
        client: Any,
        topics: Sequence[str],
        assignor: _OpaqueAssignor,
        listener: MembershipListener,
        *,
        wake: Callable[[], None],
        settings: Mapping[str, Any],
    ) -> None:
        # First, because the base's constructor already lets metadata updates in.
        self._listener = listener
        self._wake = wake
        self.snapshot: AssignmentSnapshot | None = None
        self.failure: Exception | None = None
        self.alive_until_ms = float("-inf")
        self._rejoin_again = False
        subscription = SubscriptionState()
        subscription.subscribe(topics=topics)
        super().__init__(
            client, subscription, assignors=[assignor], **{**settings, "enable_auto_commit": False}
        )

    # -- moments of a generation ------------------------------------------------------------------

    def group_protocols(self) -> Any:
        self._rejoin_again = False  # what is asked of the listener now is what is sent
        return super().group_protocols()

    async def _on_join_prepare_async(self, *args: Any, **kwargs: Any) -> None:
        # The broker keeps a member that joins for the rebalance timeout, without heartbeats.
        self._prove_alive(monotonic(), self.config["max_poll_interval_ms"])
        await super()._on_join_prepare_async(*args, **kwargs)

    def _perform_assignment(self, leader_id: str, protocol: str, members: Sequence[Any]) -> Any:
        for member in members:
            member.metadata = _readable(member.metadata, member.member_id)
        try:
            return super()._perform_assignment(leader_id, protocol, members)
        except Exception as error:
            # Without an answer of the leader, every member would wait until its session expired.
            log.exception("group %s: lead_assign failed, nobody gets anything", self.group_id)
            self.fail(error, "this member could not assign as leader")
            return {member.member_id: _NOTHING for member in members}

    async def _on_join_complete_async(
        self, generation: int, member_id: str, _protocol: str, member_assignment: bytes
    ) -> None:
        # Replaces the base's method, which keeps fetch positions and would join for ever, silently,
        # when given a partition of a topic that this member does not subscribe to.
        if not self._is_leader:
            self._assignment_snapshot = None  # only a leader watches for changed partition counts
        if self._rejoin_again:
            self.request_rejoin()  # asked for while the join was under way, which forgot it
        if self.failure is not None or generation == DEFAULT_GENERATION_ID:
            return  # it ends, or was dropped after the answer came and joins again
        assignment = _decode(member_assignment)
        log.info("group %s: generation %d, member %s", self.group_id, generation, member_id)
        self.snapshot = AssignmentSnapshot(
            generation,
            member_id,
            self.group_instance_id,
            assignment.user_data,
            {topic: tuple(numbers) for topic, numbers in assignment.assigned_partitions},
        )
        self._listener.on_assigned(self.snapshot)

    def lose(self, reason: str) -> None:
        """Tell the listener, once, that the assignment held no longer counts. Raises nothing."""
        if self.snapshot is None:
            return
        self.snapshot = None
        try:
            self._listener.on_lost(reason)
        except Exception as error:
            log.exception("group %s: on_lost failed", self.group_id)
            self.fail(error, reason)

    def fail(self, error: Exception, reason: str) -> None:
        """End this membership: the driver wakes and finds the first failure."""
        self.failure = self.failure or error
        self.lose(reason)
        self._wake()

    # -- what kafka-python notices ----------------------------------------------------------------

    def subscribe(self, topics: Sequence[str]) -> None:
        """Replace the subscription; the base sees that it differs, and joins again."""
        self._subscription.change_subscription(topics)
        self._cluster.set_topics(topics)
        self._wake()

    def rejoin(self) -> None:
        """Join again, with user data asked for after this call."""
        self._rejoin_again = True
        self.request_rejoin()

    def request_rejoin(self) -> None:
        super().request_rejoin()
        self._wake()

    def reset_generation(self, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        super().reset_generation(member_id)
        self.lose(_EVICTED if member_id == UNKNOWN_MEMBER_ID else _LEFT_BEHIND)
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
        try:
            super().poll_heartbeat()
        except Exception:
            self.request_rejoin()  # only a join starts a broken loop anew
            raise

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> None:
        session_timeout_ms = self.config["session_timeout_ms"]
        try:
            super()._handle_heartbeat_response(response, send_time)
        except kafka_errors.RebalanceInProgressError:
            self._prove_alive(send_time, session_timeout_ms)
            raise
        except kafka_errors.FencedInstanceIdError as error:
            # The base logs these two and goes on as if it were a member.
            self.fail(error, _TAKEN_OVER)
            raise
        except kafka_errors.GroupAuthorizationFailedError as error:
            self.fail(error, "the right to read the group was withdrawn")
            raise
        self._prove_alive(send_time, session_timeout_ms)

    def _process_sync_group_response(self, response: Any, send_time: float) -> bytes:
        assignment: bytes = super()._process_sync_group_response(response, send_time)
        self._prove_alive(send_time, self.config["session_timeout_ms"])
        return assignment

    def _prove_alive(self, since_s: float, for_ms: int) -> None:
        self.alive_until_ms = since_s * 1000 + for_ms

    # -- offsets ----------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets, generation: int) -> None:
        """Store offsets under this generation; raises kafka-python's errors or `_StaleError`."""

        async def store() -> None:
            snapshot = self.snapshot
            if snapshot is None or snapshot.generation != generation:
                held = "none" if snapshot is None else snapshot.generation
                raise _StaleError(f"commit of generation {generation}, but it holds {held}")
            response = await self._manager.send(
                self._commit_request(offsets, snapshot), node_id=self.coordinator_id
            )
            for topic in response.topics:
                for partition in topic.partitions:
                    _raise_for(partition.error_code, topic.name)

        await self._patiently(store)

    async def committed(self, partitions: Sequence[tuple[str, int]]) -> Committed:
        """Look up committed offsets; raises kafka-python's errors."""
        wanted = [TopicPartition(*partition) for partition in partitions]
        # Not fetch_committed_offsets: it may hand out an answer that was asked for earlier.
        found = await self._patiently(lambda: self._send_offset_fetch_request(wanted))
        return {
            tuple(it): (found[it].offset, metadata_of(found[it])) if it in found else None
            for it in wanted
        }

    async def _patiently(self, send: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Repeat a request while its failure may pass, up to the request timeout."""
        timer = Timer(self.config["request_timeout_ms"])
        while True:
            try:
                if not await self.ensure_coordinator_ready_async(timeout_ms=timer.timeout_ms):
                    raise kafka_errors.CoordinatorNotAvailableError
                return await send()
            except kafka_errors.NotCoordinatorError as error:
                self.coordinator_dead(error)
            except kafka_errors.RetriableError:
                if timer.expired:
                    raise
            await self._net.sleep(self.config["retry_backoff_ms"] / 1000)

    def _commit_request(self, offsets: Offsets, snapshot: AssignmentSnapshot) -> Any:
        # Not the base's commit: it sends whatever generation is current when it sends, and drops
        # the present membership when an old generation is refused.
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


_EVICTED = "the group no longer knows this member: its session expired, or it was removed"
_TAKEN_OVER = "another process has joined under this name"
_LEFT_BEHIND = "the group went on to another generation without this member"


def metadata_of(committed: Any) -> str:
    """The metadata of a committed offset, as kafka-python gives it, as they were meant.

    librdkafka's admin client stores the C string's final NUL with them, and only its own reader
    drops it again: a tag set by `coop-consumer reset` must still read as our tag.
    """
    metadata: str = committed.metadata or ""
    return metadata.rstrip("\0")


class _StaleError(Exception):
    """A commit names a generation that is not the one held."""


def _raise_for(error_code: int, topic: str) -> None:
    error_type = kafka_errors.for_code(error_code)
    if error_type is not kafka_errors.NoError:
        raise error_type(topic)


# -- bytes of the consumer protocol ----------------------------------------------------------------


def _encode(assignment: MemberAssignment | None) -> bytes:
    if assignment is None:
        return _NOTHING
    partitions = [(topic, list(numbers)) for topic, numbers in assignment.partitions.items()]
    encoded: bytes = ConsumerProtocolAssignment(
        version=0, assigned_partitions=partitions, user_data=assignment.user_data
    ).encode()
    return encoded


def _decode(assignment: bytes) -> Any:
    """Read what a leader sent, which is foreign input: unreadable means nothing assigned."""
    try:
        return ConsumerProtocolAssignment.decode(assignment or _NOTHING)
    except Exception:
        log.exception("unreadable assignment of %d bytes: taken as empty", len(assignment))
        return ConsumerProtocolAssignment.decode(_NOTHING)


def _readable(subscription: bytes, member_id: str) -> bytes:
    """Return the subscription, or an empty one if nobody could read it."""
    try:
        ConsumerProtocolSubscription.decode(subscription)
    except Exception:
        log.exception("unreadable subscription of member %s: it gets nothing", member_id)
        return _NO_TOPICS
    return subscription


# -- settings and errors ---------------------------------------------------------------------------


def _settings(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the settings with the defaults of kafka-python's consumer, and check the names.

    The bare client has smaller defaults: answers over 1 MB would break its connection.
    """
    defaults: dict[str, Any] = KafkaConsumer.DEFAULT_CONFIG
    if unknown := sorted(kwargs.keys() - defaults.keys()):
        raise _refused(f"does not know the settings {', '.join(unknown)}")
    if not kwargs.get("group_id"):
        raise GroupIdMissingError
    # By default a client that met an outage would sleep up to 30 s after it; Java's sleeps 1 s.
    return {**defaults, "reconnect_backoff_max_ms": 1_000, **kwargs}


def _checked(topics: Sequence[str]) -> tuple[str, ...]:
    """Return the topics if there are any and Kafka allows their names."""
    if not topics:
        raise ConfigError("topics", "are missing", "Subscribe to at least one topic")
    for topic in topics:
        try:
            ensure_valid_topic_name(topic)
        except (TypeError, ValueError) as error:
            raise ConfigError("topics", f": {error}", "Correct the name") from error
    return tuple(topics)


def _refused(problem: str) -> ConfigError:
    return ConfigError("group membership", problem, "Correct this setting")


def _in_our_words(  # noqa: PLR0911 - a table
    error: Exception, settings: Mapping[str, Any], member: str
) -> CoopConsumerError | None:
    """Say what an error of kafka-python means for a member of this group; None if nothing known."""
    group: str = settings["group_id"]
    servers = settings["bootstrap_servers"]
    bootstrap = servers if isinstance(servers, str) else ",".join(servers)
    user = settings["sasl_plain_username"] or ""
    match error:
        case _StaleError():
            return MemberLostError(group, member, str(error))
        case (
            kafka_errors.IllegalGenerationError()
            | kafka_errors.UnknownMemberIdError()
            | kafka_errors.RebalanceInProgressError()
        ):
            return MemberLostError(group, member, f"the broker answered {type(error).__name__}")
        case kafka_errors.FencedInstanceIdError():
            return FencedError(member, settings["group_instance_id"] or "")
        case kafka_errors.InconsistentGroupProtocolError() | kafka_errors.GroupIdNotFoundError():
            return ForeignProtocolError(group)
        case kafka_errors.GroupAuthorizationFailedError():
            return AuthorizationError(f"group {group}", "read", user)
        case kafka_errors.TopicAuthorizationFailedError():
            return AuthorizationError(f"topic {_subject(error)}", "read", user)
        case kafka_errors.SaslAuthenticationFailedError():
            return AuthorizationError(f"cluster {bootstrap}", "authenticate", user)
        case kafka_errors.InvalidSessionTimeoutError():
            return ConfigError(
                "session.timeout.ms",
                f"={settings['session_timeout_ms']} is outside the broker's bounds",
                "Choose a value between its group.min.session.timeout.ms and "
                "group.max.session.timeout.ms (6000 and 1800000 unless changed)",
            )
        case kafka_errors.UnknownTopicOrPartitionError():
            return TopicMissingError(_subject(error))
        case kafka_errors.RetriableError():
            return BrokerUnreachableError(bootstrap, str(error) or type(error).__name__)
        case kafka_errors.KafkaConfigurationError():
            return _refused(f"cannot be configured: {error}")
        case _:
            return None


def _subject(error: Exception) -> str:
    """What the error is about: kafka-python gives a name, or a set of names."""
    about = error.args[0] if error.args else "(not named by the broker)"
    return about if isinstance(about, str) else ", ".join(sorted(about))
