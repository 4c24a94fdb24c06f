"""The membership of a consumer that calls `assign`: it joins no group.

In: commits and look-ups of committed offsets. Out: their answers, by the admin protocol. The
coordinator accepts such a commit only while the group has no members. So a group in use refuses it,
and its members are not disturbed. Without a join there is nothing to lose, and nothing keeps two
such consumers apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from coop_consumer.config import Config
from coop_consumer.core.blocked_read import RunId
from coop_consumer.errors import (
    CoopConsumerError,
    ForeignProtocolError,
    MemberLostError,
    Told,
    UnexpectedAnswerError,
)
from coop_consumer.kafka.clients import close_aside, log, successor
from coop_consumer.kafka.coordinator import ask_coordinator, committed_at, description_of
from coop_consumer.kafka.membership import Offsets, OffsetsFound
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.kafka.topics import Topics
from coop_consumer.kafka.translate import translated
from coop_consumer.log_events import LogEvent
from offsets import Committed

GENERATION = 0
"""The generation of every assignment that a user makes."""

_ASK_EVERY_S, _ASK_TIMEOUT_S = 1.0, 5.0
_TIMEOUT_S = 30.0  # the first group of a new cluster waits until the offsets topic exists
_IN_USE = (
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.NON_EMPTY_GROUP,
    KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
)


def refuse_if_in_use(admin: AdminClient, group: str) -> None:
    """Raise if the group has members: they own all its ranges. Blocks.

    Raises:
        ForeignProtocolError: The group has members.
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    described = description_of(admin, group)
    if described is not None and described.members:
        raise _in_use(group)


def refuse_if_dealt_by_broker(admin: AdminClient, group: str) -> None:
    """Raise if the broker assigns the group's partitions (KIP-848). Blocks.

    Such a broker would accept this member and assign it whole partitions while their owners still
    process them. If the coordinator cannot answer (it may load the group), the join reports it.

    Raises:
        ForeignProtocolError: The broker assigns the partitions.
    """
    try:
        described = description_of(admin, group)
    except CoopConsumerError as error:
        extra = LogEvent.GROUP_UNKNOWN.extra(group=group, error=error)
        log.debug(
            "group %s: cannot be described before it is joined: %s", group, error, extra=extra
        )
        return
    if described is None or not described.members:
        return
    if described.type is ConsumerGroupType.CONSUMER:
        raise dealt_by_broker(group)


def dealt_by_broker(group: str) -> ForeignProtocolError:
    """The error of a group whose broker assigns partitions: the broker knows no key ranges."""
    return ForeignProtocolError(
        group, "a member has set group.protocol=consumer, so the broker deals its partitions"
    )


def _in_use(group: str) -> ForeignProtocolError:
    return ForeignProtocolError(
        group,
        "it has members, and this process assigns ranges by itself",
        "Call subscribe instead of assign, stop the members, or choose another group.id",
    )


