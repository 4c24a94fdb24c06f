"""The case `scale`: what a rebalance costs a group of 1 to 1,000 members.

In: nothing but sizes. Out: a row a size. The plan is the leader's real one, with all user data read
and written; the rest is the simulation's world with nothing that fails, where time is virtual: what
is measured is how many messages must be waited for, one after the other, and not how fast this
machine is. The group shares three partitions, and each member gets ten records a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from statistics import median

import pytest

from assignors import AssignmentData, KeyRangeStickyAssignor, decode_assignment
from assignors.user_data import Claim, Subscription, encode_subscription
from benchmarks.bench import Broker
from benchmarks.processes import alone, resident_mb
from benchmarks.rows import JsonRow
from coop_consumer.core.leader import GroupMemberData, GroupPlan, plan
from coop_consumer.core.tenure import TenureState
from tests.simulation import world as simulated
from tests.simulation.coordinator import GroupState
from tests.simulation.faults import Faults
from tests.simulation.scenario import Scenario, Weather, scenario
from tests.simulation.world import World

SIZES = 1, 10, 100, 1_000
PARTITIONS, CAPACITY = 3, 4
RATE, WATCHED_MS = 10, 2_000
DELAY_MS = 5
"""Of a message to a broker, or of its answer, at most; most take less."""
_SETTLE_MS = 60_000
_MOVING = TenureState.BEGINNING, TenureState.DRAINING


# ---- the plan -----------------------------------------------------------------------------------


def planned(members: Mapping[str, AssignmentData]) -> tuple[GroupPlan, list[bytes]]:
    """The leader's plan for members that hold what they were given, and their subscriptions."""
    data = [encode_subscription(_subscription(name, held)) for name, held in members.items()]
    listed = [GroupMemberData(name, ("t",), one) for name, one in zip(members, data, strict=True)]
    made = plan(
        KeyRangeStickyAssignor(),
        {"t": PARTITIONS},
        listed,
        topic_allows_sharing={"t": True},
        group_allows_sharing=True,
        now_ms=0,
    )
    return made, data


def _subscription(name: str, held: AssignmentData) -> Subscription:
    return Subscription(
        name=name,
        incarnation=1,
        host="host",
        capacity=CAPACITY,
        allow_sharing=True,
        contract="the same",
        nonce=1,
        claims=tuple(
            Claim(number, tp, ranges, draining=False)
            for number, (tp, ranges) in enumerate(held.ranges.items(), 1)
        ),
    )


def plan_figures(size: int) -> dict[str, float]:
    """One member joins a group that has settled: the leader's time, and everybody's bytes."""
    names = [f"m{number:04}" for number in range(size)]
    first, _ = planned(dict.fromkeys(names[:-1], AssignmentData()) or {names[0]: AssignmentData()})
    held = {name: decode_assignment(one.user_data) for name, one in first.members.items()}
    begun_s = time.process_time()
    second, subscriptions = planned({**dict.fromkeys(names, AssignmentData()), **held})
    plan_ms = (time.process_time() - begun_s) * 1_000
    answers = [len(one.user_data) for one in second.members.values()]
    return {
        "plan_ms": round(plan_ms, 2),
        "subscription_bytes": median(map(len, subscriptions)),
        "subscription_bytes_max": max(map(len, subscriptions)),
        "assignment_bytes": median(answers),
        "assignment_bytes_max": max(answers),
        "join_bytes": sum(map(len, subscriptions)) + sum(answers),
    }


# ---- the group ----------------------------------------------------------------------------------


def calm(rng: Random) -> Scenario:
    """A world in which nothing fails."""
    return replace(
        scenario(rng),
        faults=frozenset(),
        partitions=PARTITIONS,
        log_partitions=PARTITIONS,
        null_keys=0.0,
        holes=0.0,
        failing=0.0,
        failing_keys=0,
        pace_ms=10,
        slow=0.0,
        stuck=0.0,
        large=False,
        static=False,
        took_over=False,
        loners=0.0,
        newer=0.0,
        assignor="sticky",
        split="auto",
        ordering="key",
        max_records_in_lanes=20_000,
        held_max=60_000,
        commit_interval_ms=100,
        mirror_interval_ms=500,
        max_processing_ms=300_000,
        on_overdue="leave",
        session_ms=6_000,
        rebalance_ms=60_000,
    )


