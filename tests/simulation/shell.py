"""The shell of a simulated member: carries events to the real `MemberCore`, and its actions out.

In: answers of the model broker, coordinator and executor, in order; life and death. Out: requests
to them. The shell does in virtual time what `coop_consumer.member.member` does with threads and
clients. A paused member takes nothing in and sends nothing. When it wakes up, it finds what has
come meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, cast

from assignors import WHOLE, AssignmentData
from coop_consumer.config import UpgradeFrom
from coop_consumer.core import actions, events
from coop_consumer.core.leader import GroupMemberData, plan
from coop_consumer.core.member import MemberCore
from coop_consumer.core.policies import Policies
from coop_consumer.errors import (
    ContractMismatchError,
    CoopConsumerError,
    DataLossError,
    FencedError,
    MemberLostError,
    ProcessingStoppedError,
    ProgressLogLostError,
    TopicRecreatedError,
    WorkerFlushError,
)
from coop_consumer.planning import assignor_of
from tests.simulation.brokers import outage_of
from tests.simulation.coordinator import Answer, GroupState, Seat
from tests.simulation.decoded import decode_assignment
from tests.simulation.executor import SimExecutor
from tests.simulation.fetcher import SimFetcher
from tests.simulation.flusher import SimFlusher
from tests.simulation.keyed_state import SimState
from tests.simulation.newer import newer_subscription, with_more
from tests.simulation.plain import partitions_of, plan_of, text_of
from tests.simulation.progress_log import LogLost, ProgressProducer, ProgressReader, ReplyLost
from tests.simulation.scheduler import Call, Channel
from tests.simulation.transactor import SimTransactor

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.core.effects import Result
    from coop_consumer.core.record import Record
    from coop_consumer.errors import HandlerOverdueError
    from tests.simulation.checker.history import History, Known, Parked, Watched
    from tests.simulation.data_log import SimMessage
    from tests.simulation.situations import Ranges
    from tests.simulation.world import World


GROUP_LOST_SHARE = 0.25
TOGETHER_MS = 5
"""What comes in so many milliseconds may be taken in together."""
"""Of what is lost elsewhere, so much is lost of joins and syncs."""


class Phase(Enum):
    """Where a member's client is in the group protocol."""

    OUT = auto()
    JOINING = auto()
    STABLE = auto()


