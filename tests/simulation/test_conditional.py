"""Conditional appends keep their promises in every order, and each planted bug breaks one."""

from __future__ import annotations

import pytest

from coop_consumer.core.transaction import Said
from coop_consumer.logs.conditional import ConditionalAppend
from coop_consumer.logs.memory_log import MemoryPartition
from coop_consumer.logs.port import Landed, StableRead
from tests.simulation.conditional_search import explore
from tests.simulation.conditional_world import Bounds, BrokenPromiseError, World
from tests.simulation.never_busy import NeverBusy

SOUND = {
    "two publishers": (Bounds(attempts=3), 30_000),
    "beside a plain producer": (Bounds(attempts=2, plain=1), 50_000),
    "beside plain records, two records each": (
        Bounds(appends=1, attempts=1, count=2, plain=2), 25_000
    ),
    "two appends of two records each": (Bounds(attempts=1, count=2, plain=1), 15_000),
    "beside a transaction of others": (Bounds(appends=1, attempts=2, transactions=1), 5_000),
    "with a lost answer": (Bounds(attempts=2, faults=1), 50_000),
    "with two lost answers": (Bounds(appends=1, attempts=1, faults=2), 10_000),
}  # fmt: skip
"""Bounds, and how many states there are at least: a world that has become small proves nothing."""


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_lost_or_there_twice_in_any_order(name: str) -> None:
    bounds, states_min = SOUND[name]
    assert explore(World.new(bounds)) >= states_min


class EndOfLog(ConditionalAppend):
    """E is the end of the log, not the last stable offset."""

    def read(self, seen: StableRead) -> None:
        super().read(seen._replace(position=seen.end, stable_end=seen.end))


class NoCheck(ConditionalAppend):
    """Where the records lie is not looked at."""

    def produced(self, landed: Landed) -> None:
        at = self.position
        super().produced(landed._replace(first=at, last=at + self._count - 1))


class FirstAlone(ConditionalAppend):
    """Only the first record's place is looked at."""

    def produced(self, landed: Landed) -> None:
        super().produced(landed._replace(last=landed.first + self._count - 1))


class DoubtIsAbort(ConditionalAppend):
    """A commit without an answer is taken for none: the append is made once more."""

    def committed(self, said: Said, took_ms: float = 0.0) -> None:
        super().committed(said, took_ms)
        if said is Said.BROKEN:
            self._append_id = b""


class DoubtIsCommit(ConditionalAppend):
    """A commit without an answer is taken for one."""

    def committed(self, said: Said, took_ms: float = 0.0) -> None:
        super().committed(Said.DONE if said is Said.BROKEN else said, took_ms)


class SameEpoch(ConditionalAppend):
    """The epoch stays, though a commit was asked for twice."""

    def committed(self, said: Said, took_ms: float = 0.0) -> None:
        super().committed(said, took_ms)
        if said is Said.DONE:
            self._must_renew = False


PLANTED: dict[str, tuple[type[ConditionalAppend], type[MemoryPartition], Bounds]] = {
    "the end of the log for E": (EndOfLog, MemoryPartition, Bounds(appends=1, attempts=1)),
    "no check": (NoCheck, MemoryPartition, Bounds(appends=1, attempts=1)),
    "the first record alone": (
        FirstAlone, MemoryPartition, Bounds(appends=1, attempts=1, count=2, plain=1)
    ),
    "an id that is not busy": (ConditionalAppend, NeverBusy, Bounds(attempts=2, plain=1)),
    "doubt is abort": (DoubtIsAbort, MemoryPartition, Bounds(appends=1, attempts=2, faults=1)),
    "doubt is commit": (DoubtIsCommit, MemoryPartition, Bounds(appends=1, attempts=1, faults=1)),
    "the same epoch": (SameEpoch, MemoryPartition, Bounds(attempts=2, faults=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    rule, partition, bounds = PLANTED[name]
    with pytest.raises(BrokenPromiseError, match="by:\n"):
        explore(World.new(bounds, rule, partition))


def test_the_same_worlds_are_sound_without_the_bugs() -> None:
    for bounds in {it for _, _, it in PLANTED.values()} - {it for it, _ in SOUND.values()}:
        explore(World.new(bounds))
