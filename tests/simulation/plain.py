"""Plain members of a group that is to be replaced by ours, one by one (`upgrade.from`).

In: assignments of whole partitions. Out: records processed one after the other, commits without a
tag, joins. A plain member of the eager protocol releases everything before it joins. One of the
cooperative protocol keeps its partitions, releases those that it must, and joins once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from assignors import COOPERATIVE_STICKY, PlainMember, TopicPartition, assign_plain
from offsets import Committed
from tests.simulation.coordinator import Answer
from tests.simulation.data_log import SimMessage
from tests.simulation.scheduler import Call, Channel

if TYPE_CHECKING:
    from tests.simulation.coordinator import Seat
    from tests.simulation.world import World

COMMITS = 0.3
"""How often, after a record, a plain member commits."""
POLL_MS = 20


def text_of(partitions: Sequence[TopicPartition]) -> bytes:
    """An assignment, or owned partitions, as text for other members."""
    return ",".join(f"{tp.topic}:{tp.partition}" for tp in sorted(partitions)).encode()


def partitions_of(text: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of such a text."""
    pairs = [item.split(":") for item in text.decode().split(",") if item]
    return tuple(TopicPartition(topic, int(number)) for topic, number in pairs)


def plan_of(
    strategy: str, topics: Mapping[str, tuple[bytes, int]], seats: Sequence[Seat]
) -> dict[str, bytes]:
    """The plan of a leader, whoever it is."""
    members = [PlainMember(s.member_id, tuple(topics), owned=partitions_of(s.owned)) for s in seats]
    counts = {topic: count for topic, (_, count) in topics.items()}
    dealt = assign_plain(strategy, counts, members)
    return {
        id_: text_of([TopicPartition(topic, n) for topic, numbers in own.items() for n in numbers])
        for id_, own in dealt.items()
    }


