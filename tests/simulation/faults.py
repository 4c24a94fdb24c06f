"""Faults: what goes wrong while a seed's trouble lasts, and how it ends.

In: the scenario's kinds of faults. Out: crashes, pauses, joins, leaves, requests of users, damage
to a broker's logs, and changes to a group while it is empty. The scheduler's chance picks the
times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from coop_consumer.core.actions import CATCH_UP, MAIN
from coop_consumer.core.events import CommitNow, Pause, Resume, Seek
from coop_consumer.core.policies import Policies
from offsets import DecisionKey, DecisionRecord, encode_key, encode_value
from tests.simulation.situations import is_base, waits_for_release

if TYPE_CHECKING:
    from assignors import TopicPartition
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World

MEMBERS_MAX, PLAIN_MAX = 7, 3
NEED_A_GROUP = ("policy", "rejoin")
BESIDE_PLAIN = ("capacity", "compaction", "crash", "pause", "rejoin")
"""What happens in a group with plain members. Whatever else moves offsets is seen without them."""
OF_MEMBERS = ("capacity", "churn", "crash", "dead client", "pause", "rejoin", "user")
"""What happens to members while brokers are away."""
WARM_UP_MS, AFTER_PLANS = 1_500, 0.25
"""Where faults are patient, from when on they happen, and how much less often after plans."""
ARRIVED_MS = 1_300
"""After so long, whatever a dead member has sent is in the log, or never will be."""


class Faults:
    """Makes trouble until `stop`.

    Attributes:
        emptying: Somebody waits until the group is empty, and then starts members anew.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._scheduler = world.scheduler
        self._stopped = False
        self.emptying = False
        kinds: dict[str, Callable[..., None]] = {
            "capacity": self._change_capacity,
            "churn": self._churn,
            "compaction": self._compact,
            "crash": self._crash,
            "dead client": self._lose_client,
            "log deletion": self._delete_from_log,
            "log lost": self._lose_log,
            "log damage": lambda: self._while_empty(self._damage_log, wake=False),
            "more partitions": lambda: self._perhaps_while_empty(self._add_partition),
            "new topic": lambda: self._perhaps_while_empty(self._make_topic_anew),
            "pause": self._pause,
            "policy": self._change_policy,
            "rejoin": self._rejoin,
            "reset": lambda: self._while_empty(self._reset, wake=False, quiet_ms=ARRIVED_MS),
            "retention": self._retain,
            "seek ahead": self._seek_ahead,
            "rewind": lambda: self._while_empty(self._rewind),
            "truncation": self._truncate,
            "user": self._ask,
        }
        self._paused: list[tuple[MemberShell, TopicPartition]] = []
        self._skipping: list[tuple[MemberShell, TopicPartition]] = []
        if world.scenario.standalone:
            for name in NEED_A_GROUP:
                del kinds[name]
        if world.scenario.upgrade_from != "none":
            kinds = {name: kinds[name] for name in BESIDE_PLAIN} | {"plain": self._plain}
        drawn = [*world.scenario.faults, "plain", "plain"]
        self._kinds = [kinds[name] for name in sorted(drawn) if name in kinds]
        self._of_members = [kinds[name] for name in OF_MEMBERS if name in drawn and name in kinds]
        is_upgrade = world.scenario.upgrade_from != "none"
        gaps = (2_000,) if is_upgrade else (800, 2_000, 5_000)
        self._gap_ms = world.scheduler.rng.choice(gaps)
        self._after_plans = AFTER_PLANS if world.is_patient else 1.0
        if world.brokers.away_ms:
            world.scheduler.after(world.brokers.from_ms, self._close_some)
        if world.exactly_once:
            world.scheduler.after(WARM_UP_MS if world.is_patient else 0, self._next)
        else:
            self._next()

    @property
    def is_on(self) -> bool:
        """Whether there is trouble yet."""
        return not self._stopped

    def stop(self) -> None:
        """Let nothing fail from here on: paused members wake up, and at least one member exists."""
        self._stopped = True
        self._world.weather.lost = self._world.weather.flush_fails = 0.0
        for shell, tp in self._paused:
            shell.newest_run.ask(lambda token, tp=tp: Resume(token, [tp]))  # type: ignore[misc]
        for shell, tp in self._skipping:
            if self._scheduler.chance(0.5):
                shell.close()
            else:
                shell.ask(lambda token, tp=tp: Seek(token, tp, self._stable(tp)))  # type: ignore[misc]
        for shell in self._world.shells:
            if shell.paused:
                shell.resume()
        for plain in self._world.plain:
            plain.close()
        if not self.emptying and not self._working():
            self._world.start_member()

    def _next(self) -> None:
        if not self._stopped:
            self._scheduler.after(self._scheduler.between(10, self._gap_ms), self._happen_and_go_on)

    def _happen(self) -> None:
        kinds = self._of_members if self._world.brokers.are_away else self._kinds
        if not self._stopped and kinds and not self.emptying:
            self._scheduler.rng.choice(kinds)()

    def _happen_and_go_on(self) -> None:
        self._happen()
        self._next()

    def while_ranges_move(self) -> None:
        """Perhaps make trouble after a plan, in the middle of a handover."""
        if self._scheduler.chance(self._after_plans * 0.5):
            self._scheduler.after(self._scheduler.between(1, 600), self._happen)
        for kind in (self._compact, self._churn):
            if kind in self._kinds and self._scheduler.chance(self._after_plans * 0.75):
                self._scheduler.after(self._scheduler.between(1, 600), partial(self._if_on, kind))

    def while_letting_go(self, shell: MemberShell) -> None:
        """Perhaps crash, pause or plan again while ranges are given up and not released."""
        every = [self._crash, self._pause, self._rejoin, *[self._join_beside] * 3]
        every += [self._crash] * (24 if shell.is_draining else 0)
        kinds = [kind for kind in every if kind in self._kinds or kind == self._join_beside]
        if kinds and self._scheduler.chance(0.9):
            kind, delay_ms = self._scheduler.rng.choice(kinds), self._scheduler.between(1, 50)
            self._scheduler.after(delay_ms, lambda: self._meet(kind, shell))
        for other in (self._compact, self._close_who_waits):
            is_known = other in self._kinds or other == self._close_who_waits
            if is_known and self._scheduler.chance(0.8):
                self._scheduler.after(self._scheduler.between(1, 200), partial(self._if_on, other))

    def _close_who_waits(self) -> None:
        """Close a member that has not begun its assignment: a third member gets the ranges."""
        waiting = [
            shell
            for shell in self._working()
            if any(it.waits for p in shell.core.state.partitions.values() for it in p.waiting)
        ]
        if waiting and self._churn in self._kinds:
            self._scheduler.rng.choice(waiting).close()

    def while_open(self, shell: MemberShell, chance: float = 0.04) -> None:
        """Perhaps crash a member in the midst of a transaction, or pause it beyond its session."""
        kinds = [kind for kind in (self._crash, self._pause) if kind in self._kinds]
        if kinds and self._scheduler.chance(chance):
            kind, delay_ms = self._scheduler.rng.choice(kinds), self._scheduler.between(0, 20)
            meets = partial(self._pause, has_twin=True) if kind == self._pause else kind
            self._scheduler.after(delay_ms, lambda: self._meet(meets, shell))

    def _close_some(self) -> None:
        """Brokers go away: let some members end before they are back."""
        self._world.note("brokers", "go away")
        for shell in self._working():
            delay_ms = self._world.brokers.closing_ms()
            if delay_ms is not None:
                self._scheduler.after(delay_ms, lambda it=shell: self._meet(type(it).close, it))  # type: ignore[misc]

    def late_ms(self) -> int:
        """How late an assignment comes, while other members already act on theirs."""
        late = not self._stopped and self._world.weather.lost and self._scheduler.chance(0.1)
        return self._scheduler.between(50, 1_000) if late else 0

    def stall_ms(self) -> int:
        """How long a read of the log waits for a broker, while heartbeats go on."""
        stalls = not self._stopped and self._world.weather.lost and self._scheduler.chance(0.02)
        return self._scheduler.between(500, 4_000) if stalls else 0

    def while_confirmed(self, shell: MemberShell) -> None:
        """Perhaps pause a member that is about to be confirmed, so that it counts as dead."""
        if self._pause in self._kinds and self._scheduler.chance(0.5):
            delay_ms = self._scheduler.between(0, self._world.weather.net_ms)
            sleep = partial(self._pause, has_twin=True)
            self._scheduler.after(delay_ms, lambda: self._meet(sleep, shell))

    def _if_on(self, kind: Callable[[], None]) -> None:
        if not self._stopped and not self.emptying:
            kind()

    def _meet(self, kind: Callable[[MemberShell], None], shell: MemberShell) -> None:
        if not self._stopped and not self.emptying and shell in self._working():
            kind(shell)

    def _working(self) -> list[MemberShell]:
        return [s for s in self._world.shells if s.alive and not s.closing]

    def _pick(self) -> MemberShell | None:
        working = [shell for shell in self._working() if not shell.paused]
        return self._scheduler.rng.choice(working) if working else None

    # ---- members -------------------------------------------------------------------------------

    def _crash(self, victim: MemberShell | None = None) -> None:
        shell = victim or self._pick()
        if shell is None:
            return
        world = self._world
        world.happened("crash")
        world.note(shell.title, "crashes")
        shell.crash()
        if shell.static or self._scheduler.chance(0.8):
            name = shell.name if shell.static else None
            delay_ms = self._scheduler.between(1, 2 * world.scenario.session_ms)
            self._scheduler.after(delay_ms, lambda: self._start(name))

    def _start(self, name: str | None) -> None:
        if not self.emptying:
            self._world.start_member(name)

    def _pause(self, victim: MemberShell | None = None, *, has_twin: bool = False) -> None:
        shell = victim or self._pick()
        if shell is None or shell.paused:
            return
        world, session_ms = self._world, self._world.scenario.session_ms
        world.happened("pause")
        world.note(shell.title, "is paused")
        shell.pause()
        pause_ms = self._scheduler.between(session_ms if has_twin else 20, 4 * session_ms)
        self._scheduler.after(pause_ms, lambda: self._resume(shell))
        if has_twin:  # and while both are there, its successor's ranges move
            self._scheduler.after(pause_ms + self._scheduler.between(0, 50), self._join)
        if world.scenario.standalone:
            return  # its ranges are its own, however long it sleeps
        if shell.static and (has_twin or self._scheduler.chance(0.3)):  # taken for dead
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
        """Let a member come or go; some come with another one."""
        if self._scheduler.chance(0.3):
            again_ms = self._scheduler.between(1, 400)
            self._scheduler.after(again_ms, partial(self._if_on, self._churn))
        working = self._working()
        if len(working) < MEMBERS_MAX and (self._scheduler.chance(0.5) or not working):
            self._join()
        else:
            shell = self._pick()
            if shell is not None:
                self._world.happened("leave")
                shell.close()

    def _join(self) -> None:
        """Let a member come, if there is room."""
        if not self._stopped and not self.emptying and len(self._working()) < MEMBERS_MAX:
            self._world.happened("join")
            self._world.start_member()

    def _join_beside(self, shell: MemberShell) -> None:
        """Let a member come, and this one hear of it at once, in the middle of something."""
        self._join()
        shell.rejoin()

    def _plain(self) -> None:
        """Let a plain member go, which brings the upgrade nearer its end, or let one come back."""
        there = [plain for plain in self._world.plain if plain.alive and not plain.closing]
        if len(there) < PLAIN_MAX and self._scheduler.chance(0.5):
            self._world.start_plain()
        elif there:
            plain = self._scheduler.rng.choice(there)
            (plain.crash if self._scheduler.chance(0.3) else plain.close)()

    def _rejoin(self, victim: MemberShell | None = None) -> None:
        """Let a member join again without need, as after a metadata change."""
        shell = victim or self._pick()
        if shell is not None:
            shell.rejoin()

    def _lose_client(self) -> None:
        """Let a Consumer return nothing any more, without an error."""
        shell = self._pick()
        if shell is not None:
            self._world.happened("dead client")
            chance = self._scheduler.chance
            shell.lose_client(None if chance(0.5) else CATCH_UP if chance(0.2) else MAIN)

    # ---- the broker ----------------------------------------------------------------------------

    def _compact(self) -> None:
        world, rng = self._world, self._scheduler.rng
        partitions = range(len(world.log.partitions))
        awaited = [
            number
            for number in partitions
            if any(shell.alive and waits_for_release(shell, number) for shell in world.shells)
        ]
        partition = rng.choice(awaited or partitions)
        log = world.log.partitions[partition]
        below = rng.randint(log.end_offset // 2, log.end_offset)
        before = len(world.log.records(partition))
        log.compact(below, drop_tombstones=self._scheduler.chance(0.3))
        world.happened("compaction")
        if awaited and len(world.log.records(partition)) < before:
            world.happened("compaction in a handover")
        world.note("broker", f"compacts log {partition} below {below}")
        world.checker.progress.compacted(partition)

    def _retain(self) -> None:
        world = self._world
        data = self._scheduler.rng.choice([world.data[tp] for tp in sorted(world.data)])
        low = self._scheduler.rng.randint(data.low, data.end)
        world.happened("retention")
        world.note("broker", f"removes {data.tp} below {low}")
        world.checker.truth.retained_from(data.tp, low)
        data.retain_from(low)

    def _truncate(self) -> None:
        """Let a broker that had not copied everything lead a partition from now on."""
        world = self._world
        data = self._scheduler.rng.choice([world.data[tp] for tp in sorted(world.data)])
        if data.end == data.low:
            return
        end = max(data.low, data.end - self._scheduler.rng.randint(1, 10))
        world.happened("truncation")
        world.note("broker", f"cuts {data.tp} off at {end}")
        world.checker.truth.cut(data.tp, end)
        data.cut(end)

    def _add_partition(self) -> None:
        world = self._world
        if not world.add_partition():
            return
        world.happened("more partitions")
        world.note("someone", f"adds a partition: {world.topics}")
        self._tell_members()

    def _tell_members(self) -> None:
        """Tell the members of new metadata, each at another time."""
        for shell in self._world.shells:
            shell.ask_broker(1, 2_000, shell.refresh)

    # ---- users ---------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Let a user commit, or pause, resume or rewind a partition of a member."""
        shell, rng = self._pick(), self._scheduler.rng
        if shell is None:
            return
        tp = rng.choice(sorted(self._world.data))
        match rng.choice(("commit", "commit", "pause", "resume", "seek")):
            case "commit":
                shell.ask(CommitNow)
                # Once more while the first is under way: then there is nothing new to commit.
                self._scheduler.after(self._scheduler.between(0, 30), lambda: shell.ask(CommitNow))
            case "pause":
                self._paused.append((shell, tp))
                shell.ask(lambda token: Pause(token, [tp]))
            case "resume":
                shell.ask(lambda token: Resume(token, [tp]))
            case _:
                self._seek(shell, tp)
        self._world.happened("user")

    def _seek(self, shell: MemberShell, tp: TopicPartition) -> None:
        """Seek back only: nobody processes what a user skips, until its range moves."""
        partition = shell.core.state.partitions.get(tp)
        stable = min((t.tracker.stable for t in partition.tenures), default=0) if partition else 0
        low = self._world.data[tp].low
        if low < stable:
            self._world.checker.truth.sought()
            offset = self._scheduler.rng.randint(low, stable)
            shell.ask(lambda token: Seek(token, tp, offset))

    def _seek_ahead(self) -> None:
        """Let a user skip records: nobody processes them until the user seeks back, or they move.

        If no member has begun anywhere, the user waits for one.
        """
        world, rng = self._world, self._scheduler.rng
        places = [(s, tp) for s in self._working() for tp in sorted(s.core.state.assignment())]
        if not places:
            self._scheduler.after(300, partial(self._if_on, self._seek_ahead))
        else:
            shell, tp = rng.choice(places)
            first = world.data[tp].end
            for _ in range(rng.randint(1, 4)):
                world.produce(world.data[tp])
            offset = rng.randint(first + 1, world.data[tp].end)
            world.happened("seek ahead")
            world.checker.truth.sought()
            self._skipping.append((shell, tp))
            shell.ask(lambda token: Seek(token, tp, offset))

    def _stable(self, tp: TopicPartition) -> int:
        return self._world.store(tp).progress().stable

    # ---- settings that change ------------------------------------------------------------------

    def _change_capacity(self) -> None:
        """Give a member more or fewer workers; the group learns it with the next join."""
        shell = self._pick()
        if shell is not None:
            self._world.happened("capacity")
            capacities = {1, 2, 3, 4} - {shell.capacity}
            shell.change_capacity(self._scheduler.rng.choice(sorted(capacities)))
            if self._scheduler.chance(0.5):
                shell.rejoin()

    def _change_policy(self) -> None:
        """Forbid sharing, or allow it again, as an operator does; the leader hears of it."""
        world = self._world
        refused = Policies(frozenset({"t"})), Policies(group=True)
        allows = world.policies != Policies()
        world.policies = Policies() if allows else self._scheduler.rng.choice(refused)
        world.happened("policy")
        world.note("operator", f"sets {world.policies}")
        for shell in world.shells:
            shell.ask_broker(1, 2_000, shell.read_policies)

    # ---- what happens to an empty group --------------------------------------------------------

    def _perhaps_while_empty(self, decide: Callable[[], None]) -> None:
        """Make changes that members notice at work, or find when they come."""
        if self._scheduler.chance(0.15):
            self._while_empty(decide)
        else:
            decide()

    def _while_empty(
        self, decide: Callable[[], None], *, wake: bool = True, quiet_ms: int = 0
    ) -> None:
        """Stop all members, and make a change that needs an empty group.

        Args:
            decide: Makes the change.
            wake: Paused members may wake up afterwards, as zombies.
            quiet_ms: How long the group is empty before the change.
        """
        self.emptying = True
        wake &= not self._world.scenario.standalone  # whose ranges others would have by then
        for shell in self._working():
            if self._scheduler.chance(0.3) or (shell.paused and not wake):
                shell.crash()
            else:
                shell.close()
        self._await_empty(decide, wake=wake, quiet_ms=quiet_ms)

    def _await_empty(self, decide: Callable[[], None], *, wake: bool, quiet_ms: int = 0) -> None:
        world = self._world
        there = [s for s in world.shells if s.alive and not (wake and s.paused)]
        if world.coordinator.seats or there or not world.brokers.is_quiet(ARRIVED_MS):
            for shell in there:
                if shell.paused or self._scheduler.chance(0.2):  # patience ends
                    shell.crash()
            self._scheduler.after(
                100, lambda: self._await_empty(decide, wake=wake, quiet_ms=quiet_ms)
            )
            return
        if quiet_ms:
            self._scheduler.after(quiet_ms, lambda: self._await_empty(decide, wake=wake))
            return
        decide()
        self.emptying = False
        for _ in range(self._scheduler.rng.randint(1, 3)):
            world.start_member()

    def _rewind(self) -> None:
        for tp in sorted(self._world.data):
            if self._scheduler.chance(0.7):
                self._world.foreign_commit(tp)
        self._world.happened("foreign decision")

    def _reset(self) -> None:
        """Reset the group as an operator, often twice; the log may lose its beginning first."""
        world = self._world
        if self._scheduler.chance(0.5):
            self._lose_beginning()
        for tp in sorted(world.data):
            for _ in range(self._scheduler.rng.choice((0, 1, 2, 2))):
                world.reset(tp)

    def _lose_beginning(self) -> None:
        """Delete the log up to its last base; then a stock tool sets offsets, if any."""
        world = self._world
        for number, log in enumerate(world.log.partitions):
            bases = [r.offset for r in world.log.records(number) if is_base(r)]
            if bases:
                log.delete_below(bases[-1] + 1)
                world.happened("log without its beginning")
                world.note("someone", f"deletes log {number} up to its last base")
                world.checker.progress.damaged(number)
        for tp in sorted(world.data):
            if world.store(tp).tenures() and self._scheduler.chance(0.7):
                world.foreign_commit(tp)

    def _make_topic_anew(self) -> None:
        """Delete the topic, and with it the group's committed offsets, and make it again."""
        world = self._world
        world.make_topic()
        world.coordinator.offsets.clear()
        world.happened("new topic")
        world.note("someone", f"makes the topic anew: {world.topics}")
        self._tell_members()

    def _delete_from_log(self) -> None:
        """Delete the beginning of the progress log, or all of it, while members live."""
        world, rng = self._world, self._scheduler.rng
        for number, log in enumerate(world.log.partitions):
            if log.end_offset:
                low = rng.choice((log.end_offset, rng.randrange(log.end_offset)))
                log.delete_below(low)
                world.happened("log deletion")
                world.note("someone", f"deletes log {number} up to {low}")
                world.checker.progress.damaged(number)
        for shell in world.shells:
            shell.ask_broker(100, 3_000, shell.look_at_log)

    def _lose_log(self) -> None:
        """Delete the progress topic. Members notice one after the other."""
        world = self._world
        world.happened("log lost")
        world.note("someone", "deletes the progress topic")
        world.lose_log()
        for shell in world.shells:
            shell.ask_broker(1, 3_000, shell.look_at_progress_topic)

    def _damage_log(self) -> None:
        """Lose the progress log's end, or all of it, as with a disk."""
        world, rng = self._world, self._scheduler.rng
        for number, log in enumerate(world.log.partitions):
            if log.end_offset:
                end = rng.choice((0, rng.randrange(log.end_offset)))
                log.cut(end)
                world.happened("log damage")
                world.note("broker", f"loses log {number} from {end} on")
                world.checker.progress.damaged(number)


def decide_parked(world: World) -> None:
    """Decide about the parked records, as a person does."""
    for tp in sorted(world.data):
        topic_id, partition = world.topics[tp.topic][0], world.log_partition(tp)
        store = world.store(tp)
        for offset, attempt in sorted(world.checker.truth.attempts_in(tp).items()):
            if attempt.parked and offset not in store.decisions:
                is_refused = world.checker.truth.was_refused(tp, offset)
                assert is_refused or attempt.attempts >= world.config.max_attempts, (
                    f"attempts: {tp}@{offset} is parked after {attempt.attempts} failures"
                )
                world.checker.attempts.given_up(tp, offset, attempt.error)
                world.checker.attempts.decided(tp, offset)
                skip = world.scheduler.chance(0.5)
                world.happened("decision")
                if skip:
                    world.checker.truth.excuse_offset(tp, offset)
                else:
                    world.heal(tp, offset)
                key = DecisionKey(world.group, topic_id, tp.partition, offset)
                value = DecisionRecord("skip" if skip else "retry", world.scheduler.now_ms)
                entry = encode_key(key), encode_value(value)
                world.log.append(partition, [entry], world.scheduler.now_ms)