class Alone:
    """Commits for a group without being its member; see `member.ports.GroupMembership`.

    It has one generation, `GENERATION`, and a thread for look-ups.

    Args:
        topics: Its admin client serves the requests.
        config: Names the group, and how to reach its coordinator.
    """

    def __init__(self, topics: Topics, config: Config) -> None:
        self._topics = topics
        self._config = config
        self._group = config.group_id
        self._consumer = self._new_consumer()
        name = f"coop-committed-{self._group}"
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._has_left = False
        self._answered_s: float | None = None
        self._asked: Future[Any] | None = None
        self._ask_s = 0.0
        self._lock = Lock()  # guards the end of the look-up thread

    def _new_consumer(self) -> Consumer:
        return Consumer(logged_in(self._config.progress_reader()), logger=log)

    def start(self) -> None:
        """Do nothing: there is no group to join."""

    def leave(self) -> None:
        """Close the client once the pending look-ups are answered."""
        with self._lock:
            is_first, self._has_left = not self._has_left, True
        if is_first:
            self._reading.shutdown()
            self._consumer.close()

    def request_rejoin(self) -> None:
        """Do nothing: the user makes the assignment."""

    def look_at_topics(self) -> None:
        """Do nothing: there is no leader that assigns partitions."""

    def alive(self, now_ms: float) -> bool:  # noqa: ARG002 - as Membership's
        """True until `leave`: nobody takes ranges away."""
        return not self._has_left

    def stepped_s(self) -> dict[str, float]:
        """No thread: there are no heartbeats."""
        return {}

    def answered(self) -> tuple[float | None, bool]:
        """When a broker answered last, and that this consumer waits for no join.

        Without heartbeats a broker is asked every second; only the member's thread calls. A commit
        or a look-up tells less: it may wait for a coordinator for 30 s while brokers answer.
        """
        now_s = monotonic()
        is_due = now_s >= self._ask_s and (self._asked is None or self._asked.done())
        if is_due and not self._has_left:
            self._ask_s = now_s + _ASK_EVERY_S
            with suppress(KafkaException):  # this client is about to be replaced
                self._asked = self._topics.admin.describe_cluster(request_timeout=_ASK_TIMEOUT_S)
                self._asked.add_done_callback(self._note_answer)
        return self._answered_s, False

    def _note_answer(self, asked: Future[Any]) -> None:
        if asked.exception() is None:
            self._answered_s = monotonic()

    def committed(self, partitions: Iterable[tuple[str, int]]) -> Future[OffsetsFound]:
        """Look up what the group has committed; see `Membership.committed`."""
        asked_for = list(partitions)

        def look_up() -> OffsetsFound:
            asked = [Place(*place) for place in asked_for]
            try:
                places = ask_coordinator(lambda s: self._consumer.committed(asked, s), _TIMEOUT_S)
            except KafkaException as error:
                found = successor(self._consumer, self._new_consumer, self._config.progress_log)
                if found is not None:
                    close_aside(self._consumer)
                    self._consumer = found
                raise self._reason(error) from error
            answer = {(p.topic, p.partition): committed_at(p) for p in places}
            return {p: v if (v := answer.get(p)) and v.offset >= 0 else None for p in asked_for}

        # Not by the admin client: if the coordinator has moved or is not ready, librdkafka's
        # crashes with a null pointer (its issue 5040).
        with self._lock:
            if not self._has_left:
                return self._reading.submit(look_up)
        refused: Future[OffsetsFound] = Future()
        refused.set_exception(self._lost("it has left"))
        return refused

    def confirm(self, generation: int, done: Told) -> None:
        """Answer at once: without a group, nobody can replace this consumer."""
        done(self._refusal(generation))

    def fence(
        self,
        undecided: Collection[RunId],
        id_of: Callable[[RunId], str],
    ) -> Future[Sequence[RunId]]:
        """Nobody is gone from a group that there is not."""
        del undecided, id_of
        nobody: Future[Sequence[RunId]] = Future()
        nobody.set_result(())
        return nobody

    def commit(
        self,
        offsets: Offsets,
        generation: int,
        done: Told,
    ) -> None:
        """Commit offsets, except those below an offset committed with the same metadata.

        Another process with other ranges of the same partition may have committed meanwhile. Both
        commit the stable offset of the same epoch. The higher offset is the newer one.
        """
        refused = self._refusal(generation)
        if refused is not None:
            done(refused)
            return

        def looked_up(found: Future[OffsetsFound]) -> None:
            error = found.exception()
            if error is not None:
                done(error if isinstance(error, CoopConsumerError) else self._unexpected(error))
                return
            higher = {
                place: value
                for place, value in offsets.items()
                if _is_news(found.result()[place], value)
            }
            if higher:
                self._alter(higher, done)
            else:
                done(None)

        self.committed(offsets).add_done_callback(looked_up)

    def _alter(self, offsets: Offsets, done: Told) -> None:
        def answered(future: Any) -> None:
            try:
                places = future.result().topic_partitions
            except KafkaException as error:
                done(self._reason(error))
                return
            refused = next((p.error for p in places if p.error is not None), None)
            done(None if refused is None else self._reason(KafkaException(refused)))

        places = [
            Place(topic, number, offset, metadata)
            for (topic, number), (offset, metadata) in offsets.items()
        ]
        request = ConsumerGroupTopicPartitions(self._group, places)
        try:
            futures = self._topics.admin.alter_consumer_group_offsets([request])
        except KafkaException as error:
            done(self._reason(error))
            return
        futures[self._group].add_done_callback(answered)

    def _refusal(self, generation: int) -> MemberLostError | None:
        if self._has_left:
            return self._lost("it has left")
        if generation != GENERATION:
            return self._lost(f"asked of generation {generation}, but it holds {GENERATION}")
        return None

    def _lost(self, detail: str) -> MemberLostError:
        return MemberLostError(self._group, self._config.client_id, detail)

    def _unexpected(self, error: BaseException) -> CoopConsumerError:
        return UnexpectedAnswerError(f"group {self._group}", f"{type(error).__name__}: {error}")

    def _reason(self, error: KafkaException) -> CoopConsumerError:
        if error.args[0].code() in _IN_USE:
            return _in_use(self._group)
        return translated(error.args[0], f"group {self._group}")


def _is_news(known: Committed | None, value: Committed) -> bool:
    return known is None or known.metadata != value.metadata or known.offset < value.offset
