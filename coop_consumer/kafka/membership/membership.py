"""Membership in a Kafka consumer group: this member's generation, and what the leader gave it.

In: client settings, topics, opaque bytes of a listener. Out: calls of that listener, offsets
committed under the generation of an assignment. It may touch the broker and two threads:
kafka-python's IO thread (heartbeats, requests, all callbacks but the last) and one driver
(`coop-membership-<group>`) that connects, joins, and sleeps until something happens. Kept here:
callbacks come one at a time; no failing callback holds up the group; each request is answered once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from math import inf
from time import monotonic
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.util import Timer

from coop_consumer.core.blocked_read import RunId
from coop_consumer.errors import CoopConsumerError, Told, TopicMissingError
from coop_consumer.kafka.membership.connecting import LOOKING_UP, close_what_fails
from coop_consumer.kafka.membership.coordinator import Coordinator
from coop_consumer.kafka.membership.errors import refused
from coop_consumer.kafka.membership.group_protocol import OpaqueAssignor, PlainAssignor
from coop_consumer.kafka.membership.listener import (
    AssignmentSnapshot,
    MembershipListener,
    Offsets,
    OffsetsFound,
)
from coop_consumer.kafka.membership.requests import HAS_LEFT, Ask, GroupRequests
from coop_consumer.kafka.membership.seat import Seat
from coop_consumer.kafka.membership.settings import checked, completed
from coop_consumer.kafka.membership_login import logged_in_membership
from coop_consumer.log_events import LogEvent
from coop_consumer.log_filter import CLIENTS
from coop_consumer.plain_text import command as plain_command

log = logging.getLogger(__name__)

_POLL_MS = 200
"""How long the driver waits for a join before it checks whether it should leave."""

_BEAT_S = 1.0
"""How often the IO thread notes that it takes steps."""

_SHORT_LEAVE_MS = 2_000
"""How long a member waits for the answer to its LeaveGroup if it ends by a failure, or if no broker
has answered for so long that the group does not count on it any more."""

_CLIENT_LOGS = (
    "kafka.cluster",
    "kafka.coordinator",
    "kafka.coordinator.consumer",
    "kafka.coordinator.heartbeat",
    "kafka.net.connection",
    "kafka.net.inet",
    "kafka.net.manager",
    "kafka.net.transport",
)
"""The loggers of kafka-python that report each attempt."""


def throttle_logs() -> None:
    """Make kafka-python's lines pass the filter of all clients; may be repeated."""
    for name in _CLIENT_LOGS:
        logging.getLogger(name).addFilter(CLIENTS)


