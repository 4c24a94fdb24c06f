"""Faults: what goes wrong while a seed's trouble lasts, and how it ends.

In: the scenario's kinds of faults. Out: crashes, pauses, joins, leaves, compactions, retention,
and foreign decisions about an empty group, at times that the scheduler's chance picks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from offsets import DecisionKey, DecisionRecord, encode_key, encode_value

if TYPE_CHECKING:
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World

MEMBERS_MAX = 6


class Faults:
    """Makes trouble until `stop`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._scheduler = world.scheduler
        self._stopped = False
        self._emptying = False
        kinds: dict[str, Callable[[], None]] = {
            "crash": self._crash,
            "pause": self._pause,
            "churn": self._churn,
            "compaction": self._compact,
            "rewind": self._empty_the_group,
            "retention": self._retain,
            "rejoin": self._rejoin,
        }
        self._kinds = [kinds[name] for name in sorted(world.scenario.faults) if name in kinds]
        self._gap_ms = world.scheduler.rng.choice((100, 500, 2_000))
        self._next()

    def stop(self) -> None:
        """From here on nothing fails: the paused wake up, and somebody is there to work."""
        self._stopped = True
        self._world.weather.append_lost = 0.0
        for shell in self._world.shells:
            if shell.paused:
                shell.resume()
        if not self._emptying and not self._working():
            self._world.start_member()

    def _next(self) -> None:
        if not self._stopped:
            self._scheduler.after(self._scheduler.between(10, self._gap_ms), self._happen)

    def _happen(self) -> None:
        if not self._stopped and self._kinds and not self._emptying:
            self._scheduler.rng.choice(self._kinds)()
        self._next()

    def _working(self) -> list[MemberShell]:
        return [s for s in self._world.shells if s.alive and not s.closing]

    def _pick(self) -> MemberShell | None:
        working = [shell for shell in self._working() if not shell.paused]
        return self._scheduler.rng.choice(working) if working else None

    # ---- members -------------------------------------------------------------------------------

    def _crash(self) -> None:
        shell = self._pick()
        if shell is None:
            return
        world = self._world
        world.happened("crash")
        world.note(shell.title, "crashes")
        shell.crash()
        if self._scheduler.chance(0.7):
            name = shell.name if shell.static else None
            delay_ms = self._scheduler.between(1, 2 * world.scenario.session_ms)
            self._scheduler.after(delay_ms, lambda: self._start(name))

    def _start(self, name: str | None) -> None:
        if not self._emptying:
            self._world.start_member(name)

    def _pause(self) -> None:
        shell = self._pick()
        if shell is None:
            return
        world, session_ms = self._world, self._world.scenario.session_ms
        world.happened("pause")
        world.note(shell.title, "is paused")
        shell.pause()
        pause_ms = self._scheduler.between(20, 4 * session_ms)
        self._scheduler.after(pause_ms, lambda: self._resume(shell))
        if shell.static and self._scheduler.chance(0.3):  # taken for dead: its twin is started
            name, delay_ms = shell.name, self._scheduler.between(1, session_ms)
            world.happened("twin")
            self._scheduler.after(delay_ms, lambda: self._start(name))

    def _resume(self, shell: MemberShell) -> None:
        if shell.paused and shell.alive:
            if shell.seat is not None and shell.seat.lost:
                self._world.happened("zombie")
            self._world.note(shell.title, "goes on")
            shell.resume()

    def _churn(self) -> None:
        world, working = self._world, self._working()
        if len(working) < MEMBERS_MAX and (self._scheduler.chance(0.5) or not working):
            world.happened("join")
            world.start_member()
        else:
            shell = self._pick()
            if shell is not None:
                world.happened("leave")
                shell.close()

    def _rejoin(self) -> None:
        """Somebody joins again without need, as after a metadata change."""
        shell = self._pick()
        if shell is not None:
            shell.rejoin()

    # ---- the broker ----------------------------------------------------------------------------

    def _compact(self) -> None:
        world, rng = self._world, self._scheduler.rng
        partition = rng.randrange(len(world.log.partitions))
        log = world.log.partitions[partition]
        below = rng.randint(0, log.end_offset)
        log.compact(below, drop_tombstones=self._scheduler.chance(0.3))
        world.happened("compaction")
        world.note("broker", f"compacts log {partition} below {below}")
        world.checker.compacted(partition)

    def _retain(self) -> None:
        world = self._world
        data = self._scheduler.rng.choice([world.data[tp] for tp in sorted(world.data)])
        low = self._scheduler.rng.randint(data.low, data.end)
        data.retain_from(low)
        world.happened("retention")
        world.note("broker", f"removes {data.tp} below {low}")
        world.checker.retained_from(data.tp, low)

    # ---- foreign decisions ---------------------------------------------------------------------

    def _empty_the_group(self) -> None:
        """Somebody stops all members to move the committed offsets."""
        self._emptying = True
        for shell in self._working():
            if self._scheduler.chance(0.3):
                shell.crash()
            else:
                shell.close()
        self._await_empty(self._decide)

    def _await_empty(self, then: Callable[[], None]) -> None:
        world = self._world
        if world.coordinator.seats or any(s.alive and not s.paused for s in world.shells):
            self._scheduler.after(100, lambda: self._await_empty(then))
        else:
            then()

    def _decide(self) -> None:
        world = self._world
        for tp in sorted(world.data):
            if self._scheduler.chance(0.7):
                world.foreign_commit(tp)
        world.happened("rewind")
        self._emptying = False
        for _ in range(self._scheduler.rng.randint(1, 3)):
            world.start_member()


def decide_parked(world: World) -> None:
    """A person looks at the parked records and decides."""
    for tp in sorted(world.data):
        topic_id, partition = world.topics[tp.topic][0], world.log_partition(tp)
        store = world.checker.store(partition).partition(topic_id, tp.partition)
        for offset, attempt in sorted(store.attempts().items()):
            if attempt.parked and offset not in store.decisions:
                skip = world.scheduler.chance(0.5)
                world.happened("decision")
                if skip:
                    world.checker.excuse_offset(tp, offset)
                else:
                    world.heal(tp, offset)
                key = DecisionKey(world.group, topic_id, tp.partition, offset)
                value = DecisionRecord("skip" if skip else "retry", world.scheduler.now_ms)
                entry = encode_key(key), encode_value(value)
                world.log.append(partition, [entry], world.scheduler.now_ms)
