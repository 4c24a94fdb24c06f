"""A member at work: its thread feeds `MemberCore` events and has its actions carried out.

In: a configuration, topics, an executor, callbacks. Out: a running group member. One thread
("coop-member") owns the core. If a handler that it helped with keeps it, another thread takes over.
All other parts (fetch threads, progress log, group membership, executor) put events into its inbox.
User callbacks have their own thread, so that a slow one delays neither commits nor heartbeats
(`range_calls`). `flush` has one too: only commits wait for it (`kafka.committer`).
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import KW_ONLY, dataclass
from random import Random
from typing import TYPE_CHECKING, TypeVar, Unpack

from assignors import WHOLE, KeyRange, TopicPartition
from coop_consumer.config import Config, TopicChoice, choice_of
from coop_consumer.core import events
from coop_consumer.core.blocked_read import RunId
from coop_consumer.core.glimpse import Glimpse
from coop_consumer.core.lanes import KeyLanes
from coop_consumer.core.member import MemberCore
from coop_consumer.core.metrics import MemberMetrics
from coop_consumer.core.policies import Policies
from coop_consumer.core.snapshot import Snapshot
from coop_consumer.errors import (
    CoopConsumerError,
    IndividualCommitNotAllowedError,
    MisuseError,
    TopicRangeFetchNotAllowedError,
)
from coop_consumer.kafka.alone import Alone, refuse_if_dealt_by_broker, refuse_if_in_use
from coop_consumer.kafka.client_figures import with_figures
from coop_consumer.kafka.clients import check_settings
from coop_consumer.kafka.committer import AtLeastOnce, Committer, ExactlyOnce
from coop_consumer.kafka.membership import Membership, Seat
from coop_consumer.kafka.own_topics import (
    batch_limit,
    record_max_bytes,
    warn_of_dead_letters,
    writer_settings,
)
from coop_consumer.kafka.policies import PolicyWatch
from coop_consumer.kafka.topics import Topics
from coop_consumer.kafka.transaction_check import check_transactions, transactor_settings
from coop_consumer.kafka.transactor import Transactor
from coop_consumer.log_events import Facts, LogEvent
from coop_consumer.log_filter import whatever_a_log_does
from coop_consumer.member.caught_up import CaughtUp
from coop_consumer.member.group_side import GroupSide
from coop_consumer.member.hands import Hands
from coop_consumer.member.identity import Identity
from coop_consumer.member.inbox import Inbox
from coop_consumer.member.memory import resident_bytes
from coop_consumer.member.outage import Outage
from coop_consumer.member.ports import GroupView
from coop_consumer.member.pulse import Pulse
from coop_consumer.member.range_calls import RangeCallbacks, RangeCalls, RangeWatch
from coop_consumer.member.topic_side import TopicSide
from coop_consumer.plain_text import counted
from coop_consumer.planning import PROTOCOL, contract_of, plain_protocol_of
from offsets import Committed

if TYPE_CHECKING:
    from coop_consumer.core.lane import Entry
    from coop_consumer.executors import Executor
    from coop_consumer.kafka.committer import EffectsWriter
    from coop_consumer.kafka.transaction_client import TransactedState
    from coop_consumer.ops.health import Health

log = logging.getLogger(__name__)

T = TypeVar("T")

_TOGETHER_S = 0.005
"""Events that wait are taken in together, for so long; then what they bring about is done."""
_MEMORY_S = 5.0
"""How often the member looks what its process has in memory."""


@dataclass(eq=False, repr=False)
class MemberRun:
    """One run of a group member: its parts, the thread between them, and the end.

    Args:
        config: Its configuration; `capacity` should be set.
        topics: The topics that it subscribes to: names and patterns.
        callbacks: Notified about ranges.
        identity: What the member keeps over its runs.
        again: An earlier run has lost its progress log.
        until_caught_up: Close once the group has processed all topics up to their ends.
        call_user: Takes a call into the user's code, to make soon and one at a time; by default, a
            thread of the member makes the calls.
        flush: Makes durable what the user's code has buffered; None: it buffers nothing.
        effects: Where the effects of handlers go, before the commit; none: handlers have none. With
            exactly once they go with it, and this is empty.
        state: Keyed state, as transactions take it along; None: handlers keep none.
        alone: Join no group: `assign` says what to consume.
        seat: Source of its member id, and who hears of it; for a process that replaces another.
        watch: Notified about ranges at once, on the member's thread; None: nobody.
        outputs: Topics that handlers send to, besides `output.topics`: no pattern takes them.

    Attributes:
        inbox: Takes events for the core, from any thread.
        pulse: What its threads note for probes.
        condition: Guards the lanes; idle executor threads wait on it.
        error: The error that ends the member, or has ended it; None if there is none.
        ending: Done when it is about to end by `error`.
        now_ms: Unix time in ms, without jumps.
        ended: Done when it has left; holds the error that ended it, or None.
    """

    config: Config
    topics: Sequence[str]
    callbacks: RangeCallbacks
    identity: Identity
    _: KW_ONLY
    again: bool = False
    until_caught_up: bool = False
    call_user: Callable[[Callable[[], None]], None] | None = None
    flush: Callable[[], object] | None = None
    effects: Sequence[EffectsWriter] = ()
    state: TransactedState | None = None
    alone: bool = False
    seat: Seat | None = None
    watch: RangeWatch | None = None
    outputs: Collection[str] = ()

    def __post_init__(self) -> None:
        config = self.config
        self.topics = sorted(set(self.topics))
        self.name = self.identity.name
        self.condition = self.identity.condition
        self.inbox = Inbox()
        self.error: CoopConsumerError | None = None
        self.ending: Future[None] = Future()
        self.ended: Future[CoopConsumerError | None] = Future()
        self._range_calls = RangeCalls(
            config.group_id, self.callbacks, self.call_user, self.ended, self.watch
        )
        self.pulse = Pulse(
            group=config.group_id,
            member=self.name,
            thread=f"coop-member-{config.group_id}",
            ended=self.ended,
        )
        self._breath = self.identity.breath
        self._memory_due_s = 0.0
        self._is_away = False  # as the core knows it
        self.now_ms = unix_clock()
        self._executor: Executor | None = None
        self._caught_up: CaughtUp | None = None
        self._outage = Outage(
            self._say,
            heartbeat_s=config.heartbeat_interval_ms / 1_000,
            join_s=config.max_poll_interval_ms / 1_000,
            doctor=config.command("doctor", "--group", config.group_id),
        )
        self._prepare()

    # ---- start ---------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Ask the clients and the broker for everything that must be right before the join."""
        config = self.config
        check_settings(config)
        self._topics = Topics(config)
        self._topics.check_broker()
        if self.alone:
            refuse_if_in_use(self._topics.admin, config.group_id)
        else:
            refuse_if_dealt_by_broker(self._topics.admin, config.group_id)
        choice = choice_of(config, self.topics, self.outputs)
        facts = self._topics.chosen(choice)
        progress = self._topics.progress_topic(mend=self.again)
        self._core = MemberCore(
            config,
            name=self.name,
            incarnation=secrets.randbits(64),
            log_partitions=progress.partitions,
            contract=contract_of(config, progress.id, progress.partitions),
            rng=Random(),  # noqa: S311 - spreads retries
            lock=self.condition,
            breathe=self._breathe,
            static=config.group_instance_id is not None or self.again,
        )
        self._core.state.counters = self.identity.counters
        self._core.state.tally = self.identity.tally
        self._core.state.load.paused = self.identity.paused
        self._core.state.record_size.max_bytes = record_max_bytes(progress, config)
        self._writer_settings = writer_settings(progress, config)
        if config.exactly_once:
            self._transactor_settings = transactor_settings(progress, config, self.run_id())
            check_transactions(config, self._transactor_settings)
        warn_of_dead_letters(self._topics, config, sorted(facts))
        self._side = TopicSide(
            config, self.inbox, self._topics, choice=choice, facts=facts, progress=progress
        )
        if choice.patterns:
            matching = ", ".join(sorted(facts.keys() - choice.named)) or "no topic yet"
            told = f"{', '.join(choice.patterns)} matches {matching}"
            self._say(logging.INFO, LogEvent.TOPIC_MATCHES, told)
        self._policies = PolicyWatch(config, lambda: self._hands.rejoin("a policy has changed"))
        self._group_side = GroupSide(
            config=config,
            inbox=self.inbox,
            core=self._core,
            policies=self._policies,
            say=self._say,
            now_ms=self.now_ms,
            doubt_topics=self._side.doubt,
        )

    def start(self, executor: Executor) -> None:
        """Start all threads and join the group; returns at once."""
        config = self.config
        self._executor = executor
        self._membership: Membership | Alone = (
            Alone(self._topics, config) if self.alone else self._new_seat()
        )
        self._hands = Hands(
            config=config,
            inbox=self.inbox,
            topics=self._topics,
            side=self._side,
            membership=self._membership,
            executor=executor,
            range_calls=self._range_calls,
            committer=self._new_committer(),
            say=self._say,
            leave=self._end,
        )
        self._side.start(
            self._hands.look,
            self._policies.look,
            changed=self._membership.look_at_topics,
            follow=None if isinstance(self._membership, Alone) else self._membership.subscribe,
        )
        self._membership.start()
        self.pulse.others = [self._membership.stepped_s, self._hands.stepped_s]
        self.pulse.stepped_s = time.monotonic()
        self._begin_thread()
        if self.until_caught_up:
            self._caught_up = CaughtUp(
                side=self._side,
                topics=self._topics,
                membership=self._membership,
                ended=self.ended,
                say=self._say,
                leave=self._leave_caught_up,
            )
            self._caught_up.start(config.group_id)

    def _new_committer(self) -> Committer:
        config, tell, fail = self.config, self.inbox.tell, self.inbox.fail

        def flushed(seconds: float) -> None:
            tell(events.Flushed(seconds))

        writer_settings = with_figures(config, self._writer_settings, "commit", tell)
        if not config.exactly_once:
            return AtLeastOnce(
                config,
                writer_settings,
                tell,
                fail,
                flush=self.flush,
                effects=self.effects,
                flushed=flushed,
            )
        transactor = Transactor(
            with_figures(config, self._transactor_settings, "transactions", tell),
            config.group_id,
            config.progress_log,
            tell,
            fail,
            batch_limit=lambda name: batch_limit(config, self._topics, name),
            is_letter=lambda it, name: name == config.dead_letter_topic_for(it.tenure.tp.topic),
            is_unfit=self._topics.is_unfit,
            flush=self.flush,
            state=self.state,
            flushed=flushed,
        )
        return ExactlyOnce(config, writer_settings, transactor, tell, fail)

    def _new_seat(self) -> Membership:
        return Membership(
            self.config.membership(),
            self._side.names,
            PROTOCOL,
            self._group_side,
            plain=plain_protocol_of(self.config),
            seat=self.seat,
            command=self.config.command,
        )

    def _begin_thread(self) -> None:
        name = f"coop-member-{self.config.group_id}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    # ---- what others ask for -------------------------------------------------------------------

    @property
    def lanes(self) -> KeyLanes:
        """The runnable records; executors take from it under `condition`."""
        return self._core.lanes

    @property
    def accepted(self) -> bool:
        """Whether the group has ever given this member an assignment by its contract."""
        return self._group_side.accepted

    def close(self) -> None:
        """Finish running handlers, commit, leave; then `ended` is done."""
        self.inbox.tell(events.Close())

    def wait_for_calls(self) -> None:
        """Wait until the user has been notified of all ranges of this run, which has ended."""
        self._range_calls.join()

    def snapshot(self) -> Future[Snapshot]:
        """The member's state. Wait for `ended`, too: a member that has ended does not answer."""
        return self.inbox.find(self._core.snapshot)

    def metrics(self) -> Future[MemberMetrics]:
        """The member's figures. Wait for `ended`, too, as after `snapshot`."""
        return self.inbox.glance(self._core.metrics)

    def glimpse(self) -> Future[Glimpse]:
        """What runs, failed and is held. Wait for `ended`, too, as after `snapshot`."""
        return self.inbox.glance(self._core.glimpse)

    def entry_at(self, tp: TopicPartition, offset: int) -> Future[Entry | None]:
        """What runs there, for `Executor.stack`. Wait for `ended`, too, as after `snapshot`."""
        return self.inbox.glance(lambda: self._core.glimpses.entry_at(tp, offset))

    def assign(self, ranges: Mapping[TopicPartition, tuple[KeyRange, ...]]) -> None:
        """Consume these ranges from now on; for a member that joins no group.

        Raises:
            MisuseError: A topic does not have this partition.
            TopicRangeFetchNotAllowedError, IndividualCommitNotAllowedError: A policy forbids ranges
                smaller than a partition.
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        shares = {tp: own for tp, own in ranges.items() if own != (WHOLE,)}
        _refuse_by_policy(self.config, self.name, shares, self._policies)
        self._side.learn(TopicChoice(frozenset(tp.topic for tp in ranges)))
        for tp in sorted(ranges):
            if not 0 <= tp.partition < self.partitions(tp.topic):
                raise MisuseError(
                    "assign()",
                    f"{tp} does not exist: its topic has "
                    f"{counted(self.partitions(tp.topic), 'partition')}",
                    "Name a partition that does",
                )
        self.inbox.tell(events.AssignAlone(ranges))

    def subscribe(self, topics: Iterable[str], callbacks: RangeCallbacks | None) -> None:
        """Consume these topics from now on, instead of the present ones; for a group's member.

        Args:
            topics: Names and patterns.
            callbacks: Notified about ranges from now on; None: as before.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say; then all
                stays as it was.
        """
        assert isinstance(self._membership, Membership), "a lone member has no subscription"
        topics = sorted(set(topics))
        self._side.learn(choice_of(self.config, topics, self.outputs))
        self._range_calls.callbacks = callbacks or self._range_calls.callbacks
        self.topics = topics

    @property
    def matching(self) -> list[str]:
        """The topics that are consumed now: those that are named, and those that match."""
        return self._side.names

    def partitions(self, topic: str) -> int:
        """How many partitions a subscribed topic had when it was described; 0: not subscribed."""
        return self._side.partitions(topic)

    def bounds(self, tp: TopicPartition) -> tuple[int, int]:
        """The partition's first offset and its end, from the broker.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        return self._side.bounds(tp)

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Future[dict[TopicPartition, Committed | None]]:
        """Ask for the group's committed offsets and their metadata."""
        return self._hands.committed(partitions)

    def group_view(self) -> GroupView:
        """The group's members, and what each was assigned. Blocks until a broker answers.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        # Loaded when it is asked for: it takes a member 8 ms.
        from coop_consumer.kafka.group_view import CoordinatorView  # noqa: PLC0415

        self._topics.check_broker()
        return CoordinatorView(self.config, lambda: self._topics.admin)

    def confirm(self, read: Callable[[], T], done: Callable[[T], None]) -> None:
        """Read on the member's thread, and pass the result on if the group then confirms us.

        Args:
            read: Called once all that the core has decided is carried out.
            done: Called with the result if the coordinator confirms later that this member was in
                that generation: what it held then was nobody else's.
        """

        def look() -> None:
            found, generation = read(), self._core.state.membership.generation

            def told(error: CoopConsumerError | None) -> None:
                if error is None:
                    done(found)

            if generation >= 0:
                self._membership.confirm(generation, told)

        self.inbox.call(look)

    def run_id(self) -> RunId:
        """What this run's transactions are named by."""
        return RunId(self.name, self._core.state.incarnation)

    def fence(self, undecided: Collection[RunId]) -> None:
        """End the transactions of those of these runs that are not in the group; returns soon."""
        self._hands.fence(undecided)

    def health(self) -> Health:
        """How this run is. Any thread; never blocks."""
        return self.pulse.health(self.now_ms())

    def is_alive(self) -> bool:
        """Whether the group surely counts on us; by the clock, so only for stopping early."""
        return self._membership.alive(time.monotonic() * 1_000)

    # ---- the member's thread -------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self.ended.done():
                if not self._step():
                    return
        except BaseException as error:  # noqa: BLE001 - `_end` passes it on
            told = (
                "it has failed and ends. What is not committed comes again at others, and nothing "
                "is lost. Report this defect, with its traceback"
            )
            self._say(logging.ERROR, LogEvent.MEMBER_FAILED, told, error=error, exc_info=True)
            self._end(error)

    def _step(self) -> bool:
        """Take in what has come. False: another thread took over as the member's thread."""
        core, executor = self._core, self._executor
        assert executor is not None, "start() gives the executor"
        now_s, (answered_s, joining) = time.monotonic(), self._membership.answered()
        self._side.step(self.now_ms())
        self._outage.step(now_s, answered_s, joining=joining)
        if (is_away := self._outage.since_s is not None) != self._is_away:
            self._is_away = is_away
            self.inbox.tell(events.BrokersAway(is_away))
        self.pulse.silent_since_s = self._outage.since_s
        self.pulse.step(now_s, core.condition)
        if now_s >= self._memory_due_s:
            self._memory_due_s = now_s + _MEMORY_S
            core.state.tally.memory_bytes = resident_bytes()
        wake_ms = min(core.next_wake_ms(), self._side.due_ms)
        event, after = self.inbox.next(max((wake_ms - self.now_ms()) / 1_000, 0.001))
        now_ms, until_s = self.now_ms(), time.monotonic() + _TOGETHER_S
        while core.take(event, now_ms) and after is None and time.monotonic() < until_s:
            waiting = self.inbox.waiting()
            if waiting is None:
                break
            event, after = waiting
        decided = core.decide()
        self.error = core.closing.error
        for action in decided:
            self._hands.perform(action)
        executor.pause(core.state.membership.is_member and not self.is_alive())
        if after is not None:
            after()
        if self.error is not None and not self.ending.done():
            self.ending.set_result(None)
        if self._caught_up is not None:
            self._caught_up.is_here = core.caught_up
        if not executor.help(self._begin_thread, self._breathe):
            return False
        executor.offered()
        return True

    def _breathe(self) -> None:
        """Give up the interpreter for a moment, for threads that rarely get it."""
        executor = self._executor
        self._breath.between(waits=executor is None or executor.waits)

    def _say(
        self,
        level: int,
        event: LogEvent,
        text: str,
        /,
        *,
        exc_info: bool = False,
        **facts: Unpack[Facts],
    ) -> None:
        """Report a line that names the group and the member."""
        facts["group"], facts["member"] = group, member = self.config.group_id, self.name
        with whatever_a_log_does():
            told = "group %s, member %s: %s"
            extra = event.extra(**facts)
            log.log(level, told, group, member, text, exc_info=exc_info, extra=extra)

    # ---- the end -------------------------------------------------------------------------------

    def _leave_caught_up(self) -> None:
        self._range_calls.about_to_leave()
        self.close()

    def _end(self, error: BaseException | None) -> None:
        """Close everything, after the member has left or failed."""
        self.pulse.is_ending = True
        if error is not None:
            error.add_note(f"This ended member {self.name} of group {self.config.group_id}.")
        if self._executor is not None:
            self._executor.pause(True)
        self._group_side.end()
        self._membership.leave()
        closing = self._core.closing
        self._hands.close(log_lost=closing.log_lost or closing.unheard)
        try:
            if error is None or isinstance(error, CoopConsumerError):
                self.ended.set_result(error)
            else:
                self.ended.set_exception(error)
        except InvalidStateError:
            extra = LogEvent.MEMBER_ENDED_BEFORE.extra(group=self.config.group_id, member=self.name)
            log.debug("the member had ended before", extra=extra)


def unix_clock() -> Callable[[], int]:
    """A clock: Unix time in ms that never jumps, the wall clock now and monotonic from here."""
    offset_ms = (time.time() - time.monotonic()) * 1_000
    return lambda: int(time.monotonic() * 1_000 + offset_ms)


def _refuse_by_policy(
    config: Config,
    member: str,
    shares: Mapping[TopicPartition, tuple[KeyRange, ...]],
    watch: PolicyWatch,
) -> None:
    """Raise if a policy of the group or a topic forbids shares of partitions."""
    policies = watch.read() if shares else Policies()
    for tp, (key_range, *_) in sorted(shares.items()):
        where = (config.group_id, member, tp.topic, tp.partition, key_range)
        if policies.group:
            raise IndividualCommitNotAllowedError(*where)
        if tp.topic in policies.topics:
            raise TopicRangeFetchNotAllowedError(*where)