class PlainShell:
    """One plain member: a loop that polls, works and commits.

    Attributes:
        owned: What it may process.
        at: The record whose handler runs.
    """

    static = False
    is_plain = True

    def __init__(self, world: World, *, name: str) -> None:
        self._world = world
        self.name = name
        self.alive, self.closing = True, False
        self.seat: Seat | None = None
        self.topics = dict(world.topics)
        self.owned: dict[TopicPartition, int | None] = {}
        self.at: tuple[TopicPartition, SimMessage] | None = None
        self._is_eager = world.scenario.upgrade_from != COOPERATIVE_STICKY
        self._attempt = self._generation = self._patient_until_ms = 0
        self._joining = False
        self._requests, self._replies = Channel(world.scheduler), Channel(world.scheduler)

    def start(self) -> None:
        """Join, and work."""
        self._join()
        self._heartbeat()
        self._poll()

    def crash(self) -> None:
        """As by kill -9."""
        self.alive = False
        self.at = None

    def close(self) -> None:
        """Ask the member to commit and leave, after its present record."""
        self.closing = True

    def is_at(self, tp: TopicPartition) -> bool:
        """Whether its handler runs for this partition, as a member of the group."""
        is_member = self.seat is not None and not self.seat.lost
        return is_member and self.at is not None and self.at[0] == tp

    # ---- the group -----------------------------------------------------------------------------

    def _net_ms(self) -> int:
        return self._world.scheduler.between(1, self._world.weather.net_ms)

    def _join(self) -> None:
        """Join, between two records."""
        world = self._world
        if self._is_eager:
            self._commit()
            self.owned = {}
        self._attempt += 1
        self._joining = True
        self._patient_until_ms = world.scheduler.now_ms + 2 * world.scenario.rebalance_ms
        attempt, seat, owned = self._attempt, self.seat, text_of(tuple(self.owned))
        member_id = seat.member_id if seat else ""
        world.note(self.name, "joins, and owns", owned)
        self._requests.send(
            self._net_ms(),
            lambda: world.coordinator.join(self, member_id, b"", attempt, owned),
        )

    def _heartbeat(self) -> None:
        if not self.alive:
            return
        world = self._world
        is_late = self._joining and world.scheduler.now_ms > self._patient_until_ms
        if self.seat is not None:
            answer = world.coordinator.heartbeat(self.seat)
            if answer in {Answer.UNKNOWN, Answer.FENCED}:
                self.seat, self.owned = None, {}
                is_late = True
            elif answer is Answer.REBALANCE and not self._joining:
                is_late = True
        if is_late and self.at is None:
            self._join()
        world.scheduler.after(world.scenario.heartbeat_ms, self._heartbeat)

    def _answer(self, attempt: int, call: Call) -> None:
        def take() -> None:
            if self.alive and attempt == self._attempt:
                call()

        self._replies.send(self._net_ms(), take)

    def seated(self, seat: Seat, attempt: int) -> None:
        """The coordinator has given us a seat."""
        if attempt == self._attempt:
            self.seat = seat

    def rejoin_now(self, attempt: int) -> None:
        """The generation we waited for is over before it began."""
        self._answer(attempt, self._join)

    def lead_plain(self, attempt: int, generation: int, seats: Sequence[Seat]) -> None:
        """We lead the group, and assign for all."""

        def plan_and_sync() -> None:
            world, seat = self._world, self.seat
            assert seat is not None
            plan = plan_of(world.scenario.upgrade_from, world.topics, seats)
            self._requests.send(
                self._net_ms(),
                lambda: world.coordinator.sync(seat.member_id, generation, plan),
            )

        self._answer(attempt, plan_and_sync)

    def assigned(self, attempt: int, generation: int, assignment: bytes, *, plain: bool) -> None:
        """SyncGroup is answered."""
        assert plain, f"{self.name} knows no other protocol"

        def take() -> None:
            given = partitions_of(assignment)
            self._joining, self._generation = False, generation
            lost = [tp for tp in self.owned if tp not in given]
            self._world.note(self.name, "is assigned", given)
            if lost:
                self._commit()
            positions = {tp: self.owned.get(tp) for tp in given}
            self.owned = positions
            for tp in given:
                if positions[tp] is None:
                    self._look_up(tp)
            if lost:  # what it has given up is nobody's before it joins without that
                self._join()

        self._answer(attempt, take)

    # ---- records -------------------------------------------------------------------------------

    def _look_up(self, tp: TopicPartition) -> None:
        """Find where to begin: at the committed offset, else at the beginning."""
        world, generation = self._world, self._generation

        def read() -> None:
            offset, _ = world.coordinator.offsets.get(tp, Committed(world.data[tp].low))
            self._replies.send(self._net_ms(), lambda: begin(offset))

        def begin(offset: int) -> None:
            if self.alive and generation == self._generation and tp in self.owned:
                self.owned[tp] = offset

        self._requests.send(self._net_ms(), read)

    def _poll(self) -> None:
        """Take one record of an owned partition, and process it."""
        if not self.alive:
            return
        world, scheduler = self._world, self._world.scheduler
        ready = [
            (tp, found)
            for tp, position in sorted(self.owned.items())
            if position is not None
            and (found := _first(world.data[tp].messages, position)) is not None
        ]
        if self.closing:
            self._leave()
        elif not ready or (self._joining and self._is_eager):
            scheduler.after(POLL_MS, self._poll)
        else:
            self.at = tp, message = scheduler.rng.choice(ready)
            world.checker.handlers.plain_begins(self, tp, message)
            scheduler.after(scheduler.between(1, 100), lambda: self._processed(tp, message))

    def _processed(self, tp: TopicPartition, message: SimMessage) -> None:
        if not self.alive:
            return
        self.at = None
        self._world.checker.truth.plain_processed(tp, message.offset())
        if tp in self.owned:
            self.owned[tp] = message.offset() + 1
        if self._world.scheduler.chance(COMMITS):
            self._commit()
        self._poll()

    def _commit(self) -> None:
        """Commit its position, under the generation that it knows."""
        world, seat, generation = self._world, self.seat, self._generation
        offsets = {tp: Committed(at) for tp, at in self.owned.items() if at is not None}
        news = {
            tp: it
            for tp, it in offsets.items()
            if it.offset != world.coordinator.offsets.get(tp, Committed(-1)).offset
        }

        def arrive() -> None:
            if seat is not None and world.coordinator.commit(seat.member_id, generation, news):
                world.happened("plain commit")
                for tp, committed in news.items():
                    world.note(self.name, f"commits {committed.offset} of {tp}")
                    world.checker.truth.plain_committed(tp)

        if news:
            self._requests.send(self._net_ms(), arrive)

    def _leave(self) -> None:
        self._commit()
        self.alive = False
        member_id = self.seat.member_id if self.seat else ""
        self._requests.send(self._net_ms(), lambda: self._world.coordinator.leave(member_id))


def _first(messages: Sequence[SimMessage], position: int) -> SimMessage | None:
    return next((message for message in messages if message.offset() >= position), None)