def swift(_rng: Random, _faults: Iterable[str]) -> Weather:
    """A network in which nothing is lost."""
    return Weather(append_ms=DELAY_MS, read_ms=DELAY_MS, net_ms=DELAY_MS, fetch_ms=DELAY_MS, lost=0)


class SimulatedGroup:
    """Members in virtual time."""

    def __init__(self, size: int) -> None:
        with patched():
            self._world = World(seed=1)
        self._world.faults = Faults(self._world)
        self._world.faults.stop()  # nothing happens, but that the first member starts
        for _ in range(size - 1):
            self._world.start_member()
        self._size = size
        self._settle()

    def join_ms(self) -> int:
        """One more joins: how long until all that moves is at work again."""
        begun_ms = self._world.scheduler.now_ms
        self._world.start_member()
        self._size += 1
        self._settle()
        return self._world.scheduler.now_ms - begun_ms

    def commits_a_second(self) -> float:
        """Progress records that all members write under a steady load."""
        world, every_ms = self._world, 1_000 / (RATE * self._size)
        begun_ms, before, made = world.scheduler.now_ms, self._commits(), 0
        while world.scheduler.now_ms < begun_ms + WATCHED_MS:
            due = int((world.scheduler.now_ms - begun_ms) / every_ms)
            for number in range(made, due):
                [tp] = [it for it in world.data if it.partition == number % PARTITIONS]
                message = world.data[tp].append(b"key-%d" % (number % 10_000), size=100, hash_=None)
                world.checker.truth.produced(tp, message)
            made = due
            self._step()
        return (self._commits() - before) / (WATCHED_MS / 1_000)

    def _settle(self) -> None:
        until_ms = self._world.scheduler.now_ms + _SETTLE_MS
        while not self._has_settled():
            assert self._world.scheduler.now_ms < until_ms, f"{self._size} members do not settle"
            for _ in range(self._size):
                self._step()

    def _step(self) -> None:
        self._world.scheduler.step()
        self._world.touched.clear()  # that all is well is the business of the simulation's tests

    def _has_settled(self) -> bool:
        coordinator = self._world.coordinator
        if coordinator.state is not GroupState.STABLE or len(coordinator.seats) != self._size:
            return False
        states = [shell.core.state for shell in self._world.shells]
        return all(
            state.membership.generation == coordinator.generation for state in states
        ) and all(
            tenure.state not in _MOVING and not tenure.blocked.waits
            for state in states
            for partition in state.partitions.values()
            for tenure in partition.all_tenures()
        )

    def _commits(self) -> int:
        return sum(shell.core.state.counters.commits for shell in self._world.shells)


@contextmanager
def patched() -> Iterator[None]:
    """A world that is made in the block is calm and swift."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated, "scenario", calm)
        patch.setattr(simulated, "weather", swift)
        yield


def scale(_broker: Broker, runs: int) -> list[JsonRow]:
    """A row a size; one run, as nothing but the plan's time differs from run to run."""
    head = {"case": "scale", "system": "ours", "runs": runs}
    return [
        {**head, "point": f"{size} members", "figures": alone(_figures, size, runs)}
        for size in SIZES
    ]


def _figures(size: int, runs: int) -> dict[str, float]:
    plans = [plan_figures(size) for _ in range(runs)]
    group = SimulatedGroup(size)
    return {
        **plans[0],
        "plan_ms": median(it["plan_ms"] for it in plans),
        "join_ms": group.join_ms(),
        "commits_a_second": group.commits_a_second(),
        "cpu_worker_s": time.process_time(),
        "resident_mb": resident_mb(),
    }
