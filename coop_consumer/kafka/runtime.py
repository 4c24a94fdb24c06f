"""A member at work: the thread that feeds `MemberCore` events and carries out its actions.

In: a configuration, topics, an executor, callbacks. Out: a running group member. One thread
("coop-member") owns the core, until a handler that it helped out with keeps it and another one goes
on; everything else (fetch threads, progress log, group membership, executor) puts events into its
inbox. User callbacks have a thread of their own, so that a slow one holds up neither commits nor
heartbeats (`range_calls`); so has `flush`, for which only what it makes safe waits.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from itertools import count, starmap
from queue import Empty, SimpleQueue
from random import Random
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaError

from assignors import (
    WHOLE,
    AssignmentData,
    KeyRange,
    PlainMember,
    TopicPartition,
    UnknownVersionError,
    UserDataError,
    assign_plain,
    decode_assignment,
)
from coop_consumer.config import Config
from coop_consumer.core import actions, events
from coop_consumer.core.leader import GroupMemberData, plan
from coop_consumer.core.member import MemberCore
from coop_consumer.core.policies import Policies
from coop_consumer.errors import (
    CoopConsumerError,
    IndividualCommitNotAllowedError,
    MisuseError,
    ProgressLogLostError,
    TopicRangeFetchNotAllowedError,
    VersionMismatchError,
)
from coop_consumer.kafka.alone import (
    Alone,
    dealt_by_broker,
    refuse_if_dealt_by_broker,
    refuse_if_in_use,
)
from coop_consumer.kafka.breath import Breath
from coop_consumer.kafka.clients import check_settings
from coop_consumer.kafka.fetcher import Fetcher
from coop_consumer.kafka.flusher import Flusher
from coop_consumer.kafka.membership import (
    AssignmentSnapshot,
    GroupMember,
    MemberAssignment,
    Membership,
    Seat,
)
from coop_consumer.kafka.outage import Outage
from coop_consumer.kafka.own_topics import (
    record_max_bytes,
    warn_of_dead_letters,
    writer_settings,
)
from coop_consumer.kafka.policies import PolicyWatch
from coop_consumer.kafka.progress_log import LogWriter, ProgressReader
from coop_consumer.kafka.range_calls import RangeCallbacks, RangeCalls, RangeWatch
from coop_consumer.kafka.topic_watch import TopicWatch
from coop_consumer.kafka.topics import EARLIEST, LATEST, TopicFacts, Topics
from coop_consumer.kafka.translate import translated
from coop_consumer.planning import PROTOCOL, assignor_of, contract_of, plain_protocol_of
from coop_consumer.tracebacks import traceback_of
from offsets import Committed

if TYPE_CHECKING:
    from coop_consumer.executors import Executor

log = logging.getLogger(__name__)

_JOINING_TIMEOUT_S = 5.0
_CAUGHT_UP_S = 0.25
_TICK = events.Tick()

After = Callable[[], None]
T = TypeVar("T")


def new_name(config: Config) -> str:
    """A name for a member; a static one keeps its own."""
    return config.group_instance_id or f"{config.client_id}-{secrets.token_hex(6)}"


def _known(topics: Mapping[str, TopicFacts]) -> events.TopicsKnown:
    return events.TopicsKnown({name: (it.id, it.partitions) for name, it in topics.items()})


class Member:
    """One group member: clients, threads and the core between them.

    Args:
        config: Its configuration; `capacity` should be set.
        topics: What it subscribes to.
        callbacks: Who hears of ranges.
        until_caught_up: Close once the group has processed all topics up to their ends.
        call_user: Takes a call into the user's code, to be made soon and one at a time; by default
            a thread of its own makes them.
        flush: Makes durable what the user's code has buffered; None: it buffers nothing.
        alone: Join no group: `assign` tells what to consume.
        before: The run of this member before this one, which has lost its progress log: name, lock,
            counters and paused partitions stay.
        name: Its name in the group, if that is known before; else it takes a new one.
        seat: Where its member id comes from and goes to, if it follows another process.
        watch: Hears of ranges at once, on the member's thread; None: nobody does.

    Attributes:
        core: The state machine; only the member's thread may touch it.
        condition: Guards the lanes; idle executor threads wait on it.
        ending: Done when the member is about to end by an error, which `core.closing` tells.
        ended: Done when the member has left; holds the error that ended it, or None.
        accepted: Whether the group has ever given it an assignment by its contract.
    """

    def __init__(
        self,
        config: Config,
        topics: Sequence[str],
        callbacks: RangeCallbacks,
        *,
        until_caught_up: bool = False,
        call_user: Callable[[Callable[[], None]], None] | None = None,
        flush: Callable[[], object] | None = None,
        alone: bool = False,
        before: Member | None = None,
        name: str = "",
        seat: Seat | None = None,
        watch: RangeWatch | None = None,
    ) -> None:
        self.config = config
        self._seat = seat
        self.topics = sorted(set(topics))
        self.name: str = before.name if before is not None else name or new_name(config)
        self.condition: threading.Condition = (
            before.condition if before is not None else threading.Condition()
        )
        self.accepted = False
        self.ending: Future[None] = Future()
        self.ended: Future[CoopConsumerError | None] = Future()
        self._range_calls = RangeCalls(config.group_id, callbacks, call_user, self.ended, watch)
        if before is not None:
            before._range_calls.join()  # the user hears of one run's ranges before the next one's
        self._inbox: SimpleQueue[tuple[events.Event, After | None]] = SimpleQueue()
        self._flush = flush
        self._flusher: Flusher | None = None
        self._alone = alone
        self._answers: dict[int, Future[object]] = {}
        self._tokens = count(1)
        self._waking = False
        self._breath = Breath()
        self._until_caught_up = until_caught_up
        self._caught_up = False
        self._ending = False
        self._owned: Collection[tuple[str, int]] = ()
        self._since = (time.time() * 1_000, time.monotonic() * 1_000)
        self._executor: Executor | None = None
        self._perform = self._performers()
        self._outage = Outage(
            self._say,
            heartbeat_s=config.heartbeat_interval_ms / 1_000,
            join_s=config.max_poll_interval_ms / 1_000,
        )
        self._prepare(before)

    # ---- start ---------------------------------------------------------------------------------

    def _prepare(self, before: Member | None) -> None:
        """Ask the clients and the broker for everything that must be right before we join."""
        config = self.config
        check_settings(config)
        self._topics = Topics(config)
        self._topics.check_broker()
        if self._alone:
            refuse_if_in_use(self._topics.admin, config.group_id)
        else:
            refuse_if_dealt_by_broker(self._topics.admin, config.group_id)
        self._facts = self._topics.describe(self.topics)
        progress = self._topics.progress_topic(mend=before is not None)
        self.core = MemberCore(
            config,
            name=self.name,
            incarnation=secrets.randbits(64),
            log_partitions=progress.partitions,
            contract=contract_of(config, progress.id, progress.partitions),
            rng=Random(),  # noqa: S311 - spreads retries
            lock=self.condition,
            breathe=self._breathe,
            static=config.group_instance_id is not None or before is not None,
        )
        if before is not None:
            self.core.state.counters = before.core.state.counters
            self.core.state.paused = before.core.state.paused
        self.core.state.record_max_bytes = record_max_bytes(progress, config)
        self._writer_settings = writer_settings(progress, config)
        warn_of_dead_letters(self._topics, config, self.topics)
        self._watch = TopicWatch(
            self._facts,
            config.progress_topic,
            progress,
            interval_ms=config.topics_watch_interval_ms,
            look=self._look_at_topics,
            listener=self,
            group=config.group_id,
        )
        self._policies = PolicyWatch(config, lambda: self._rejoin("a policy has changed"))
        self._inbox.put((_known(self._facts), None))

    def start(self, executor: Executor) -> None:
        """Start all threads and join the group; returns at once."""
        config, group = self.config, self.config.group_id
        self._executor = executor
        self._reader = self._new_reader()
        self._writer = LogWriter(
            self._writer_settings, config.progress_topic, self.tell, name=f"coop-commit-{group}"
        )
        if self._flush is not None:
            self._flusher = Flusher(self._flush, group, name=f"coop-flush-{group}")
        self._fetcher = Fetcher(
            config.data_plane(),
            self._fetched,
            self._fetch_failed,
            self.die,
            missing=self._doubt_topics,
            name=f"coop-fetch-{group}",
        )
        self._membership: Membership | Alone = (
            Alone(self._topics, config)
            if self._alone
            else Membership(
                config.membership(),
                self.topics,
                PROTOCOL,
                self,
                plain=plain_protocol_of(config),
                seat=self._seat,
            )
        )
        self._membership.start()
        self._range_calls.start(self._flusher)
        self._begin_thread()
        if self._until_caught_up:
            name = f"coop-caught-up-{group}"
            threading.Thread(target=self._watch_the_end, name=name, daemon=True).start()

    def _begin_thread(self) -> None:
        name = f"coop-member-{self.config.group_id}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _new_reader(self) -> ProgressReader:
        return ProgressReader(
            self.config.progress_reader(),
            self.config.progress_topic,
            self._log_read,
            self.die,
            name=f"coop-progress-{self.config.group_id}",
            refused=self.on_fatal,
        )

    def now_ms(self) -> int:
        """Unix time in ms that never jumps: the clock at the start, and monotonic from there."""
        wall, steady = self._since
        return int(wall + time.monotonic() * 1_000 - steady)

    # ---- inbox ---------------------------------------------------------------------------------

    def tell(self, event: events.Event, after: After | None = None) -> None:
        """Put an event into the inbox; `after` is called once the core has taken it in."""
        self._inbox.put((event, after))

    def wake(self) -> None:
        """Executors have ended something that the member should look at."""
        if not self._waking:
            self._waking = True
            self._inbox.put((_TICK, None))

    def close(self) -> None:
        """Finish what runs, commit, leave; `ended` tells when that is done."""
        self.tell(events.Close())

    def assign(self, ranges: Mapping[TopicPartition, tuple[KeyRange, ...]]) -> None:
        """Consume these ranges from now on, of a member that is alone.

        Raises:
            MisuseError: For a partition that a topic does not have.
            TopicRangeFetchNotAllowedError, IndividualCommitNotAllowedError: For ranges smaller than
                a partition where a policy says so.
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        self._refuse_by_policy({tp: own for tp, own in ranges.items() if own != (WHOLE,)})
        self._learn({tp.topic for tp in ranges})
        for tp in sorted(ranges):
            if not 0 <= tp.partition < self.partitions(tp.topic):
                raise MisuseError(
                    "assign()",
                    f"{tp} does not exist: its topic has {self.partitions(tp.topic)} partitions",
                    "Name a partition that does",
                )
        self.tell(events.AssignAlone(ranges))

    def _refuse_by_policy(self, shares: Mapping[TopicPartition, tuple[KeyRange, ...]]) -> None:
        policies = self._policies.read() if shares else Policies()
        for tp, (key_range, *_) in sorted(shares.items()):
            where = (self.config.group_id, self.name, tp.topic, tp.partition, key_range)
            if policies.group:
                raise IndividualCommitNotAllowedError(*where)
            if tp.topic in policies.topics:
                raise TopicRangeFetchNotAllowedError(*where)

    def subscribe(self, topics: Iterable[str], callbacks: RangeCallbacks | None) -> None:
        """Consume these topics from now on, instead of those before; of a member of a group.

        Args:
            topics: Names.
            callbacks: Who hears of ranges from now on, if it is to be another one.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say; then all
                stays as it was.
        """
        assert isinstance(self._membership, Membership), "who is alone subscribes to nothing"
        topics = set(topics)
        self._learn(topics)
        self._range_calls.callbacks = callbacks or self._range_calls.callbacks
        self.topics = sorted(set(topics))
        self._membership.subscribe(self.topics)

    def _learn(self, topics: Collection[str]) -> None:
        """Ask for topics that are new to us, tell the core, and watch these topics from now on."""
        new = sorted(set(topics) - set(self._facts))
        facts = self._topics.describe(new) if new else {}
        self._facts = {**self._facts, **facts}
        wanted = {name: self._facts[name] for name in topics}
        self.tell(_known(facts), lambda: self._watch.watch(wanted))

    def partitions(self, topic: str) -> int:
        """How many partitions a topic of ours had when it was described; 0: it is not ours."""
        facts = self._facts.get(topic)
        return facts.partitions if facts is not None else 0

    def bounds(self, tp: TopicPartition) -> tuple[int, int]:
        """The partition's first offset and its end, as the broker has them now.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        return self._topics.offsets([tp], EARLIEST)[tp], self._topics.offsets([tp], LATEST)[tp]

    def ask(self, request: Callable[[int], events.Request | events.Withdraw]) -> Future[object]:
        """Put a request, made with its token, before the core; its answer.

        Whoever waits has to wait for `ended` too: a member that has ended answers nothing.
        """
        answer: Future[object] = Future()
        token = next(self._tokens)
        self._answers[token] = answer
        self.tell(request(token))
        return answer

    def look(self, read: Callable[[MemberCore], T]) -> Future[T]:
        """What `read` finds in the core, on the member's thread. Wait for it as after `ask`."""
        answer: Future[T] = Future()
        self.tell(events.Tick(), lambda: answer.set_result(read(self.core)))
        return answer

    def confirm(self, read: Callable[[], T], done: Callable[[T], None]) -> None:
        """Find something on the member's thread, and tell it if the group knows us still then.

        Args:
            read: Finds it, when all is carried out that the core has decided.
            done: Is told if the coordinator says, later, that we are in the generation of that
                moment: what was ours then was nobody else's.
        """

        def look() -> None:
            found, generation = read(), self.core.state.generation

            def told(error: CoopConsumerError | None) -> None:
                if error is None:
                    done(found)

            if generation >= 0:
                self._membership.confirm(generation, told)

        self.tell(_TICK, look)

    def _run(self) -> None:
        try:
            while not self.ended.done():
                if not self._step():
                    return
        except BaseException as error:  # noqa: BLE001 - whatever it is, `_end` hands it on
            self._say(logging.ERROR, "it has failed and ends", exc_info=True)
            self._end(error)

    def _step(self) -> bool:
        """Take one event in. False: another thread goes on with the member."""
        answered_s, joining = self._membership.answered()
        self._watch.step(self.now_ms())
        self._outage.step(time.monotonic(), answered_s, joining=joining)
        wake_ms = min(self.core.next_wake_ms(), self._watch.due_ms)
        wait_s = (wake_ms - self.now_ms()) / 1_000
        try:
            event, after = self._inbox.get(timeout=max(wait_s, 0.001))
        except Empty:
            event, after = _TICK, None
        if event is _TICK:
            self._waking = False
        for action in self.core.handle(event, self.now_ms()):
            self._perform[type(action)](action)
        assert self._executor is not None, "start() gives the executor"
        self._executor.pause(self.core.state.generation >= 0 and not self._alive())
        if after is not None:
            after()
        if self.core.closing.error is not None and not self.ending.done():
            self.ending.set_result(None)
        self._caught_up = self._until_caught_up and self.core.caught_up
        if not self._executor.help(self._begin_thread):
            return False
        self._executor.offered()
        return True

    def _breathe(self) -> None:
        """Give up the interpreter for a moment. Threads that never wait get it soon enough."""
        if self._executor is None or self._executor.waits:
            self._breath.take()

    def is_alive(self) -> bool:
        """Whether the group surely counts on us yet; by the clock, so only to stop early."""
        return self._alive()

    def _alive(self) -> bool:
        return self._membership.alive(time.monotonic() * 1_000)

    def _watch_the_end(self) -> None:
        """Close when the whole group is done: a member that died may have left us its ranges."""
        while not self._ended_within(_CAUGHT_UP_S):
            try:
                if self._caught_up and self._group_is_done():
                    self._say(logging.INFO, "caught up, leaving")
                    self._range_calls.about_to_leave()
                    self.close()
                    return
            except CoopConsumerError as error:
                self._say(logging.INFO, f"cannot tell yet whether it is done: {error}")

    def _ended_within(self, timeout_s: float) -> bool:
        wait([self.ended], timeout_s)
        return self.ended.done()

    def _group_is_done(self) -> bool:
        ends = self._topics.offsets(
            [
                TopicPartition(topic, number)
                for topic, facts in self._facts.items()
                for number in range(facts.partitions)
            ],
            LATEST,
        )
        committed = self._membership.committed((tp.topic, tp.partition) for tp in ends).result()
        return all(
            (found := committed[tp.topic, tp.partition]) is not None and found[0] >= end
            for tp, end in ends.items()
        )

    # ---- topics change -------------------------------------------------------------------------

    def _look_at_topics(self, names: Collection[str]) -> None:
        def found(topics: Mapping[str, TopicFacts | None] | CoopConsumerError) -> None:
            self.tell(_TICK, lambda: self._watch.seen(topics))

        self._topics.look_later(names, found)
        self._reader.look()
        self._policies.look()

    def _doubt_topics(self) -> None:
        """Something does not fit: look at the topics soon. From any thread."""
        self.tell(_TICK, self._watch.look_soon)

    def _fetched(self, event: events.Fetched | events.OutOfRange, taken: After) -> None:
        if isinstance(event, events.OutOfRange):
            # A topic made again looks like one that was cut off. Its id tells, so that comes first.
            self.tell(_TICK, lambda: self._watch.look_soon(lambda: self.tell(event, taken)))
        else:
            self.tell(event, taken)

    def _log_read(self, event: events.LogRead) -> None:
        self.tell(event)
        if event.restart:
            self._doubt_topics()

    def on_topics_changed(self, topics: Mapping[str, TopicFacts]) -> None:
        """Topics were made again or have more partitions: the core and the leader have to know."""
        self._facts = {**self._facts, **topics}
        self.tell(_known(topics))
        self._membership.look_at_topics()

    def on_progress_lost(self, error: ProgressLogLostError) -> None:
        """Nothing of this run can be committed any more."""
        self.tell(events.LogLost(error))

    # ---- actions -------------------------------------------------------------------------------

    def _performers(self) -> Mapping[type, Callable[..., None]]:
        return {
            actions.StartStream: self._start_stream,
            actions.StopStream: lambda a: self._fetcher.stop_stream(a.tp, a.stream),
            actions.HoldFetch: lambda a: self._fetcher.hold(a.hold),
            actions.ReadLog: lambda a: self._reader.read(a.log_partition, a.read),
            actions.FollowLog: lambda a: self._reader.follow(a.log_partition, a.follow),
            actions.Append: self._append,
            actions.FetchCommitted: self._fetch_committed,
            actions.CommitOffsets: self._commit_offsets,
            actions.ResolveOffset: self._resolve_offset,
            actions.DeadLetter: self._dead_letter,
            actions.Rejoin: lambda a: self._rejoin(a.reason),
            actions.RangesAssigned: self._ranges_assigned,
            actions.RangesRevoked: lambda a: self._range_calls.revoked(a.tp, a.ranges),
            actions.RangesLost: lambda a: self._range_calls.lost(a.tp, a.ranges),
            actions.Answer: lambda a: self._answers.pop(a.token).set_result(a.value),
            actions.Report: self._report,
            actions.ConfirmMembership: self._confirm,
            actions.AskEnds: self._ask_ends,
            actions.RenewFetch: lambda a: self._fetcher.renew(catch_up=a.catch_up),
            actions.RenewLogReader: lambda _: self._renew_reader(),
            actions.HandlerOverdue: self._tell_overdue,
            actions.AbandonLane: self._abandon,
            actions.EndProcess: self._end_process,
            actions.Leave: lambda a: self._end(a.error),
        }

    def _append(self, action: actions.Append) -> None:
        """Send it, after a flush if it needs one; what needs none need not wait for those."""

        def send(error: CoopConsumerError | None) -> None:
            if error is None:
                self._writer.append(action.log_partition, action.entries, action.token)
            else:
                self.tell(events.AppendFailed(action.token, error, is_final=True))

        if action.flush and self._flusher is not None:
            self._flusher.after(send)
        else:
            send(None)

    def _confirm(self, action: actions.ConfirmMembership) -> None:
        def seen(log_ends: Mapping[int, int]) -> None:
            def told(error: CoopConsumerError | None) -> None:
                confirmed = error is None
                self.tell(events.MembershipConfirmed(action.token, confirmed, log_ends))

            self._membership.confirm(action.generation, told)

        self._log_ends_later(action.log_partitions, seen)

    def _ask_ends(self, action: actions.AskEnds) -> None:
        def found(ends: Mapping[TopicPartition, int]) -> None:
            self._log_ends_later(
                action.log_partitions,
                lambda log_ends: self.tell(events.EndsTold(ends, log_ends)),
            )

        committed = self.config.isolation_level == "read_committed"
        self._topics.ends_later(action.partitions, found, committed=committed)

    def _log_ends_later(
        self, log_partitions: Iterable[int], done: Callable[[dict[int, int]], None]
    ) -> None:
        topic = self.config.progress_topic
        places = {TopicPartition(topic, number): number for number in log_partitions}
        self._topics.ends_later(
            places,
            lambda ends: done({places[tp]: end for tp, end in ends.items()}),
            committed=False,
        )

    def _renew_reader(self) -> None:
        self._reader.abandon()
        self._reader = self._new_reader()

    def _start_stream(self, action: actions.StartStream) -> None:
        self._fetcher.start_stream(action)

    def _ranges_assigned(self, action: actions.RangesAssigned) -> None:
        def told(error: CoopConsumerError | None) -> None:
            self.tell(events.RangesReady(action.token, error))

        self._range_calls.assigned(action.tp, action.ranges, flush=action.flush, told=told)

    def _report(self, action: actions.Report) -> None:
        lines_max, text = self.config.failure_traceback_lines, action.text
        if action.failure is not None and (told := traceback_of(action.failure, lines_max)):
            text = f"{text}\n{told}"
        self._say(action.level, text)

    def _tell_overdue(self, action: actions.HandlerOverdue) -> None:
        assert self._executor is not None, "start() gives the executor"
        stack = self._executor.stack(action.lane)
        doing = f"\nIt is here:\n{stack}" if stack else ""
        self._say(logging.ERROR, f"{action.error}{doing}")

    def _abandon(self, action: actions.AbandonLane) -> None:
        assert self._executor is not None, "start() gives the executor"
        self._executor.abandon(action.lane)

    def _end_process(self, action: actions.EndProcess) -> None:
        """A thread that hangs would outlive any orderly end: only this ends it for certain."""
        self._say(logging.CRITICAL, f"ending the process: {action.error}")
        logging.shutdown()
        os._exit(action.error.exit_code)

    def _rejoin(self, reason: str) -> None:
        self._say(logging.INFO, f"rejoining: {reason}")
        self._membership.request_rejoin()

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Future[dict[TopicPartition, Committed | None]]:
        """Ask for the group's committed offsets and their metadata."""
        asked = list(partitions)
        answer: Future[dict[TopicPartition, Committed | None]] = Future()

        def told(done: Future[dict[tuple[str, int], Committed | None]]) -> None:
            error = done.exception()
            if error is not None:
                answer.set_exception(error)
                return
            found = done.result()
            answer.set_result({tp: found[tp.topic, tp.partition] for tp in asked})

        future = self._membership.committed((tp.topic, tp.partition) for tp in asked)
        future.add_done_callback(told)
        return answer

    def _fetch_committed(self, action: actions.FetchCommitted) -> None:
        def told(done: Future[dict[TopicPartition, Committed | None]]) -> None:
            error = done.exception()
            if error is not None:
                self._say(logging.INFO, f"committed offsets cannot be read yet: {error}")
                self.tell(events.CommittedUnknown(action.partitions))
                return
            self.tell(events.CommittedRead(done.result()))

        self.committed(action.partitions).add_done_callback(told)

    def _commit_offsets(self, action: actions.CommitOffsets) -> None:
        offsets = {(tp.topic, tp.partition): value for tp, value in action.offsets.items()}
        self._membership.commit(
            offsets,
            action.generation,
            lambda error: self.tell(events.OffsetsCommitted(action.token, error)),
        )

    def _resolve_offset(self, action: actions.ResolveOffset) -> None:
        def told(answer: int | Exception) -> None:
            if isinstance(answer, int):
                self.tell(events.OffsetResolved(action.tp, answer))
            else:
                told = f"{action.tp}: its {action.policy} offset cannot be asked: {answer}"
                self._say(logging.WARNING, told)
                self.tell(events.OffsetResolved(action.tp, -1))

        self._topics.resolve_later(action.tp, action.policy, told)

    def _dead_letter(self, action: actions.DeadLetter) -> None:
        record = action.record
        letter = record.contents()  # as it came, whatever its handler has made of it
        headers: list[tuple[str, str | bytes | None]] = [
            *letter.headers,
            ("coop.error", action.error.encode()),
            ("coop.attempts", str(action.attempts).encode()),
            ("coop.topic", letter.tp.topic.encode()),
            ("coop.partition", str(letter.tp.partition).encode()),
            ("coop.offset", str(letter.offset).encode()),
            ("coop.group", self.config.group_id.encode()),
        ]
        self._writer.produce(
            self.config.dead_letter_topic_for(letter.tp.topic),
            letter.key,
            letter.value,
            headers,
            lambda error: self.tell(events.DeadLettered(record, error)),
        )

    def _fetch_failed(self, error: KafkaError, topic: str) -> None:
        user = str(dict(self.config.passed).get("sasl.username", ""))
        self.tell(events.Fatal(translated(error, f"topic {topic}", user, "read")))

    def die(self, error: BaseException) -> None:
        """End by this error: what is half alive would hold its ranges and process nothing."""

        def end() -> None:
            raise error

        self.tell(_TICK, end)

    def _say(self, level: int, text: str, *, exc_info: bool = False) -> None:
        """Write to the log who we are, and what there is to say."""
        group, member = self.config.group_id, self.name
        with suppress(BaseException):  # the handler of a log is a stranger's, too
            log.log(level, "group %s, member %s: %s", group, member, text, exc_info=exc_info)

    def _end(self, error: BaseException | None) -> None:
        """Close everything; the member has left, or has failed."""
        if error is not None:
            error.add_note(f"This ended member {self.name} of group {self.config.group_id}.")
        if self._executor is not None:
            self._executor.pause(True)
        self._answer_joins()
        self._membership.leave()
        self._fetcher.close()
        self._reader.close()
        if self._flusher is not None:
            self._flusher.close()
        timeout_s = self.config.shutdown_timeout_ms / 1_000
        self._writer.close(timeout_s, lost=self.core.closing.log_lost)
        self._range_calls.end()
        try:
            if error is None or isinstance(error, CoopConsumerError):
                self.ended.set_result(error)
            else:
                self.ended.set_exception(error)
        except InvalidStateError:
            log.debug("the member had ended before")

    def _answer_joins(self) -> None:
        """Nobody reads the inbox from here on: who waits for a subscription gets the last one."""
        self._ending = True
        while True:
            try:
                event, after = self._inbox.get_nowait()
            except Empty:
                return
            if isinstance(event, events.Joining) and after is not None:
                after()

    # ---- what the group tells (see MembershipListener) -----------------------------------------

    def on_joining(self) -> bytes:
        """Our next subscription. Waits for the member's thread, which never blocks for long.

        Raises:
            TimeoutError: It has not answered in 5 s.
        """
        self._policies.joining()
        if self._ending:
            self._owned = ()
            return self.core.subscription()
        answer: Future[bytes] = Future()

        def told() -> None:
            self._owned = [(tp.topic, tp.partition) for tp in self.core.withdrawal.kept()]
            answer.set_result(self.core.subscription())

        self.tell(events.Joining(), told)
        return answer.result(_JOINING_TIMEOUT_S)

    def on_revoking(self) -> Future[object]:
        """A plain member may get what we hold: let go of it, and tell when that is done."""
        return self.ask(events.Withdraw)

    def owned(self) -> Collection[tuple[str, int]]:
        """The whole partitions that we go on with through the rebalance."""
        return self._owned

    def on_assigned(self, snapshot: AssignmentSnapshot) -> None:
        """An assignment has come."""
        if not snapshot.plain and not snapshot.user_data and snapshot.partitions:
            self.tell(events.Fatal(dealt_by_broker(self.config.group_id)))
            return
        try:
            data = self._data_of(snapshot)
        except UnknownVersionError as error:  # nobody would process what we are thought to hold
            self.tell(events.Fatal(VersionMismatchError(self.name, str(error))))
            return
        self.accepted |= not (snapshot.plain or data.refused)
        self.tell(events.Assigned(snapshot.generation, data, plain=snapshot.plain))
        self._doubt_topics()  # what made the leader assign anew may have been a topic

    def _data_of(self, snapshot: AssignmentSnapshot) -> AssignmentData:
        if snapshot.user_data is None:
            whole = {
                TopicPartition(topic, number): (WHOLE,)
                for topic, numbers in snapshot.partitions.items()
                for number in numbers
            }
            return AssignmentData(ranges=whole)
        try:
            return decode_assignment(snapshot.user_data)
        except UnknownVersionError:
            raise
        except UserDataError as error:
            self._say(logging.ERROR, f"its assignment cannot be read, it holds nothing: {error}")
            return AssignmentData()

    def on_lost(self, reason: str) -> None:
        """We are no member any more."""
        self.tell(events.Lost(reason))

    def on_fatal(self, error: CoopConsumerError) -> None:
        """Membership is over for good."""
        self.tell(events.Fatal(error))

    def lead_assign(
        self, partitions: Mapping[str, int], members: Sequence[GroupMember]
    ) -> Mapping[str, MemberAssignment]:
        """We lead the group: plan its next generation."""
        policies = self._policies.for_plan()
        made = plan(
            assignor_of(self.config),
            partitions,
            [GroupMemberData(m.member_id, m.topics, m.user_data) for m in members],
            topic_allows_sharing=policies.topic_allows_sharing(partitions),
            group_allows_sharing=self.config.accept_individual_commit and not policies.group,
            now_ms=self.now_ms(),
        )
        for note in made.notes:
            self._say(logging.WARNING, note)
            self._doubt_topics()  # another contract may name a progress topic newer than ours
        return {
            member_id: MemberAssignment(planned.partitions, planned.user_data)
            for member_id, planned in made.members.items()
        }

    def lead_plain(
        self, partitions: Mapping[str, int], members: Sequence[GroupMember]
    ) -> Mapping[str, MemberAssignment]:
        """We lead the group, and some of its members are plain ones."""
        plain = [
            PlainMember(
                m.member_id, m.topics, m.instance_id, tuple(starmap(TopicPartition, m.owned))
            )
            for m in members
        ]
        planned = assign_plain(self.config.upgrade_from, partitions, plain)
        return {member_id: MemberAssignment(own, b"") for member_id, own in planned.items()}
