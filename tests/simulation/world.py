"""The world of one seed: everything in one place, run step by step, checked after each.

In: a seed. Out: an `Outcome`: how many steps, what occurred, and the violation if there was one,
with the last events. First comes trouble: records are produced and faults happen. Then comes calm:
everything must be processed and committed within a bounded time (nothing is stuck).
"""

from __future__ import annotations

import traceback
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from assignors import PARTITION_HASH, AssignmentData, TopicPartition, block_hash
from coop_consumer.admin import amend
from coop_consumer.config import Config, OnDataLoss, OnFailure
from coop_consumer.core import failures, load, loads, record_size, standstill
from coop_consumer.core.blocked_read import RunId
from coop_consumer.core.contract import PROGRESS
from coop_consumer.core.placement import log_partition_of
from coop_consumer.core.policies import Policies
from coop_consumer.member import outage
from coop_consumer.status.seen import PartitionSeen
from offsets import (
    BaseKey,
    BaseRecord,
    Committed,
    encode_key,
    encode_value,
    of_topic,
    tenures,
)
from tests.simulation.blocks import Blocks
from tests.simulation.brokers import SILENT_S, Brokers
from tests.simulation.changelog import Changelogs, Disks
from tests.simulation.checker import Checker
from tests.simulation.coordinator import Coordinator, GroupState
from tests.simulation.data_log import DataLog
from tests.simulation.decoded import decode_key, decode_value
from tests.simulation.faults import Faults, decide_parked
from tests.simulation.flusher import SimLetter, leave_letter
from tests.simulation.older import NoLoads
from tests.simulation.output_topics import OutputTopics
from tests.simulation.plain import PlainShell
from tests.simulation.progress_log import ProgressLog
from tests.simulation.scenario import Scenario, in_a_hurry, scenario, weather, with_transactions
from tests.simulation.scheduler import Scheduler
from tests.simulation.shell import MemberShell
from tests.simulation.situations import Ranges, is_chain
from tests.simulation.standalone import StandaloneShell, User
from tests.simulation.strange_loads import strange_loads
from tests.simulation.transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coop_consumer.core.record import Record
    from offsets import LogRecord, PartitionStore

