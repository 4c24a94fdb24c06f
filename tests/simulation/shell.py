"""The shell of a simulated member: carries events to the real `MemberCore`, and its actions out.

In: what the model broker, coordinator and executor tell, in order; life and death. Out: requests to
them. What `coop_consumer.kafka.runtime` does with threads and clients, this does with virtual time.
A paused member takes nothing in and sends nothing; what has come meanwhile it finds on waking up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from assignors import TopicPartition, decode_assignment
from coop_consumer.core import actions, events
from coop_consumer.core.leader import GroupMemberData, plan
from coop_consumer.core.member import MemberCore
from coop_consumer.errors import (
    CoopConsumerError,
    FencedError,
    MemberLostError,
    ProcessingStoppedError,
)
from coop_consumer.planning import assignor_of
from tests.simulation.coordinator import Answer, Seat
from tests.simulation.executor import SimExecutor
from tests.simulation.progress_log import ProgressProducer, ProgressReader, ReplyLost
from tests.simulation.scheduler import Call, Channel

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from offsets import PartitionProgress
    from tests.simulation.world import World


class Phase(Enum):
    """Where its client is in the group protocol."""

    OUT = auto()
    JOINING = auto()
    STABLE = auto()


class MemberShell:
    """One process of the simulated group.

    Attributes:
        alive: Neither crashed nor gone for good.
        paused: Stopped as by SIGSTOP.
        seat: Its seat in the group as far as it knows; the coordinator may have taken it away.
        known: The progress the log held when the last assignment came, by partition.
    """

    def __init__(
        self, world: World, config: Config, *, name: str, incarnation: int, workers: int
    ) -> None:
        self._world = world
        self._config = config
        self.name = name
        self.static = config.group_instance_id is not None
        self.incarnation = incarnation
        self.title = f"{name}/{incarnation}" if self.static else name
        self.topics = tuple(sorted(world.topics))
        self.alive, self.paused, self.closing = True, False, False
        self.seat: Seat | None = None
        self.known: Mapping[TopicPartition, tuple[int, PartitionProgress]] = {}
        self._phase, self._attempt, self._rejoin_wanted = Phase.OUT, 0, False
        self._inbox: deque[Call] = deque()
        self._wake_at_ms: int | None = None
        self._requests, self._replies = Channel(world.scheduler), Channel(world.scheduler)
        self._streams: dict[int, _Stream] = {}
        self._held = False
        self._producer = ProgressProducer(world, self)
        self._reader = ProgressReader(world, self)
        self.executor = SimExecutor(world, self, workers)
        self.core = MemberCore(
            config,
            name=name,
            incarnation=incarnation,
            log_partitions=world.scenario.log_partitions,
            contract="simulated",
            rng=world.scheduler.rng,
            static=self.static,
        )
        self._perform = self._performers()

    # ---- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Learn the topics, join."""
        self.handle(events.TopicsKnown(self._world.topics))
        self._join()
        self._heartbeat()

    def crash(self) -> None:
        """As by kill -9: nothing more happens here; what was sent is on its way."""
        self.alive = False
        self._world.checker.crashed(self)

    def pause(self) -> None:
        """As by SIGSTOP."""
        self.paused = True

    def resume(self) -> None:
        """As by SIGCONT: what has come meanwhile is found at once, one thing after the other."""
        self.paused = False
        self._take_one()

    def _take_one(self) -> None:
        if self._inbox and self.alive and not self.paused:
            self._inbox.popleft()()
            self._world.scheduler.after(0, self._take_one)

    def receive(self, call: Call) -> None:
        """Something has come for this process."""
        if not self.alive:
            return
        if self.paused or self._inbox:
            self._inbox.append(call)
        else:
            call()

    def close(self) -> None:
        """Ask it to finish, commit and leave."""
        self.closing = True
        self.receive(lambda: self.handle(events.Close()))

    def story(self) -> list[str]:
        """What it holds and waits for, for people."""
        state = self.core.state
        lines = [f"{self.title}: generation {state.generation}, {self._phase.name}"]
        for partition in state.partitions.values():
            lines.append(
                f"  {partition.tp}: epoch {partition.epoch}, assigned {partition.assigned}, "
                f"waiting {partition.waiting}, main {partition.main}, behind {partition.catch_up}"
            )
            lines += [
                f"    {t}: pending {sorted(t.pending)}, blocked {t.blocked}, waits {t.waits}, "
                f"draining {dict(t.draining)}, attempts {t.attempts}"
                for t in partition.all_tenures()
            ]
            lines += [f"    {lane}" for lane in state.lanes.table(partition.tp).values()]
        return lines

    # ---- the core ------------------------------------------------------------------------------

    def handle(self, event: events.Event) -> None:
        """Put an event before the core, and carry out what it wants."""
        world = self._world
        world.note(self.title, "hears", event)
        world.touched.add(self)
        for action in self.core.handle(event, world.scheduler.now_ms):
            world.note(self.title, "does", action)
            self._perform[type(action)](action)
        world.checker.looked_at(self)
        self.executor.offered()
        self._arm()

    def wake(self) -> None:
        """Executors have ended something."""
        self._later(1, 3, lambda: self.handle(events.Tick()))

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

    def _later(self, low_ms: int, high_ms: int, call: Call) -> None:
        scheduler = self._world.scheduler
        scheduler.after(scheduler.between(low_ms, high_ms), lambda: self.receive(call))

    # ---- the group protocol, client side -------------------------------------------------------

    @property
    def _member_id(self) -> str:
        return self.seat.member_id if self.seat else ""

    def _ask(self, request: Call) -> None:
        self._requests.send(self._net_ms(), request)

    def _answer(self, attempt: int, call: Call) -> None:
        def take() -> None:
            if attempt == self._attempt:
                call()

        self._replies.send(self._net_ms(), lambda: self.receive(take))

    def _net_ms(self) -> int:
        return self._world.scheduler.between(1, self._world.weather.net_ms)

    def _join(self) -> None:
        if not self.alive:
            return
        self._attempt += 1
        self._phase = Phase.JOINING
        self.handle(events.Joining())
        attempt, subscription, member_id = self._attempt, self.core.subscription(), self._member_id
        self._ask(lambda: self._world.coordinator.join(self, member_id, subscription, attempt))

    def _heartbeat(self) -> None:
        if not self.alive:
            return
        world = self._world
        if self.seat is not None and not self.paused:
            answer = world.coordinator.heartbeat(self.seat)
            if answer in {Answer.UNKNOWN, Answer.FENCED}:
                self._lost(fenced=answer is Answer.FENCED)
            elif answer is Answer.REBALANCE and self._phase is Phase.STABLE:
                self._join()
        world.scheduler.after(world.scenario.heartbeat_ms, self._heartbeat)

    def _lost(self, *, fenced: bool) -> None:
        self.seat = None
        self._world.checker.evicted(
            tenure.id for p in self.core.state.partitions.values() for tenure in p.all_tenures()
        )
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

    def lead(self, attempt: int, generation: int, members: Sequence[GroupMemberData]) -> None:
        """We lead the group: plan, and sync."""

        def plan_and_sync() -> None:
            world, member_id = self._world, self._member_id
            counts = {topic: count for topic, (_, count) in world.topics.items()}
            made = plan(
                assignor_of(self._config),
                counts,
                members,
                topic_allows_sharing={},
                group_allows_sharing=True,
                now_ms=world.scheduler.now_ms,
            )
            data = {id_: planned.user_data for id_, planned in made.members.items()}
            world.checker.planned(members, data.values())
            self._ask(lambda: world.coordinator.sync(member_id, generation, data))

        self._answer(attempt, plan_and_sync)

    def assigned(self, attempt: int, generation: int, assignment: bytes) -> None:
        """SyncGroup is answered."""

        def take() -> None:
            self._phase = Phase.STABLE
            self.known = self._world.checker.progress_now()
            self.handle(events.Assigned(generation, decode_assignment(assignment)))
            if self._rejoin_wanted:
                self._rejoin_wanted = False
                self._join()

        self._answer(attempt, take)

    # ---- actions -------------------------------------------------------------------------------

    def _performers(self) -> Mapping[type, Callable[[Any], object]]:
        return {
            actions.StartStream: self._start_stream,
            actions.StopStream: lambda a: self._streams.pop(a.stream),
            actions.HoldFetch: self._hold,
            actions.ReadLog: lambda a: self._reader.read(a.log_partition, a.read),
            actions.FollowLog: lambda a: self._reader.follow(a.log_partition, follow=a.follow),
            actions.Append: lambda a: self._producer.append(a.log_partition, a.entries, a.token),
            actions.FetchCommitted: self._fetch_committed,
            actions.CommitOffsets: self._commit_offsets,
            actions.ResolveOffset: self._resolve_offset,
            actions.DeadLetter: self._dead_letter,
            actions.Rejoin: lambda _: self.rejoin(),
            actions.RangesAssigned: lambda a: self._later(
                0, 30, lambda: self.handle(events.RangesReady(a.token))
            ),
            actions.RangesRevoked: lambda _: None,
            actions.RangesLost: lambda _: self._world.happened("ranges lost"),
            actions.Report: lambda _: None,
            actions.Leave: self._leave,
        }

    def rejoin(self) -> None:
        """Join again: now, or once the assignment under way is here."""
        if self._phase is Phase.STABLE:
            self._join()
        else:
            self._rejoin_wanted = True

    def _leave(self, action: actions.Leave) -> None:
        if isinstance(action.error, ProcessingStoppedError):
            self._world.happened("stopped")
        member_id = self._member_id
        self.alive = False
        self._ask(lambda: self._world.coordinator.leave(member_id))

    def _fetch_committed(self, action: actions.FetchCommitted) -> None:
        asked, world = list(action.partitions), self._world

        def read() -> None:
            if world.scheduler.chance(world.weather.append_lost):
                self._replies.send(
                    1, lambda: self.receive(lambda: self.handle(events.CommittedUnknown(asked)))
                )
                return
            found = {tp: world.coordinator.offsets.get(tp) for tp in asked}
            self._replies.send(
                self._net_ms(), lambda: self.receive(lambda: self.handle(events.Committed(found)))
            )

        self._ask(read)

    def _commit_offsets(self, action: actions.CommitOffsets) -> None:
        world, member_id = self._world, self._member_id
        lost = MemberLostError("simulated", self.name, "the generation is over")

        def store() -> None:
            stored = world.coordinator.commit(member_id, action.generation, action.offsets)
            if stored:
                world.checker.committed(action.offsets)
            error: CoopConsumerError | None = None if stored else lost
            if world.scheduler.chance(world.weather.append_lost):
                error = ReplyLost
            answer = events.OffsetsCommitted(action.token, error)
            self._replies.send(self._net_ms(), lambda: self.receive(lambda: self.handle(answer)))

        self._ask(store)

    def _resolve_offset(self, action: actions.ResolveOffset) -> None:
        log = self._world.data[action.tp]
        offset = log.low if action.policy == "earliest" else log.end
        if self._world.scheduler.chance(self._world.weather.append_lost):
            offset = -1
        self._later(1, 50, lambda: self.handle(events.OffsetResolved(action.tp, offset)))

    def _dead_letter(self, action: actions.DeadLetter) -> None:
        world = self._world
        refused = world.scheduler.chance(world.weather.append_lost)
        if not refused:
            world.checker.excuse(action.record, "dead letter")
        answer = events.DeadLettered(action.record, ReplyLost if refused else None)
        self._later(1, 80, lambda: self.handle(answer))

    # ---- the data plane ------------------------------------------------------------------------

    def _start_stream(self, action: actions.StartStream) -> None:
        if action.catch_up:
            self._world.happened("catch-up stream")
        stream = self._streams[action.stream] = _Stream(action.tp, action.stream, action.offset)
        self._fetch_later(stream)

    def _hold(self, action: actions.HoldFetch) -> None:
        self._held = action.hold
        if action.hold:
            self._world.happened("fetch held")
            return
        for stream in self._streams.values():
            self._fetch_later(stream)

    def _fetch_later(self, stream: _Stream) -> None:
        """One fetch at a time, so that batches join."""
        if not stream.fetching:
            stream.fetching = True
            self._later(1, self._world.weather.fetch_ms, lambda: self._fetch(stream))

    def _fetch(self, stream: _Stream) -> None:
        """Read the next batch; it is handed out later, even if the stream is stopped meanwhile."""
        if self._held or stream.number not in self._streams:
            stream.fetching = False
            return
        log, rng = self._world.data[stream.tp], self._world.scheduler.rng
        if log.low <= stream.position <= log.end:
            offsets_max, repeat = rng.choice((1, 4, 16, 64)), rng.choice((0, 0, 0, 2))
            batch = log.fetch(stream.number, stream.position, offsets_max, repeat)
            self._later(1, 10, lambda: self._fetched(stream, batch))
        else:
            gone = events.OutOfRange(stream.tp, stream.number, log.low, log.end)
            self._later(1, 10, lambda: self._fetched(stream, gone))

    def _fetched(self, stream: _Stream, event: events.Fetched | events.OutOfRange) -> None:
        stream.fetching = False
        if isinstance(event, events.Fetched):
            stream.position = event.end
        self.handle(event)
        if stream.number not in self._streams:
            return
        data = self._world.data[stream.tp]
        if stream.position == data.end:
            data.tell_when_more(lambda: self._fetch_later(stream))
        else:
            self._fetch_later(stream)


@dataclass(slots=True)
class _Stream:
    """One uninterrupted fetch of a partition."""

    tp: TopicPartition
    number: int
    position: int
    fetching: bool = False
