"""Standalone members: there is no group, and their user assigns ranges to them.

In: who is alive, chance. Out: assignments. The user keeps the one rule: a range is assigned to one
process at a time. The user takes a range from one process, waits until the process has released it
or is dead, and then assigns it to another. Processes commit offsets without being members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import WHOLE, KeyRange, TopicPartition, intersect, subtract, union
from coop_consumer.core import events
from tests.simulation.coordinator import Seat
from tests.simulation.progress_log import ReplyLost
from tests.simulation.shell import MemberShell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coop_consumer.config import Config
    from coop_consumer.core import actions
    from offsets import Committed
    from tests.simulation.situations import Ranges
    from tests.simulation.world import World

LOOK_MS = 100
CHANGES_HIS_MIND = 0.02
"""How often, when he looks, the user assigns everything anew."""


class StandaloneShell(MemberShell):
    """A process that joins no group."""

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
        super().__init__(
            world, config, name=name, incarnation=incarnation, workers=workers, before=before
        )
        self.seat = Seat(self.title, self, static=False)  # which nobody takes away

    def start(self) -> None:
        """Learn the topics; then the user assigns ranges."""
        self.handle(events.TopicsKnown(self.topics))
        self._world.user.gives[self] = {}
        self.assign({})
        if self._world.brokers.away_ms:
            self._ask_brokers()

    def _ask_brokers(self) -> None:
        """Ask a broker for a sign of life, again and again."""
        if self.alive:
            if not self.paused:
                self._look_at_brokers()
            self._world.scheduler.after(self._world.scenario.heartbeat_ms, self._ask_brokers)

    def rejoin(self) -> None:
        """Do nothing: there is no group to join."""

    def assign(self, ranges: Ranges) -> None:
        """Assign these ranges, instead of the ones before."""

        def take() -> None:
            self.known = self._world.checker.progress.progress_now()
            self.parked = self._world.checker.progress.parked_now()
            self.ranges = ranges
            self.handle(events.AssignAlone(ranges))

        self.receive(take)

    def claims(self, tp: TopicPartition) -> tuple[KeyRange, ...]:
        """The ranges that nobody else may begin yet."""
        partition = self.core.state.partitions.get(tp)
        if partition is None or not self.alive:
            return ()
        return union(
            key_range
            for tenure in partition.all_tenures()
            for claim in tenure.claims()
            for key_range in claim.ranges
        )

    def _confirm(self, action: actions.ConfirmMembership) -> None:
        log = self._log

        def look() -> None:
            ends = {number: log.partitions[number].end_offset for number in action.log_partitions}
            self._reply(events.MembershipConfirmed(action.token, True, ends))

        self.send(look)

    def _commit_offsets(self, action: actions.CommitOffsets) -> None:
        """Commit offsets above the committed ones; another process may commit meanwhile."""
        world = self._world

        def look_up() -> None:
            found = {tp: world.coordinator.offsets.get(tp) for tp in action.offsets}
            news = {tp: it for tp, it in action.offsets.items() if _is_news(found[tp], it)}
            world.scheduler.after(self._net_ms(), lambda: alter(news))

        def alter(news: Mapping[TopicPartition, Committed]) -> None:
            if not self.alive:
                return
            world.coordinator.offsets.update(news)
            world.checker.progress.committed(news)
            if self._is_lost():
                world.happened("lost reply")
                self._reply(events.OffsetsCommitted(action.token, ReplyLost))
            else:
                self._reply(events.OffsetsCommitted(action.token, None))

        self.send(look_up)


def _has(shell: StandaloneShell, given: Ranges, tp: TopicPartition) -> tuple[KeyRange, ...]:
    """What a process is given, what it has until it hears of that, and what it has not released."""
    return (*given.get(tp, ()), *shell.ranges.get(tp, ()), *shell.claims(tp))


def _is_news(known: Committed | None, value: Committed) -> bool:
    return known is None or known.metadata != value.metadata or known.offset < value.offset


class User:
    """Assigns ranges to standalone members.

    Attributes:
        gives: The present assignment of each process.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.gives: dict[StandaloneShell, Ranges] = {}
        self._wants: dict[StandaloneShell, Ranges] = {}
        self._planned_for: object = None
        if world.scenario.standalone:
            world.scheduler.after(LOOK_MS, self._look)

    def _look(self) -> None:
        world = self._world
        there = [shell for shell in self.gives if shell.alive and not shell.closing]
        key = (frozenset(there), dict(world.topics))
        changes_mind = world.faults.is_on and world.scheduler.chance(CHANGES_HIS_MIND)
        if there and (key != self._planned_for or changes_mind):
            self._planned_for = key
            self._wants = self._plan(there)
        for shell in there:
            if self.gives[shell] != self._wants.get(shell, {}):
                self._assign_what_is_free(shell)
        world.scheduler.after(LOOK_MS, self._look)

    def _plan(self, there: list[StandaloneShell]) -> dict[StandaloneShell, Ranges]:
        """Cut each partition into ranges, and assign them."""
        world, rng = self._world, self._world.scheduler.rng
        dealt: dict[StandaloneShell, dict[TopicPartition, list[KeyRange]]] = {s: {} for s in there}
        sharing = [s for s in there if s.config.allow_individual_commit]
        for tp in sorted(world.data):
            is_whole = world.scenario.ordering == "partition" or not sharing
            count = 1 if is_whole else rng.randint(1, len(there))
            for part in WHOLE.parts(count):
                shell = rng.choice(there if count == 1 else sharing)
                dealt[shell].setdefault(tp, []).append(part)
        return {
            shell: {tp: union(parts) for tp, parts in own.items()} for shell, own in dealt.items()
        }

    def _assign_what_is_free(self, shell: StandaloneShell) -> None:
        given, wanted = self.gives[shell], self._wants.get(shell, {})
        now: dict[TopicPartition, tuple[KeyRange, ...]] = {}
        for tp, ranges in wanted.items():
            others = union(
                key_range
                for other in self.gives
                if other is not shell and other.alive
                for key_range in _has(other, self.gives[other], tp)
            )
            kept = [r for own in given.get(tp, ()) for r in intersect(ranges, (own,))]
            free = union([*kept, *subtract(ranges, others)])
            if free and (free == (WHOLE,) or shell.config.allow_individual_commit):
                now[tp] = free
        if now != given:
            moved = any(subtract(own, given.get(tp, ())) for tp, own in now.items())
            if moved and any(other.claims(tp) for other in self.gives for tp in now):
                self._world.happened("standalone move")
            self.gives[shell] = now
            self._world.note("user", f"assigns {now} to {shell.title}")
            shell.assign(now)