SILENT_MS = 2_000
SHUTDOWN_MS = 500
"""So long a member that closes waits for brokers that are away; the session is longer."""
CALM_MS = 120_000
"""Within this time after the last fault, everything must be processed and committed."""
CALM_APPEND_MS = 30
"""A transaction takes five answers: in worse weather the calm would take most of a run's time."""
FAREWELLS, FAREWELL_MS = 0.25, 1000
"""In so many worlds all leave at the end, asked within this time; that is half a run more."""
RESTS, SETTLE_MS, REST_MS, RESTLESS_MS = 0.05, 2_000, 5_500, 30_000
"""In so many worlds the group is watched once all is done. After so long it may rest; that it rests
is seen in so long, as a member waits for 5 s before it asks for another plan; it must by then."""
_HURRY_EVERY, _HURRY_AT = 14, 7
"""One seed in so many is in a hurry, by its number: a draw more would change every other world."""
_LOAD_EVERY, _LOAD_AT = 7, 6
"""In one seed of so many, members measure their load at once and report it often."""
_LOAD_MS = 300
_TOGETHER_EVERY, _TOGETHER_AT, _TOGETHER = 8, 7, 0.5
"""In one seed of so many, a member decides after half of its events only; others come before."""
_NARROW_EVERY, _NARROW_AT = 7, 6
"""In one seed of so many, few outputs may wait, by its number as well."""
OUTPUTS_MAX = 3
_WILD_EVERY, _WILD_AT = 4, 0
"""With exactly once, faults are patient in the others: the group comes to work first, and comes to
rest between plans. Else hardly a transaction would be under way in all the trouble."""
_PATIENT_MS, _LONGEST_MS = 100, 400
"""The longest delays there, and elsewhere."""
STEPS_MIN = 200
"""A world that is done sooner idles on, under the same checks."""
STEPS_BETWEEN_LOOKS = 25
"""To look whether all is done, and what is parked, costs a little."""
EVENTS_SHOWN = 30
PARTITIONS_MAX = 4
_OLDER_EVERY = 3
"""One process of so many knows no loads."""
BLOCK_SIZE = 4
BYTES_MAX = 2**20
SMALLEST_PART_BYTES = 470
SIZES = (10, 10, 10, BYTES_MAX // 8, BYTES_MAX // 3)
"""Of values, in bytes, in a world of large ones."""

Note = tuple[int, int, str, str, object]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a seed.

    Attributes:
        violation: What was broken, or "".
        where: The last frames of the violation's traceback.
        events: The last events, oldest first.
    """

    seed: int
    steps: int
    records: int
    situations: Counter[str]
    violation: str = ""
    where: str = ""
    events: tuple[str, ...] = field(default=(), repr=False)
    buffered: bool = False
    exactly_once: bool = False


class World:
    """One simulated group, its broker and its faults."""

    group = "simulated"

    def __init__(
        self,
        seed: int,
        *,
        buffered: bool = False,
        exactly_once: bool = False,
        trace: bool = False,
    ) -> None:
        self.seed = seed
        self.buffered = buffered
        self.exactly_once = exactly_once
        self.scheduler = Scheduler(seed)
        rng = self.scheduler.rng
        self.scenario, self.brokers = self._drawn()
        self.tells_loads = seed % _LOAD_EVERY == _LOAD_AT
        self._together = Random(f"together {seed}")
        self.is_patient = exactly_once and seed % _WILD_EVERY != _WILD_AT
        self.keeps_state = exactly_once and self.scenario.ordering != "none"
        is_upgrade = self.scenario.upgrade_from != "none"
        longest_ms = _PATIENT_MS if self.is_patient else _LONGEST_MS
        self.weather = weather(rng, self.scenario.faults, fair=is_upgrade, longest_ms=longest_ms)
        self.situations = Counter[str]()
        self.touched: set[MemberShell] = set()
        self.at_work: MemberShell | None = None  # its core decides something
        self._notes: deque[Note] = deque(maxlen=None if trace else EVENTS_SHOWN)
        self._topics_made = self._resets = self._logs_made = 0
        self.topics: dict[str, tuple[bytes, int]] = {}
        self.data: dict[TopicPartition, DataLog] = {}
        self._log_partitions: dict[TopicPartition, int] = {}
        self.config = self._config()
        self._configs: dict[tuple[int, bool, str | None], Config] = {}
        self.skips = self.config.on_failure is OnFailure.SKIP
        self.outputs = OutputTopics(seed, exactly_once=exactly_once)
        self.blocks = Blocks(seed, exactly_once=exactly_once)
        self.checker = Checker(self)
        self._make_log()
        self.coordinator = Coordinator(
            self.scheduler,
            self.brokers,
            session_ms=self.scenario.session_ms,
            rebalance_ms=self.scenario.rebalance_ms,
        )
        self.transactions = Transactions(self)
        self.changelogs, self.disks = Changelogs(self), Disks(self)
        self.user = User(self)
        self.make_topic()
        self.shells: list[MemberShell] = []
        self.plain: list[PlainShell] = []
        self._assigned: dict[str, Ranges] = {}
        self._keys = [b"k%d" % i for i in range(self.scenario.keys)]
        self._failing_keys = set(self._keys[: self.scenario.failing_keys])
        self._names = 0
        self._is_calm = False
        self._left_to_produce = self.scenario.records
        self._healed: set[tuple[TopicPartition, int]] = set()
        self._failures = dict[tuple[TopicPartition, int], int]()
        self.killer: tuple[TopicPartition, int] | None = None
        self._decides = not self.scenario.undecided
        self.policies = Policies()

    def _drawn(self) -> tuple[Scenario, Brokers]:
        """The seed's scenario, prolonged by the time in which no broker answers."""
        drawn = scenario(self.scheduler.rng)
        if self.seed % _HURRY_EVERY == _HURRY_AT:
            drawn = in_a_hurry(drawn)
        if self.exactly_once:
            drawn = with_transactions(drawn)
        brokers = Brokers(self.seed, drawn, self.scheduler)
        return replace(drawn, trouble_ms=drawn.trouble_ms + brokers.away_ms), brokers

    def _config(self) -> Config:
        drawn = self.scenario
        return Config.from_dict(
            {
                "bootstrap.servers": "simulated:9092",
                "group.id": self.group,
                "assignor": drawn.assignor,
                "split": drawn.split,
                "ordering": drawn.ordering,
                "ordering.block.size": BLOCK_SIZE,
                "on.failure": drawn.on_failure,
                "max.processing.ms": drawn.max_processing_ms,
                "on.overdue": drawn.on_overdue,
                "max.attempts": drawn.max_attempts,
                "on.data.loss": drawn.on_data_loss,
                "circuit.share": drawn.circuit_share,
                "circuit.keys": 2,
                "circuit.window.ms": 2_000,
                "circuit.open.ms": 50,
                "attempt.backoff.ms": 20,
                "attempt.backoff.max.ms": 200,
                "max.records.in.lanes": drawn.max_records_in_lanes,
                "max.num.ranges.held": drawn.held_max,
                "max.num.ranges.to.commit": min(drawn.held_max, 10_000),
                "max.bytes.key.range.cache": BYTES_MAX,
                "commit.interval.ms": drawn.commit_interval_ms,
                "commit.max.records": 8,
                "mirror.interval.ms": drawn.mirror_interval_ms,
                "auto.offset.reset": drawn.offset_reset,
                "upgrade.from": drawn.upgrade_from,
                "output.max.records": OUTPUTS_MAX
                if self.seed % _NARROW_EVERY == _NARROW_AT
                else 50_000,
                "host": "simulated",
                "shutdown.timeout.ms": SHUTDOWN_MS,
                "processing.guarantee": "exactly_once" if self.exactly_once else "at_least_once",
            }
        )

    # ---- the run -------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run to the end, or to the first violation."""
        try:
            self._trouble()
            self._calm()
            if self._rests():
                self._rest(is_moving=self._is_left())
            self._decides = True
            if self._is_left():
                self._calm()
            if self.scheduler.chance(FAREWELLS / 3 if self.exactly_once else FAREWELLS):
                self._farewell()
            if self.exactly_once:
                self.checker.outputs.check_complete()
            if self.keeps_state:
                self.checker.states.check_complete()
        except Exception as broken:  # noqa: BLE001 - whatever a core raises is a finding
            text = str(broken) if isinstance(broken, AssertionError) else repr(broken)
            frames = traceback.format_list(traceback.extract_tb(broken.__traceback__)[-3:])
            return self._outcome(text, "".join(frames))
        return self._outcome()

    def _rests(self) -> bool:
        """With exactly once it is rarer, as farewells are: both are about plans and mirrors."""
        if self.exactly_once and self._is_left():
            return self.scheduler.chance(0.65)
        return self._is_left() or self.scheduler.chance(RESTS)

    def _outcome(self, violation: str = "", where: str = "") -> Outcome:
        return Outcome(
            self.seed,
            self.scheduler.steps,
            self.scenario.records,
            self.situations,
            violation,
            where,
            tuple(map(_told, self._notes)) if violation or self._notes.maxlen is None else (),
            self.buffered,
            self.exactly_once,
        )

    def _trouble(self) -> None:
        drawn, scheduler = self.scenario, self.scheduler
        for data in self.data.values():
            for _ in range(0 if drawn.quiet_ms else scheduler.rng.randint(0, 20)):
                self.produce(data)
            if drawn.took_over and scheduler.chance(0.5):
                self.coordinator.offsets[data.tp] = Committed(
                    scheduler.rng.randint(0, data.end), "plain"
                )
        if self.tells_loads:
            self.log.append(0, strange_loads(self.group), 0)
        self.checker.truth.about_to_begin(self.coordinator.offsets)
        self.faults = Faults(self)
        is_upgrade = drawn.upgrade_from != "none"
        for _ in range(scheduler.rng.randint(1, 3) if is_upgrade else 0):
            self.start_plain()
        first_ms, last_ms = (500, 1_500) if is_upgrade else (0, 1_000)
        for _ in range(drawn.members):
            delay_ms = scheduler.between(0, 10) if drawn.together else scheduler.between(0, last_ms)
            scheduler.after(first_ms + delay_ms, self.start_member)
        scheduler.after(drawn.quiet_ms, self._produce_later)
        while scheduler.now_ms < drawn.trouble_ms:
            self._step()
        self.faults.stop()

    def _calm(self) -> None:
        self._is_calm = True
        if self.exactly_once:
            self.weather.append_ms = min(self.weather.append_ms, CALM_APPEND_MS)
        until_ms = self.scheduler.now_ms + CALM_MS * self._patience
        while self.scheduler.steps < STEPS_MIN or not self._finished():
            self._mend()
            for _ in range(STEPS_BETWEEN_LOOKS):
                self._step_before(until_ms)

    @property
    def _patience(self) -> int:
        """A transaction takes five answers, and in bad weather a second."""
        return 2 if self.exactly_once else 1

    def _rest(self, *, is_moving: bool) -> None:
        """Check that a group with nothing left to do makes no plan and writes nothing.

        Where records stay parked, their ranges move first.
        """
        if is_moving:
            self.happened("undecided")
            self.start_member()
            next(shell for shell in self.shells if shell.alive and not shell.closing).close()
        until_ms = self.scheduler.now_ms + RESTLESS_MS * self._patience
        self._run_for(SETTLE_MS)
        before = None
        while before != (now := self._written()):
            assert self.scheduler.now_ms < until_ms, f"rest: {before} became {now}; {self._stuck()}"
            before = now
            self._run_for(REST_MS)
        self.happened("rest")
        for shell in (shell for shell in self.shells if shell.alive):
            told = self._is_left() or shell.core.caught_up
            assert told, f"caught_up: {shell.title} never says so"

    def _written(self) -> tuple[int, dict[TopicPartition, Committed], list[int]]:
        """A value that changes with each plan, each committed offset and each record of the log."""
        ends = [log.end_offset for log in self.log.partitions]
        return self.coordinator.generation, dict(self.coordinator.offsets), ends

    def _run_for(self, ms: int) -> None:
        until_ms = self.scheduler.now_ms + ms
        while self.scheduler.now_ms < until_ms:
            self._step()

    def _mend(self) -> None:
        """Do what a person would do by now."""
        if self._decides:
            decide_parked(self)
        if any(shell.alive and shell.core.circuit.is_open for shell in self.shells):
            self._failures.clear()  # where all that is left fails alike, somebody mends the handler
        if not self.faults.emptying and not any(shell.alive for shell in self.shells):
            self._failures.clear()  # if the group has stopped, somebody has mended the handler
            self.outputs.mend()
            self.start_member()

    def _farewell(self) -> None:
        """Check that progress is mirrored if all leave, while one member has just come.

        By the newest plan the newcomer may have to mirror. It may know only that plan, or leave
        before it knows the plan.
        """
        scheduler = self.scheduler
        until_ms = scheduler.now_ms + CALM_MS * self._patience
        for data in self.data.values():
            for _ in range(scheduler.rng.randint(0, 6)):
                self.produce(data)
        while any(self.checker.truth.undone(tp, self._epoch(tp)) for tp in self.data):
            self._mend()
            for _ in range(STEPS_BETWEEN_LOOKS):
                self._step_before(until_ms)
        self.start_member()
        asked_ms = scheduler.now_ms
        leaving = [shell for shell in self.shells if shell.alive]
        for shell in self.shells:
            scheduler.after(scheduler.between(0, FAREWELL_MS), shell.close)
        while here := [shell for shell in self.shells if shell.alive]:
            for shell in here:
                if scheduler.now_ms > asked_ms + FAREWELL_MS and not shell.closing:
                    shell.close()  # a static member's next run, that was to start
            for _ in range(STEPS_BETWEEN_LOOKS):
                self._step_before(until_ms)
        if any(shell.put_out for shell in leaving):
            return  # it could not mirror, and whoever was to do so for it may be gone as well
        for tp in sorted(self.data):
            offset, _ = self.coordinator.offsets.get(tp, (-1, ""))
            store = self.store(tp)
            stable = store.progress().stable
            # An epoch that has just begun may lack its tag: whoever comes next sets it (`_tag`).
            is_fresh = stable == store.base_offset
            assert is_fresh or offset >= stable, (
                f"mirror: {tp} done to {stable}, {offset} committed"
            )

    def _step_before(self, until_ms: int) -> None:
        assert self.scheduler.now_ms < until_ms, f"stuck: {self._stuck()}"
        self._step()

    def store(self, tp: TopicPartition) -> PartitionStore:
        """The whole log's fold of a partition."""
        return self.checker.truth.store(tp)

    def _step(self) -> None:
        self.scheduler.step()
        if self.touched:
            for shell in self.touched:
                self.checker.members.check(shell)
            self.touched.clear()

    def _finished(self) -> bool:
        return not self._left_to_produce and all(map(self._is_done, self.data))

    def _is_done(self, tp: TopicPartition) -> bool:
        """Whether all is processed and committed; what a cut took back, once is enough."""
        offset, metadata = self.coordinator.offsets.get(tp, (-1, ""))
        end, tag = self._goal(tp)
        undone, store = self.checker.truth.undone(tp, self._epoch(tp)), self.store(tp)
        if not self._decides and (parked := self.checker.truth.parked_in(tp)):
            # An evicted owner may have told late that it has done what its heir has parked.
            ends = {store.progress().stable, *parked}
            is_mirrored = metadata == tag and offset in ends
            return is_mirrored and self.checker.answers.waits_for_decision(tp, undone)
        return not undone and metadata == tag and end <= offset <= self.data[tp].highest_end

    def _is_left(self) -> bool:
        """Whether something waits for a person's decision."""
        # Also what was done before a lost log had it done again may be parked now.
        return any(
            self.checker.truth.undone(tp, self._epoch(tp)) or self.checker.truth.parked_in(tp)
            for tp in self.data
        )

    def _epoch(self, tp: TopicPartition) -> int:
        """The epoch of the log; if the log has lost it, of the committed offset."""
        committed = self.coordinator.offsets.get(tp, Committed(-1))
        return self.checker.progress.epoch(tp) or committed.tagged[1]

    def _goal(self, tp: TopicPartition) -> Committed:
        topic_id, _ = self.topics[tp.topic]
        return Committed.mirror(self.data[tp].end, self._epoch(tp), topic_id, self.config.tag)

    def _stuck(self) -> str:
        lines = [
            f"{tp}: undone {self.checker.truth.undone(tp, self._epoch(tp))}, committed "
            f"{self.coordinator.offsets.get(tp)}, wanted {self._goal(tp)}"
            for tp in sorted(self.data)
        ]
        for shell in self.shells:
            if shell.alive:
                lines += shell.story()
        return "\n  ".join([self.coordinator.state.name, *lines])

    # ---- what parts of the world ask and tell --------------------------------------------------

    def note(self, who: str, verb: str, what: object = "") -> None:
        """Remember an event for the trace."""
        self._notes.append((self.scheduler.steps, self.scheduler.now_ms, who, verb, what))

    def takes_together(self) -> bool:
        """Whether a member that has taken in an event takes in others before it decides."""
        is_one = self.seed % _TOGETHER_EVERY == _TOGETHER_AT
        return is_one and self._together.random() < _TOGETHER

    def happened(self, situation: str) -> None:
        """Count a situation."""
        self.situations[situation] += 1

    def start_member(self, name: str | None = None) -> None:
        """Start a process; with a name, a static member's next run."""
        drawn = self.scenario
        self._names += 1
        if name is not None:
            self.happened("static restart")
            if any(shell.alive and shell.name == name for shell in self.shells):
                self.checker.truth.disturb()
            if self._last_run(name).left_draining:
                self.happened("static restart while draining")
        name = name or f"m{self._names}"
        config = self._config_of(
            self.scheduler.rng.randint(1, 3),
            not self.scheduler.chance(drawn.loners),
            name if drawn.static else None,
        )
        workers = self.scheduler.rng.randint(1, 4)
        kind = self._kind_of_shell
        shell = kind(self, config, name=name, incarnation=self._names, workers=workers)
        if self.scheduler.chance(drawn.newer):
            self.happened("member of a later release")
            shell.is_newer = True
        elif self._names % _OLDER_EVERY == 0:
            self.happened("member without loads")
            shell.core.loads = NoLoads(shell.core.state, shell.core.outbox)
        self.shells.append(shell)
        self.note(shell.title, "starts up")
        shell.start()

    def _config_of(self, capacity: int, shares: bool, instance: str | None) -> Config:
        """The same object for members alike: to check a configuration takes longer than a step."""
        place = capacity, shares, instance
        if place not in self._configs:
            self._configs[place] = replace(
                self.config,
                capacity=capacity,
                allow_individual_commit=shares,
                group_instance_id=instance,
            )
        return self._configs[place]

    def start_plain(self) -> None:
        """Start a plain member."""
        self._names += 1
        first = self.scheduler.rng.choice("bp")  # plans go by names: before ours, or behind
        shell = PlainShell(self, name=f"{first}{self._names}")
        self.plain.append(shell)
        self.note(shell.name, "starts up")
        shell.start()

    def begin_again_later(self, before: MemberShell) -> None:
        """Begin the next run of a member that has lost its progress topic, in its process."""

        def begin() -> None:
            if self.faults.emptying:
                return
            self.happened("new run")
            self._names += 1
            if not self.faults.is_on:
                before.core.state.load.paused.clear()  # the word to resume may have come too late
            config, workers = before.config, self.scheduler.rng.randint(1, 4)
            config = replace(config, capacity=before.capacity)
            shell = self._kind_of_shell(
                self,
                config,
                name=before.name,
                incarnation=self._names,
                workers=workers,
                before=before,
            )
            self.shells.append(shell)
            self.note(shell.title, "begins again")
            shell.start()

        self.scheduler.after(self.scheduler.between(10, 1_000), begin)

    def stopped_at_loss(self) -> None:
        """Accept a data loss as a person, after a member has ended by `on.data.loss=stop`."""
        self.happened("stop at lost data")

        def go_on() -> None:
            self.config = replace(self.config, on_data_loss=OnDataLoss.WARN)
            self._configs.clear()
            self.checker.truth.accept_loss()
            if not self.faults.emptying:
                self.start_member()

        if self.config.on_data_loss is OnDataLoss.STOP:
            self.scheduler.after(self.scheduler.between(10, 2_000), go_on)

    @property
    def _kind_of_shell(self) -> type[MemberShell]:
        return StandaloneShell if self.scenario.standalone else MemberShell

    def is_member(self, name: str, incarnation: int) -> bool:
        """Whether this run of this name has a seat in the group, or lives without needing one."""
        seats = self.coordinator.seats.values()
        shells = [seat.shell for seat in seats if isinstance(seat.shell, MemberShell)]
        if self.scenario.standalone:
            shells = [shell for shell in self.shells if shell.alive]
        return any((s.name, s.incarnation) == (name, incarnation) for s in shells)

    def runs_in_group(self) -> set[RunId] | None:
        """The runs of members in the group; None: it is not stable."""
        if self.coordinator.state is not GroupState.STABLE:
            return None
        shells = (seat.shell for seat in self.coordinator.seats.values())
        return {RunId(it.name, it.incarnation) for it in shells if isinstance(it, MemberShell)}

    def _last_run(self, name: str) -> MemberShell:
        return next(shell for shell in reversed(self.shells) if shell.name == name)

    def synced(self, assignments: Mapping[str, AssignmentData]) -> None:
        """The group has a generation; members by name."""
        if is_chain(self._assigned, assignments):
            self.happened("chain of moves")
        self._assigned = {name: data.ranges for name, data in assignments.items()}
        self.faults.while_ranges_move()

    # ---- topics --------------------------------------------------------------------------------

    def _make_log(self) -> None:
        self._logs_made += 1
        self.log = ProgressLog(self.scenario.log_partitions, self._appended)
        self.contract = f"hash=simulated,{PROGRESS}{self._logs_made}"

    def lose_log(self) -> None:
        """Delete the progress topic and make it anew. Members with the old topic have no log."""
        self.log.is_deleted = True
        self._make_log()
        for number in range(self.scenario.log_partitions):
            self.checker.progress.damaged(number)

    def make_topic(self) -> None:
        """Make the topic, or make it anew, empty and under another id."""
        self._topics_made += 1
        id_ = self._topics_made.to_bytes(4, "big") + b"topic-id-of-"
        _, count = self.topics.get("t", (b"", self.scenario.partitions))
        self.topics["t"] = (id_, count)
        for number in range(count):
            self._make_partition(TopicPartition("t", number), id_)

    def add_partition(self) -> bool:
        """Give the topic one more partition. False: it has enough."""
        id_, count = self.topics["t"]
        if count == PARTITIONS_MAX:
            return False
        self.topics["t"] = (id_, count + 1)
        self._make_partition(TopicPartition("t", count), id_)
        return True

    def _make_partition(self, tp: TopicPartition, topic_id: bytes) -> None:
        self.data[tp] = DataLog(tp)
        self.checker.truth.made(self.data[tp], topic_id)

    def partition_of(self, topic_id: bytes, partition: int) -> TopicPartition | None:
        """The data partition of a log record; None: its topic no longer exists."""
        topic = next((name for name, (id_, _) in self.topics.items() if id_ == topic_id), None)
        return None if topic is None else TopicPartition(topic, partition)

    def log_partition(self, tp: TopicPartition) -> int:
        """The log partition that has its progress."""
        found = self._log_partitions.get(tp)
        if found is None:
            count = self.scenario.log_partitions
            found = log_partition_of(self.group, tp.topic, tp.partition, count)
            self._log_partitions[tp] = found
        return found

    def foreign_commit(self, tp: TopicPartition) -> None:
        """Set the committed offset of the empty group, mostly back, without a tag."""
        data = self.data[tp]
        committed, _ = self.coordinator.offsets.get(tp, (data.end, ""))
        upto = max(data.low, min(data.end, committed)) if self.scheduler.chance(0.7) else data.end
        offset = self.scheduler.rng.randint(min(data.low, data.end), upto)
        self.coordinator.offsets[tp] = Committed(offset)
        self.checker.truth.foreign(tp, offset)
        self.note("someone", f"sets {tp} to {offset}")

    def reset(self, tp: TopicPartition) -> None:
        """Reset a partition of the empty group as an operator, mostly back."""
        data, (topic_id, _) = self.data[tp], self.topics[tp.topic]
        low = min(data.low, data.end)
        upto = data.end if self.scheduler.chance(0.3) else min(data.end, low + 5)
        committed = of_topic(self.coordinator.offsets.get(tp), topic_id)
        seen = PartitionSeen(tp, topic_id, low, data.end, committed, self.store(tp))
        reset = amend._reset(seen, self.scheduler.rng.randint(low, upto))
        if not reset.is_in_log:
            self.checker.truth.reset(tp, reset.new_epoch, reset.offset)
            self._resets += 1
            key = BaseKey(self.group, topic_id, tp.partition, reset.new_epoch, f"{self._resets}")
            value = BaseRecord(reset.new_epoch, reset.offset)
            entry = encode_key(key), encode_value(value)
            self.log.append(self.log_partition(tp), [entry], self.scheduler.now_ms)
        self.note("operator", f"resets {tp} to {reset.offset}, epoch {reset.new_epoch}")
        self.happened("reset")
        if self.scheduler.chance(0.9):  # else the command is interrupted here
            self.coordinator.offsets[tp] = Committed.mirror(
                reset.offset, reset.new_epoch, topic_id, self.config.tag
            )

    def _appended(self, partition: int, record: LogRecord) -> None:
        self.note("log", f"{partition} takes", record)
        self.checker.progress.appended(partition, record)

    # ---- records and handlers ------------------------------------------------------------------

    def _produce_later(self) -> None:
        drawn = self.scenario
        every_ms = (drawn.trouble_ms - drawn.quiet_ms) // drawn.records
        delay_ms = self.scheduler.between(1, 2 * every_ms + 1)
        self.scheduler.after(self.brokers.reach(delay_ms), self._produce_next)

    def _produce_next(self) -> None:
        self._left_to_produce -= 1
        self.produce(self.scheduler.rng.choice([self.data[tp] for tp in sorted(self.data)]))
        if self._left_to_produce:
            self._produce_later()

    def produce(self, data: DataLog) -> None:
        """Write a record to a partition."""
        scheduler = self.scheduler
        if scheduler.chance(self.scenario.holes):
            data.skip(scheduler.rng.randint(1, 5))
        no_key = scheduler.chance(self.scenario.null_keys)
        key = None if no_key else scheduler.rng.choice(self._keys)
        message = data.append(key, size=self._size(), hash_=self._hash(data))
        self.outputs.produced(data.tp, message.offset())
        if scheduler.chance(self.scenario.failing):
            self._failures[data.tp, message.offset()] = scheduler.rng.choice((1, 1, 1_000))
        elif self.killer is None and scheduler.chance(self.scenario.killer):
            self.killer = data.tp, message.offset()
        elif key in self._failing_keys:
            self._failures[data.tp, message.offset()] = 1
        self.checker.truth.produced(data.tp, message)

    def _size(self) -> int:
        return self.scheduler.rng.choice(SIZES) if self.scenario.large else SIZES[0]

    def _hash(self, data: DataLog) -> int | None:
        """The hash of the next message, if its key does not decide it."""
        if self.scenario.ordering == "none":
            return block_hash(data.tp.partition, data.end, BLOCK_SIZE)
        return PARTITION_HASH if self.scenario.ordering == "partition" else None

    def cost_ms(self) -> int:
        """How long a handler takes."""
        if self._is_calm:
            return self.scheduler.between(0, 10)
        if self.scheduler.chance(self.scenario.stuck):
            self.happened("stuck handler")
            return self.scheduler.between(3_000, 10_000)
        slow = self.scheduler.chance(self.scenario.slow)
        return self.scheduler.between(*((100, 3_000) if slow else (0, self.scenario.pace_ms)))

    def wait_for_leader_ms(self) -> int:
        """How long outputs wait for a leader of their topics."""
        return 0 if self._is_calm else self.outputs.wait_ms()

    def fails(self, record: Record) -> bool:
        """Whether the handler raises now."""
        drawn = self.scenario
        if 0 <= self.scheduler.now_ms - drawn.trouble_ms // 3 < drawn.outage_ms:
            self.happened("outage")
            return True
        place = record.tenure.tp, record.offset
        if self._failures.get(place, 0) <= 0 or place in self._healed:
            return False
        self._failures[place] -= 1
        return True

    def kills(self, record: Record) -> bool:
        """Whether the record's handler ends its process."""
        place = record.tenure.tp, record.offset
        return place == self.killer and place not in self._healed

    def heal_killer(self) -> None:
        """Mend the handler that ends processes."""
        if self.killer is not None:
            self._healed.add(self.killer)

    def heal(self, tp: TopicPartition, offset: int) -> None:
        """Mend the record's handler."""
        self._healed.add((tp, offset))
        self.outputs.heal(tp, offset)


def _told(note: Note) -> str:
    step, now_ms, who, verb, what = note
    return f"{step:>6} {now_ms:>6} ms  {who:<6} {verb} {_short(what)}"


def _short(what: object) -> str:
    text = str(what)
    return text if len(text) < 300 else text[:297] + "..."


def simulate(
    seed: int, *, buffered: bool = False, exactly_once: bool = False, trace: bool = False
) -> Outcome:
    """Run one seed.

    Args:
        seed: Which.
        buffered: The output of handlers is durable only after a flush.
        exactly_once: Output and progress leave in transactions.
        trace: Remember all events.
    """
    with _adapted() as patch:
        world = World(seed, buffered=buffered, exactly_once=exactly_once, trace=trace)
        patch.setattr(record_size, "RECORD_MAX_BYTES", world.scenario.record_bytes)
        patch.setattr(record_size, "RECORD_MIN_BYTES", SMALLEST_PART_BYTES)
        if world.tells_loads:
            patch.setattr(loads, "REPORT_MS", _LOAD_MS)
            patch.setattr(loads, "LOOK_MS", _LOAD_MS // 3)
            patch.setattr(loads, "_STEP_MS", 0)
            patch.setattr(load, "_SAMPLE_MS", 0)
            patch.setattr(load, "_OFFSETS_MIN", 1)
            patch.setattr(load, "_HEAVY_RECORDS", 1.0)
        if exactly_once:

            def letter_of(record: Record, error: str, *_: object) -> SimLetter:
                assert world.at_work is not None
                return leave_letter(world, world.at_work, record, error)

            patch.setattr(failures, "letter_of", letter_of)
        return world.run()


@contextmanager
def _adapted() -> Iterator[pytest.MonkeyPatch]:
    """Replace a dead client after seconds, as a seed's trouble lasts for seconds only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standstill, "SILENT_MS", SILENT_MS)
        patch.setattr(outage, "SILENT_S", SILENT_S)
        patch.setattr(tenures, "decode_key", decode_key)
        patch.setattr(tenures, "decode_value", decode_value)
        yield patch