class MemberShell:
    """One process of the simulated group.

    Attributes:
        alive: Neither crashed nor gone for good.
        crashed: It ended without leaving.
        paused: Stopped as by SIGSTOP.
        seat: Its seat as far as it knows; the coordinator may have taken the seat away.
        ranges: Its last assignment, while it has a seat.
        is_plain: It knows only the protocol of plain members.
        capacity: Its capacity, as far as it has heard.
        known: The progress in the log when the last assignment came.
        parked: The parked records in the log at that time.
        topics: The topics' ids and numbers of partitions, as far as it has heard.
        left_draining: It ended by a crash while handlers of ranges it had given up were at work.
        is_crowded: As many outputs wait as may, as of its last look.
        state: What its handlers keep by key; None: nothing.
    """

    is_plain = False

    def __init__(
        self,
        world: World,
        config: Config,
        *,
        name: str,
        incarnation: int,
        workers: int,
        before: MemberShell | None = None,
    ) -> None:
        self._world = world
        self.config = config
        self._log = world.log
        self.name = name
        self.static = config.group_instance_id is not None
        self.incarnation = incarnation
        self.is_newer = False
        self.title = f"{name}/{incarnation}" if self.static or before else name
        self.alive, self.paused, self.closing, self.crashed = True, False, False, False
        self.put_out = False
        self._was_letting_go = self.left_draining = self._waking = self.is_crowded = False
        self._news, self._undecided = False, 0
        self.seat: Seat | None = None
        self.topics = dict(world.topics)
        self.ranges: Ranges = {}
        self.capacity = config.capacity or 1
        self.known: Known = {}
        self.parked: Parked = {}
        self._is_caught_up = False
        self._overdue_error: HandlerOverdueError
        self._policies, self._planned = Policies(), cast("Policies | None", None)
        self._phase, self._attempt, self._rejoin_wanted = Phase.OUT, 0, False
        drawn = world.scenario
        self._outage = outage_of(drawn.heartbeat_ms, drawn.rebalance_ms)
        self._answered_s, self._is_away = cast("float | None", None), False
        self._patient_until_ms = 0
        self._requested = self._withdrawal = 0
        self._asked: dict[int, list[tuple[Watched, History, SimMessage]]] = {}
        self._inbox: deque[Call] = deque()
        self._wake_at_ms: int | None = None
        self._requests, self._replies = Channel(world.scheduler), Channel(world.scheduler)
        self.fetcher = SimFetcher(world, self)
        self._producer = ProgressProducer(world, self)
        self._reader = ProgressReader(world, self)
        self.flusher = SimFlusher(world, self)
        self._transactor = SimTransactor(world, self)
        self.executor = SimExecutor(world, self, workers)
        self.state = SimState(world, self) if world.keeps_state else None
        self.core = MemberCore(
            config,
            name=name,
            incarnation=incarnation,
            log_partitions=world.scenario.log_partitions,
            contract=world.contract,
            rng=world.scheduler.rng,
            static=self.static or before is not None,
        )
        self._next_run: MemberShell | None = None
        if before is not None:
            before._next_run = self
            self.is_newer = before.is_newer
            self.core.state.load.paused = before.core.state.load.paused
        self._perform = self._performers()

    @property
    def newest_run(self) -> MemberShell:
        """The last run that has begun in its process."""
        return self if self._next_run is None else self._next_run.newest_run

    # ---- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Learn the topics, join."""
        self.handle(events.TopicsKnown(self.topics))
        self.ask_broker(1, 1_000, self.read_policies)
        self._join()
        self._heartbeat()

    def crash(self) -> None:
        """End as by kill -9: nothing more happens here, but sent messages still arrive."""
        self.alive, self.crashed = False, True
        self.left_draining = self.is_draining
        self._world.touched.add(self)
        self._world.checker.crashed(self)

    @property
    def is_draining(self) -> bool:
        """Whether handlers of given-up ranges run."""
        partitions = self.core.state.partitions.values()
        return any(tenure.draining for p in partitions for tenure in p.all_tenures())

    @property
    def is_letting_go(self) -> bool:
        """Whether handlers of given-up ranges run, or the log lacks a release."""
        partitions = self.core.state.partitions.values()
        return any(
            tenure.draining or tenure.released != tenure.logged.released
            for partition in partitions
            for tenure in partition.all_tenures()
        )

    def pause(self) -> None:
        """As by SIGSTOP."""
        self.paused = True

    def resume(self) -> None:
        """Go on as by SIGCONT: everything that has come meanwhile is taken in, in order."""
        self.paused = False
        self._take_one()

    def _take_one(self) -> None:
        if self._inbox and self.alive and not self.paused:
            self._inbox.popleft()()
            self._world.scheduler.after(0, self._take_one)

    def receive(self, call: Call) -> None:
        """Take in something that has come for this process."""
        if not self.alive:
            return
        if self.paused or self._inbox:
            self._inbox.append(call)
        else:
            call()

    def close(self) -> None:
        """Ask the member to finish, commit and leave."""
        self.closing = True
        self.receive(self._close)

    def _close(self) -> None:
        self.handle(events.Close())
        if self.state is not None:
            self.state.restores.stop()

    def ask(self, request: Callable[[int], events.Request]) -> None:
        """Send a user's request; the checker judges the answer to a commit."""
        self._requested += 1
        token = self._requested

        def take() -> None:
            event = request(token)
            if isinstance(event, events.CommitNow):
                self._asked[token] = self._world.checker.answers.finished_by(self)
            self.handle(event)

        self.receive(take)

    def _answered(self, action: actions.Answer) -> None:
        if action.token == self._withdrawal:
            self._withdrawal = 0
            self._join_now()
        if done := self._asked.pop(action.token, None):
            self._world.checker.answers.answered(self, done)

    def refresh(self) -> None:
        """Ask for metadata; if partitions have changed, join again."""
        before, self.topics = self.topics, dict(self._world.topics)
        if before != self.topics:
            self.handle(events.TopicsKnown(self.topics))
            self.rejoin()

    def change_capacity(self, capacity: int) -> None:
        """Give the member more or fewer workers."""

        def take() -> None:
            self.capacity = capacity
            self.handle(events.CapacityChanged(capacity))

        self.receive(take)

    def read_policies(self) -> None:
        """Read the policies: at first, after a plan of its own, and after a change."""
        self._policies = self._world.policies
        if self._planned not in {None, self._policies}:
            self._planned = None
            self.rejoin()

    def look_at_progress_topic(self) -> None:
        """Check whether the progress topic is the one with which the member began."""
        if self._log.is_deleted:
            self.handle(events.LogLost(LogLost))

    def look_at_log(self) -> None:
        """Check whether the records that were read from the progress log still exist."""
        self._reader.look()

    def story(self) -> list[str]:
        """What the member holds and waits for, for people."""
        state = self.core.state
        lines = [f"{self.title}: generation {state.membership.generation}, {self._phase.name}"]
        for partition in state.partitions.values():
            agreement = partition.agreement
            lines.append(
                f"  {partition.tp}: epoch {agreement.epoch} {agreement.state.name}, "
                f"committed {agreement.committed}, assigned {partition.assigned}, "
                f"waiting {partition.waiting}, hot {partition.hot}, streams {partition.streams}"
            )
            lines += [
                f"    {t}: pending {sorted(t.pending)}, blocked {t.blocked.hashes}, "
                f"waits {t.blocked.waits}, draining {dict(t.draining)}, attempts {t.attempts}"
                for t in partition.all_tenures()
            ]
            lines += [f"    {lane}" for lane in state.lanes.tables.filed(partition.tp).values()]
        return [*lines, f"  fresh: {state.lanes.tables.fresh}"]

    # ---- the core ------------------------------------------------------------------------------

    def handle(self, event: events.Event) -> None:
        """Give the core an event, and carry out what it decides; or after those that follow."""
        world = self._world
        world.note(self.title, "hears", event)
        world.touched.add(self)
        world.at_work = self
        can_wait = self.core.take(event, world.scheduler.now_ms)
        world.checker.loads.taken(self, event)
        self._news |= not isinstance(event, events.Tick)
        if can_wait and not isinstance(event, events.Joining) and world.takes_together():
            self._undecided += 1
            self.later(0, TOGETHER_MS, self._decide_at_last)
        else:
            self._decide()

    def _decide_at_last(self) -> None:
        if self._undecided:
            if self._undecided > 1:
                self._world.happened("events together")
            self._world.touched.add(self)
            self._world.at_work = self
            self._decide()

    def _decide(self) -> None:
        """Carry out what the core decides by all events that it has taken in."""
        world, has_news = self._world, self._news
        self._news, self._undecided = False, 0
        done = self.core.decide()
        world.checker.loads.decided(self, done)
        for action in done:
            world.note(self.title, "does", action)
            self._perform[type(action)](action)
        world.checker.members.looked_at(self)
        self.is_crowded = self.core.outbox.effects.fills(1.0)
        if self.is_crowded:
            world.happened("outputs at their bound")
        was_caught_up, self._is_caught_up = self._is_caught_up, self.core.caught_up
        if self._is_caught_up and (has_news or not was_caught_up):
            world.checker.answers.says_caught_up(self)
        was_letting_go, self._was_letting_go = self._was_letting_go, self.is_letting_go
        if self._was_letting_go and not was_letting_go:
            world.faults.while_letting_go(self)
        self.executor.offered()
        self._arm()
        if self._rejoin_wanted and self._phase is Phase.STABLE:
            self._rejoin_wanted = False
            self._join()

    def wake(self) -> None:
        """Tick soon, because executors have ended something; one tick serves all of it."""
        if not self._waking:
            self._waking = True
            self.later(1, 3, self._woken_up)

    def _woken_up(self) -> None:
        self._waking = False
        self.handle(events.Tick())

    def _arm(self) -> None:
        due_ms = self.core.next_wake_ms()
        if self._wake_at_ms is None or due_ms < self._wake_at_ms:
            self._wake_at_ms = due_ms
            delay_ms = max(due_ms - self._world.scheduler.now_ms, 1)
            self._world.scheduler.after(delay_ms, lambda: self.receive(lambda: self._woken(due_ms)))

    def _woken(self, due_ms: int) -> None:
        if self._wake_at_ms == due_ms:
            self._wake_at_ms = None
            self.handle(events.Tick())

    def later(self, low_ms: int, high_ms: int, call: Call) -> None:
        """Let something come for this process within so many milliseconds, mostly soon."""
        scheduler = self._world.scheduler
        scheduler.after(scheduler.between(low_ms, high_ms), lambda: self.receive(call))

    def ask_broker(self, low_ms: int, high_ms: int, call: Call) -> None:
        """As `later`, of what only a broker can tell."""
        scheduler, brokers = self._world.scheduler, self._world.brokers
        delay_ms = brokers.reach(scheduler.between(low_ms, high_ms))
        scheduler.after(delay_ms, lambda: self.receive(call))

    # ---- the group protocol, client side -------------------------------------------------------

    @property
    def _member_id(self) -> str:
        return self.seat.member_id if self.seat else ""

    def send(self, request: Call) -> None:
        """Send a request to the group's coordinator."""
        self._requests.send(self._net_ms(), request)

    @property
    def is_evicted(self) -> bool:
        """Whether it was evicted, and may not have heard of it: it ends without a word."""
        return self.seat is not None and self.seat.lost

    @property
    def has_newest_assignment(self) -> bool:
        """Whether the group has a plan, and this member knows its share."""
        return (
            self.seat is not None
            and not self.seat.gone
            and self._world.coordinator.state is GroupState.STABLE
            and self._world.coordinator.generation == self.core.state.membership.generation
        )

    @property
    def inherits(self) -> bool:
        """Whether its assignment was made for an earlier run of its name."""
        return self.seat is not None and self.seat.inherits

    def _reply(self, event: events.Event) -> None:
        self._replies.send(self._net_ms(), lambda: self.receive(lambda: self.handle(event)))

    def _ask(self, request: Call) -> None:
        """Send a request of the group protocol, which may get lost."""
        if not self._is_group_lost():
            self.send(request)

    def _answer(self, attempt: int, call: Call, late_ms: int = 0) -> None:
        """Answer a JoinGroup or SyncGroup, as the coordinator; the reply may get lost."""

        def take() -> None:
            if attempt == self._attempt:
                call()

        if not self._is_group_lost():
            delay_ms = self._world.brokers.reach(self._net_ms() + late_ms)
            self._replies.send(delay_ms, lambda: self.receive(take))

    def _is_group_lost(self) -> bool:
        """Whether a group message is lost; rarely, as each plan needs four of each member."""
        return self._world.scheduler.chance(self._world.weather.lost * GROUP_LOST_SHARE)

    def _is_lost(self) -> bool:
        return self._world.scheduler.chance(self._world.weather.lost)

    def _net_ms(self) -> int:
        delay_ms = self._world.scheduler.between(1, self._world.weather.net_ms)
        return self._world.brokers.reach(delay_ms)

    def _join(self) -> None:
        if not self.alive:
            return
        self._attempt += 1
        self._phase = Phase.JOINING
        world = self._world
        self._patient_until_ms = world.scheduler.now_ms + 2 * world.scenario.rebalance_ms
        if self.config.upgrade_from is UpgradeFrom.NONE:
            self._join_now()
        else:  # a plain member may get what it has: it lets go first
            self._requested += 1
            self._withdrawal = self._requested
            kept = self.core.withdrawal.kept()
            self.ranges = {tp: own for tp, own in self.ranges.items() if tp in kept}
            self.handle(events.Withdraw(self._withdrawal))

    def _join_now(self) -> None:
        world = self._world
        self.handle(events.Joining())
        owned = text_of(self.core.withdrawal.kept())
        attempt, member_id, subscription = self._attempt, self._member_id, self.core.subscription()
        world.checker.plans.joins(self, subscription)
        world.checker.loads.joins(self, self.core.claims_held())
        self._planned = None
        if self.is_newer:
            subscription = newer_subscription(subscription)
        self._ask(lambda: world.coordinator.join(self, member_id, subscription, attempt, owned))

    def _is_behind(self) -> bool:
        """Whether the group, which keeps a static member's seat, did not wait for it."""
        return self.core.state.membership.generation < self._world.coordinator.generation

    def _heartbeat(self) -> None:
        if not self.alive:
            return
        world = self._world
        if world.brokers.away_ms and not self.paused:
            self._look_at_brokers()
            if not self.alive:
                return
        if world.brokers.are_away:
            pass  # its request waits
        elif self.seat is not None and not self.paused:
            answer = world.coordinator.heartbeat(self.seat)
            if answer in {Answer.UNKNOWN, Answer.FENCED}:
                self._lost(fenced=answer is Answer.FENCED)
            elif self._withdrawal and self._is_behind():
                self._lost(fenced=False)
            elif answer is Answer.REBALANCE and self._phase is Phase.STABLE:
                self._join()
            elif self._phase is Phase.JOINING and world.scheduler.now_ms > self._patient_until_ms:
                self._join()  # the request or its answer was lost
        elif self._is_forgotten():
            self._join()
        world.scheduler.after(world.scenario.heartbeat_ms, self._heartbeat)

    def _look_at_brokers(self) -> None:
        """Notice whether a broker has answered since, and tell the core; then ask again."""
        world = self._world
        joining = self._phase is Phase.JOINING
        self._outage.step(world.scheduler.now_ms / 1_000, self._answered_s, joining=joining)
        if (is_away := self._outage.since_s is not None) != self._is_away:
            self._is_away = is_away
            if is_away and world.brokers.are_away:
                world.happened("brokers away")
            self.handle(events.BrokersAway(is_away))
        if self.seat is not None and not world.brokers.are_away:
            self._answered_s = world.scheduler.now_ms / 1_000

    def _is_forgotten(self) -> bool:
        """Whether its first JoinGroup was lost."""
        waits = self._phase is Phase.JOINING and not self.paused
        return waits and self._world.scheduler.now_ms > self._patient_until_ms

    def _lost(self, *, fenced: bool) -> None:
        self.seat, self.put_out, self.ranges = None, True, {}
        tenures = [t for p in self.core.state.partitions.values() for t in p.all_tenures()]
        retired = [t.logged.retired[0].tenure for t in tenures if t.logged.retired is not None]
        self._world.checker.truth.evict([*retired, *(tenure.id for tenure in tenures)])
        if fenced:
            self._phase = Phase.OUT
            self.handle(events.Fatal(FencedError(self.name, self.name)))
        else:
            self.handle(events.Lost("simulated: unknown member id"))
            self._join()

    def seated(self, seat: Seat, attempt: int) -> None:
        """The coordinator has given us a seat."""
        if attempt == self._attempt:
            self.seat = seat

    def rejoin_now(self, attempt: int) -> None:
        """The generation we waited for is over before it began."""
        self._answer(attempt, self._join)

    def lead(
        self,
        attempt: int,
        generation: int,
        members: Sequence[GroupMemberData],
        names: Mapping[str, str],
    ) -> None:
        """We lead the group: plan, and sync. `names` are the members' names by id."""

        def plan_and_sync() -> None:
            world, member_id = self._world, self._member_id
            policies = self._planned = self._policies
            counts = {topic: count for topic, (_, count) in self.topics.items()}
            made = plan(
                assignor_of(self.config),
                counts,
                members,
                topic_allows_sharing=policies.topic_allows_sharing(counts),
                group_allows_sharing=not policies.group,
                now_ms=world.scheduler.now_ms,
            )
            self.ask_broker(1, 1_000, self.read_policies)
            data = {id_: planned.user_data for id_, planned in made.members.items()}
            if self.is_newer:
                data = {id_: with_more(told) for id_, told in data.items()}
            world.checker.plans.planned(counts, members, data.values(), policies)

            def sync() -> None:
                if world.coordinator.sync(member_id, generation, data):
                    world.synced({names[id_]: decode_assignment(d) for id_, d in data.items()})

            self._ask(sync)

        self._answer(attempt, plan_and_sync)

    def lead_plain(self, attempt: int, generation: int, seats: Sequence[Seat]) -> None:
        """We lead the group, and some of its members are plain ones."""

        def plan_and_sync() -> None:
            world, member_id = self._world, self._member_id
            plan = plan_of(world.scenario.upgrade_from, self.topics, seats)
            self._ask(lambda: world.coordinator.sync(member_id, generation, plan))

        self._answer(attempt, plan_and_sync)

    def assigned(self, attempt: int, generation: int, assignment: bytes, *, plain: bool) -> None:
        """SyncGroup is answered."""

        def take() -> None:
            self._phase = Phase.STABLE
            self.known = self._world.checker.progress.progress_now()
            self.parked = self._world.checker.progress.parked_now()
            self.put_out = False
            data = _whole(assignment) if plain else decode_assignment(assignment)
            self.ranges = data.ranges
            who = events.GroupMetadata(generation, self._member_id)
            self.handle(events.Assigned(who, data, plain=plain))
            if self._rejoin_wanted:
                self._rejoin_wanted = False
                self._join()

        self._answer(attempt, take, self._world.faults.late_ms())

    # ---- actions -------------------------------------------------------------------------------

    def _performers(self) -> Mapping[type, Callable[[Any], object]]:
        return {
            actions.StartStream: self.fetcher.start,
            actions.StopStream: self.fetcher.stop,
            actions.HoldFetch: self.fetcher.hold,
            actions.HoldApart: self.fetcher.hold_apart,
            actions.ReadLog: lambda a: self._reader.read(a.log_partition, a.read),
            actions.FollowLog: lambda a: self._reader.follow(a.log_partition, follow=a.follow),
            actions.Append: self._append,
            actions.Commit: self._commit,
            actions.ConfirmMembership: self._confirm,
            actions.AskEnds: self._ask_ends,
            actions.RenewFetch: self.fetcher.renew,
            actions.RenewLogReader: lambda _: self._renew_reader(),
            actions.FetchCommitted: self._fetch_committed,
            actions.CommitOffsets: self._commit_offsets,
            actions.ResolveOffset: self._resolve_offset,
            actions.DoubtEnded: self._transactor.doubt_ended,
            actions.Fence: self._fence,
            actions.DeadLetter: self._dead_letter,
            actions.Rejoin: lambda _: self.rejoin(),
            actions.RangesAssigned: self._ranges_assigned,
            actions.RangesRevoked: self._ranges_revoked,
            actions.RangesLost: self._ranges_lost,
            actions.LogLine: lambda _: None,
            actions.HandlerOverdue: self._overdue,
            actions.CommitLate: lambda _: None,
            actions.AbandonLane: self._abandon,
            actions.EndProcess: lambda _: self._end_process(),
            actions.Answer: self._answered,
            actions.Leave: self._leave,
        }

    def fall(self, record: Record) -> None:
        """End the process by the handler of a record."""
        self._world.happened("killer")
        self._world.note(self.title, "falls at", record)
        self._world.checker.attempts.falls(record)
        self._end_process()

    def _end_process(self) -> None:
        """End the process by a handler; a supervisor starts the next one."""
        if self.alive:
            world = self._world
            world.happened("process ended")
            self.crash()
            name = self.name if self.static else None
            delay_ms = world.scheduler.between(1, 500)
            world.scheduler.after(delay_ms, lambda: world.start_member(name))

    def _overdue(self, action: actions.HandlerOverdue) -> None:
        self._world.happened("overdue")
        self._overdue_error = cast("HandlerOverdueError", action.error)

    def _abandon(self, action: actions.AbandonLane) -> None:
        if not self.executor.abandon(action.lane):
            offset = self._overdue_error.offset
            self._world.checker.attempts.never_began(action.lane.tenure.tp, offset)

    def _fence(self, action: actions.Fence) -> None:
        self.send(lambda: self._world.transactions.fence_absent(action.runs))

    def _append(self, action: actions.Append) -> None:
        self._producer.append(action.log_partition, action.entries, action.token)

    def _commit(self, action: actions.Commit) -> None:
        if self.config.exactly_once:
            self._transactor.commit(action)
            return
        ((log_partition, entries),) = action.appends.items()

        def send(flushed: bool) -> None:
            if flushed:
                self._producer.append(log_partition, entries, action.token)
            else:
                error = WorkerFlushError("simulated", "a lost message")
                self.handle(events.CommitRefused(action.token, error, events.Refusal.FINAL))

        self._after_flush(action.results, send)

    def _ranges_revoked(self, action: actions.RangesRevoked) -> None:
        if self.state is not None:
            self.state.leaving(action.tp, action.ranges, lost=False)

    def _ranges_lost(self, action: actions.RangesLost) -> None:
        self._world.happened("ranges lost")
        if self.state is not None:
            self.state.leaving(action.tp, action.ranges, lost=True)

    def _ranges_assigned(self, action: actions.RangesAssigned) -> None:
        def ready() -> None:
            self.handle(events.RangesReady(action.token))

        def load(flushed: bool) -> None:
            if flushed:
                self._world.checker.buffers.loaded(self, action.tp, action.ranges)
                if self.state is None:
                    self.later(0, 30, ready)
                else:
                    self.state.restores.coming(action.tp, action.ranges, ready)
            else:
                error = WorkerFlushError("simulated", "a lost message")
                self.handle(events.RangesReady(action.token, error))

        self._after_flush(action.after, load)

    def _after_flush(self, results: Sequence[Result] | None, call: Callable[[bool], None]) -> None:
        if results is not None and self._world.buffered:
            self.flusher.after(results, call)
        else:
            call(True)

    def rejoin(self) -> None:
        """Join again, once all that was decided is done, and a pending assignment has come."""
        self._rejoin_wanted = True

    def _leave(self, action: actions.Leave) -> None:
        if isinstance(action.error, ProcessingStoppedError):
            self._world.happened("stopped")
            self._world.heal_killer()  # people mend the handler before they start again
        elif isinstance(action.error, DataLossError | TopicRecreatedError):
            self._world.stopped_at_loss()
        elif isinstance(action.error, ProgressLogLostError | ContractMismatchError):
            self._world.begin_again_later(self)
        member_id = self._member_id
        self.alive = False
        if self.state is not None:
            self.state.restores.close()
        if self.flusher.failed:  # the log does not hear of what it has done
            self._world.checker.truth.disturb()
        self._world.checker.buffers.gone(self)
        if self.core.closing.unheard and not self._leave_unheard():
            return
        self._ask(lambda: self._world.coordinator.leave(member_id))

    def _leave_unheard(self) -> bool:
        """Leave brokers that are away; returns whether they hear of it, once they are back.

        All that it has finished is in the log, and what has failed. So whoever comes next does
        nothing of it again, as after an end in order.
        """
        world = self._world
        world.happened("leaves unheard")
        if self.seat is not None and not self.seat.gone:
            self.seat.unheard = True
        else:  # it was evicted before, and has not heard of that
            world.checker.truth.disturb()
        if not world.brokers.get_what_is_under_way():
            self._producer.purge()
        return world.brokers.hear_the_last_word()

    def lose_client(self, consumer: int | None) -> None:
        """Let a Consumer of the data, or that of the log (None), do nothing any more."""
        if consumer is None:
            self._reader.die()
        else:
            self.fetcher.die(consumer)

    def _renew_reader(self) -> None:
        self._world.happened("client renewed")
        self._reader = ProgressReader(self._world, self)

    def _confirm(self, action: actions.ConfirmMembership) -> None:
        seat, log = self.seat, self._log

        def look() -> None:
            ends = {number: log.partitions[number].end_offset for number in action.log_partitions}
            self._replies.send(self._net_ms(), lambda: self.receive(lambda: self.send(ask(ends))))

        def ask(ends: Mapping[int, int]) -> Call:
            def answer() -> None:
                confirmed = seat is not None and not seat.lost and not self._is_lost()
                self._reply(events.MembershipConfirmed(action.token, confirmed, ends))
                self._world.faults.while_confirmed(self)

            return answer

        self.send(look)

    def if_confirmed(self, call: Call) -> None:
        """Ask whether the group counts on this member; if so, make `call`."""
        seat = self.seat

        def ask() -> None:
            if seat is not None and not seat.lost and not self._is_lost():
                self._replies.send(self._net_ms(), lambda: self.receive(call))

        self.send(ask)

    def _ask_ends(self, action: actions.AskEnds) -> None:
        world = self._world

        def read() -> None:
            ends = {tp: world.data[tp].end for tp in action.partitions}
            log_ends = {n: self._log.partitions[n].stable_end for n in action.log_partitions}
            told = events.EndsTold(ends, log_ends)
            self._replies.send(self._net_ms(), lambda: self.receive(lambda: self._ends_told(told)))

        self.send(read)

    def _ends_told(self, event: events.EndsTold) -> None:
        for tp, end in event.ends.items():
            stream = self.core.state.partitions[tp].streams.get(actions.MAIN)
            if stream is not None and stream.next_offset == end:
                self.fetcher.told_of_end(tp, stream.number, end)
        self.handle(event)

    def _fetch_committed(self, action: actions.FetchCommitted) -> None:
        asked, world = list(action.partitions), self._world

        def read() -> None:
            if self._is_lost():
                self._reply(events.CommittedUnknown(asked))
            else:
                found = {tp: world.coordinator.offsets.get(tp) for tp in asked}
                self._reply(events.CommittedRead(found))

        self.send(read)

    def _commit_offsets(self, action: actions.CommitOffsets) -> None:
        """Commit offsets. If the reply is lost, the commit may be stored, now or later.

        Once the weather is calm no late one comes any more: if all leave, nobody could repair it.
        """
        world, member_id = self._world, self._member_id

        def store() -> CoopConsumerError | None:
            if not world.coordinator.commit(member_id, action.generation, action.offsets):
                return MemberLostError("simulated", self.name, "the generation is over")
            world.checker.progress.committed(action.offsets)
            return None

        def store_late() -> None:
            if world.weather.lost:
                store()

        def arrive() -> None:
            if not self._is_lost():
                self._reply(events.OffsetsCommitted(action.token, store()))
                return
            world.happened("lost reply")
            if world.scheduler.chance(0.7):
                delay_ms = world.brokers.reach(world.scheduler.between(0, 1_000))
                world.scheduler.after(delay_ms, store_late)
            self._reply(events.OffsetsCommitted(action.token, ReplyLost))

        self.send(arrive)

    def _resolve_offset(self, action: actions.ResolveOffset) -> None:
        log = self._world.data[action.tp]
        offset = log.low if action.policy == "earliest" else log.end
        if self._is_lost():
            offset = -1
        self.ask_broker(1, 50, lambda: self.handle(events.OffsetResolved(action.tp, offset)))

    def _dead_letter(self, action: actions.DeadLetter) -> None:
        if self._world.brokers.are_away:
            self.ask_broker(0, 0, lambda: self._dead_letter(action))
            return
        refused = self._is_lost()
        if not refused:
            self._world.checker.handlers.dead_lettered(action.record, action.error)
        answer = events.DeadLettered(action.record, ReplyLost if refused else None)
        self.ask_broker(1, 80, lambda: self.handle(answer))


def _whole(assignment: bytes) -> AssignmentData:
    """The ranges that a plain plan gives."""
    return AssignmentData(ranges=dict.fromkeys(partitions_of(assignment), (WHOLE,)))