class Membership:
    """One member of one group, from `start` to `leave`. Methods may be called from any thread.

    Args:
        kwargs: settings by kafka-python's names, as for its `KafkaConsumer`; `bootstrap_servers`
            and `group_id` at least. `max_poll_interval_ms` is the rebalance timeout: how long
            others wait for this member when it is stuck. `heartbeat_interval_ms` sets how fast a
            rebalance is noticed.
        topics: what this member subscribes to; without any it gets nothing yet.
        protocol: the assignor's name in the group; all members must use the same.
        listener: who is notified; see `MembershipListener`.
        plain: the name of a plain assignor to offer too, or None. If some members know no other,
            the broker chooses it, and this member is a plain one among them.
        seat: source of the member id, and who hears of it; for a process that replaces another.
        connect_timeout_ms: how long to try for a first answer of a broker before giving up.
        topic_timeout_ms: how long a subscribed topic may be unknown at the start, because a new
            topic takes a moment to be known to every broker.
        command: completes a command of `coop-consumer` for a line of the log.

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
        plain: str | None = None,
        seat: Seat | None = None,
        connect_timeout_ms: int = 10_000,
        topic_timeout_ms: int = 5_000,
        command: Callable[..., str] = plain_command,
    ) -> None:
        self._settings = completed(kwargs)
        self._group: str = self._settings["group_id"]
        self._topics = checked(topics)
        self._listener = listener
        self._assignors: list[OpaqueAssignor | PlainAssignor] = [OpaqueAssignor(protocol, listener)]
        if plain is not None:  # the last one, so that the broker prefers ours if all know it
            self._assignors.append(PlainAssignor(plain, listener))
        self._seat = seat
        self._connect_timeout_ms = connect_timeout_ms
        self._topic_timeout_ms = topic_timeout_ms
        self._command = command
        self._wake = threading.Event()
        self._leaving = threading.Event()
        self._leave_timeout_ms = 0
        self._requests = GroupRequests(self._settings)
        self._beat_s = 0.0  # when the IO thread took a step last
        self._client: Any = None
        self._driver: threading.Thread | None = None

    def start(self) -> None:
        """Connect and join in the background; returns at once. To be called once.

        Later failures come as `on_fatal`: `BrokerUnreachableError` after
        `connect_timeout_ms`, `TopicMissingError`, `AuthorizationError`, `ForeignProtocolError`.

        Raises:
            ConfigError: kafka-python refuses a setting.
        """
        assert self._driver is None, "start() is called once"
        try:
            self._client = KafkaNetClient(**logged_in_membership(self._settings))
        except (kafka_errors.KafkaConfigurationError, TypeError, ValueError) as error:
            raise refused(f"cannot be configured: {error}") from error
        close_what_fails(self._client._manager)
        # kafka-python does not hand this setting on to its metadata requests.
        self._client.cluster.config["allow_auto_create_topics"] = False
        throttle_logs()
        name = f"coop-membership-{self._group}"
        self._driver = threading.Thread(target=self._drive, name=name, daemon=True)
        self._driver.start()

    @property
    def snapshot(self) -> AssignmentSnapshot | None:
        """The assignment held now, or None: not yet joined, lost, or left."""
        coordinator = self._requests.coordinator
        return coordinator.snapshot if coordinator else None

    def alive(self, now_ms: float) -> bool:
        """Whether the broker surely still counts on this member at `now_ms` (monotonic clock).

        True until one session timeout after the last request that the broker answered; while
        joining, until the rebalance timeout. Good for stopping early and for alarms. Safety must
        never depend on it: only the generation fences.
        """
        coordinator = self._requests.coordinator
        return (
            coordinator is not None
            and coordinator.snapshot is not None
            and now_ms < coordinator.alive_until_ms
        )

    def stepped_s(self) -> dict[str, float]:
        """When the thread of the heartbeats took a step last; see `GroupMembership`."""
        thread = self._client._net._io_thread if self._client is not None else None
        if thread is None or not self._beat_s or self._leaving.is_set():
            return {}
        return {thread.name: inf if thread.ident in LOOKING_UP else self._beat_s}

    async def _beat(self) -> None:
        """Note again and again that the IO thread takes steps; until the client closes."""
        while True:
            self._beat_s = monotonic()
            await self._client._net.sleep(_BEAT_S)

    def answered(self) -> tuple[float | None, bool]:
        """When the coordinator answered last (monotonic), and whether it waits for others now."""
        coordinator = self._requests.coordinator
        if coordinator is None:
            return None, False
        return coordinator.answered_s, coordinator.joining

    def request_rejoin(self) -> None:
        """Join again, soon, with fresh user data.

        A rebalance for all follows if this member leads or its user data changed; if not, the
        broker returns the present assignment. A nonce in the user data makes it always a rebalance.
        """
        coordinator = self._requests.coordinator
        if coordinator is not None:
            coordinator.rejoin()

    def look_at_topics(self) -> None:
        """Ask for the topics' partitions now; if they have changed, the leader rebalances."""
        if self._requests.coordinator is not None:
            self._client.cluster.request_update()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Replace the subscription, and rejoin if it differs.

        A topic that does not exist is no error here: it is assigned once it is created.

        Raises:
            ConfigError: a topic's name is refused.
        """
        with self._requests.lock:
            self._topics = checked(topics)
            if self._requests.coordinator is not None:
                self._requests.coordinator.subscribe(self._topics)

    def commit(self, offsets: Offsets, generation: int, done: Told) -> None:
        """Commit offsets for the group under `generation`, that of the assignment held.

        Returns at once. `done` is called exactly once, on the IO thread (before the return, if
        there is none): with None when the broker has stored all offsets, or with the error. An
        error that may pass (a coordinator moves or loads) is retried for `request_timeout_ms`. A
        topic that the coordinator does not know is told at once; offsets of others are stored.

        The broker checks member and generation, not ownership nor order. A lower offset replaces a
        higher one, so at most one commit of a partition should be in flight.

        Args:
            offsets: what to commit; metadata are stored beside it.
            generation: from the `AssignmentSnapshot` under which the offsets were earned.
            done: called with the outcome; must be quick.

        Errors given to `done`: `MemberLostError` if the generation is not that of the assignment
        held, or the group has moved on; `FencedError`; `AuthorizationError`; `TopicMissingError`;
        `BrokerUnreachableError` when it is not known whether the offsets were stored.
        """
        self._requests.request(
            lambda it: it.commit(offsets, generation), lambda _, error: done(error)
        )

    def confirm(self, generation: int, done: Told) -> None:
        """Ask whether we are still the member that got the assignment of `generation`.

        Returns at once. `done` is called exactly once, as by `commit`: with None if the broker
        knows us, by member id and instance id, in this generation or at its end.
        """
        self._requests.request(lambda it: it.confirm(generation), lambda _, error: done(error))

    def fence(
        self, undecided: Collection[RunId], id_of: Callable[[RunId], str]
    ) -> Future[Sequence[RunId]]:
        """Abort the open transactions of those of these runs that are not in the group any more.

        Returns at once. The future has the runs that were fenced; it fails with the errors of
        `commit`.

        Args:
            undecided: Whose transactions hold up a read; looked up before this call.
            id_of: The transactional.id of a run.
        """
        return self._asked(lambda it: it.fence(undecided, id_of))

    def committed(self, partitions: Iterable[tuple[str, int]]) -> Future[OffsetsFound]:
        """Look up what the group has committed for some (topic, partition).

        Needs no generation. Don't wait for the result in a callback of this class. The future
        fails with the errors of `commit`.
        """
        wanted = list(partitions)
        return self._asked(lambda it: it.committed(wanted))

    def _asked(self, ask: Ask) -> Future[Any]:
        future: Future[Any] = Future()

        def answer(found: Any, error: CoopConsumerError | None) -> None:
            if error is None:
                future.set_result(found)
            else:
                future.set_exception(error)

        self._requests.request(ask, answer)
        return future

    def leave(self, timeout_ms: int = 10_000) -> None:
        """Leave the group and end both threads; waits at most `timeout_ms`. May be repeated.

        A dynamic member informs the coordinator, so the others rebalance at once. A static
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
            failure = self._requests.translated(error, HAS_LEFT)
        except Exception as error:
            extra = LogEvent.MEMBERSHIP_FAILED.extra(group=self._group, error=error)
            told = (
                "group %s: what keeps this member in the group has failed, and the member ends. "
                "What is not committed comes again, and nothing is lost. Report this defect, with "
                "its traceback, and start the process again"
            )
            log.exception(told, self._group, extra=extra)
            failure = self._requests.translated(error, HAS_LEFT)
        self._end(failure)
        if failure is not None and not self._leaving.is_set():
            self._listener.on_fatal(failure)

    def _connect(self) -> None:
        """Find a broker and the topics, so that a leader has metadata at its first join."""
        manager, cluster = self._client._manager, self._client.cluster
        self._client._net.start()
        self._client._net.call_soon_threadsafe(self._beat)
        bootstrap = manager.bootstrap_async(self._connect_timeout_ms)
        # Set before its first request; a second request would come 100 ms later.
        cluster.set_topics(self._topics)
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
        # If a topic is deleted later, members must not ask for it ten times a second.
        cluster.config["retry_backoff_ms"] = 1_000
        self._requests.begin(self._new_coordinator, self._client._net)

    def _new_coordinator(self) -> Coordinator:
        return Coordinator(
            self._client,
            self._topics,
            self._assignors,
            self._listener,
            wake=self._wake.set,
            leaving=self._leaving.is_set,
            settings={**self._settings, "api_version": self._client._manager.broker_version},
            seat=self._seat,
        )

    def _follow(self) -> None:
        """Join whenever it is needed; else sleep until the coordinator wakes this thread."""
        coordinator = self._requests.coordinator
        # Polls also feed max.poll.interval, by which kafka-python detects a stuck driver.
        nap_s = self._settings["max_poll_interval_ms"] / 3000
        while coordinator is not None and not self._leaving.is_set():
            self._wake.clear()
            if coordinator.failure is not None:
                raise coordinator.failure
            try:
                settled = coordinator.poll(timeout_ms=_POLL_MS)
            except kafka_errors.RetriableError as error:
                extra = LogEvent.MEMBERSHIP_TRIED_AGAIN.extra(group=self._group, error=error)
                told = (
                    "group %s: a request to the group's coordinator has failed (%s), and is "
                    "repeated. Nothing is lost, and handlers go on. If this line comes again and "
                    "again, look at brokers and group: `%s`"
                )
                check = self._command("doctor", "--group", self._group)
                log.warning(told, self._group, error, check, extra=extra)
                self._leaving.wait(_POLL_MS / 1000)
                continue
            if settled:
                self._wake.wait(nap_s)

    def _end(self, failure: CoopConsumerError | None) -> None:
        """Leave the group and close the client; no callback comes after it."""
        is_counted_on = self.alive(monotonic() * 1_000)
        coordinator = self._requests.end()
        try:
            if coordinator is not None:
                if failure is not None:
                    self._client._net.run(coordinator.lose, str(failure))
                coordinator.snapshot = None
                timeout_ms = self._leave_timeout_ms if is_counted_on else 0
                coordinator.close(autocommit=False, timeout_ms=timeout_ms or _SHORT_LEAVE_MS)
        except Exception as error:
            extra = LogEvent.MEMBER_NOT_LEFT.extra(group=self._group, error=error)
            told = (
                "group %s: this member could not tell the group that it leaves. Its ranges wait "
                "until its session ends (session.timeout.ms), and nothing is lost"
            )
            log.exception(told, self._group, extra=extra)
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
