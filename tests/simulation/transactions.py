"""Transactions as brokers see them: epochs, fences, markers that come late, and time-outs.

In: requests of transactional producers. Out: records that are undecided in their logs until the
marker has come there. What is decided reaches one partition after the other. A transaction that is
open for too long is aborted, and its producer fenced. The older protocol: transactions that follow
each other have one epoch, so a late request to end one ends whatever is open by then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from coop_consumer.core.blocked_read import to_fence

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core.blocked_read import RunId
    from coop_consumer.state.shard import Write
    from tests.simulation.flusher import SimEffect, SimLetter
    from tests.simulation.progress_log import Entry
    from tests.simulation.scheduler import Call
    from tests.simulation.world import World


@dataclass(slots=True, eq=False)
class Opened:
    """A transaction.

    Attributes:
        log_partitions: Where it has records.
        effects: What handlers have left behind in it, in its order.
        letters: The dead letters in it.
        writes: Of keyed state, likewise.
        run: Whose it is, as headers of these say.
        changelogs: Where they lie.
        is_over: It is decided; markers may be on their way.
        markers: How many of them.
    """

    log_partitions: set[int] = field(default_factory=set)
    effects: list[SimEffect] = field(default_factory=list)
    letters: list[SimLetter] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    run: RunId | None = None
    changelogs: set[TopicPartition] = field(default_factory=set)
    is_over: bool = False
    was_committed: bool = False
    markers: int = 0


@dataclass(slots=True, eq=False)
class _Producer:
    """A transactional.id, as its coordinator knows it."""

    epoch: int = -1
    last: Opened | None = None
    waiting: list[Call] = field(default_factory=list)

    @property
    def is_busy(self) -> bool:
        """Whether markers of its last transaction are on their way."""
        return self.last is not None and self.last.is_over and self.last.markers > 0

    @property
    def opened(self) -> Opened | None:
        return self.last if self.last is not None and not self.last.is_over else None


class Transactions:
    """The coordinator of all transactions, and the brokers that write their markers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._producers: dict[str, _Producer] = {}

    def _producer(self, id_: str) -> _Producer:
        return self._producers.setdefault(id_, _Producer())

    # ---- requests ------------------------------------------------------------------------------

    def init(self, id_: str, answer: Callable[[int], object]) -> None:
        """InitProducerId: `answer` gets the epoch once nothing of that id is open any more."""
        it = self._producer(id_)
        if it.opened is not None:
            self._end(it, it.opened, commit=False)
        if it.is_busy:
            it.waiting.append(lambda: self.init(id_, answer))
            return
        it.epoch += 1
        answer(it.epoch)

    def fence_absent(self, found: Collection[RunId]) -> None:
        """Fence who is not in the group, as its coordinator says: InitProducerId of their ids."""
        for run in to_fence(found, self._world.runs_in_group()):
            self._world.happened("fence")
            self.init(id_of(run.member, run.incarnation), lambda _: None)

    def add(self, id_: str, epoch: int, told: Callable[[Opened | None], object]) -> None:
        """AddPartitionsToTxn: `told` gets the transaction, begun if need be; None: fenced."""
        it = self._producer(id_)
        if it.is_busy and epoch == it.epoch:
            it.waiting.append(lambda: self.add(id_, epoch, told))
            return
        if epoch != it.epoch:
            told(None)
            return
        if it.opened is None:
            opened = it.last = Opened()
            timeout_ms = self._world.scheduler.rng.choice((600, 1_500, 4_000))
            timeout_ms = self._world.brokers.reach(timeout_ms)
            self._world.scheduler.after(timeout_ms, lambda: self._time_out(it, opened))
        told(it.opened)

    def append(self, opened: Opened, partition: int, entries: Sequence[Entry]) -> list[int] | None:
        """Produce to the progress log; None: it is over."""
        if opened.is_over:
            return None
        opened.log_partitions.add(partition)
        now_ms = self._world.scheduler.now_ms
        return self._world.log.append_undecided(partition, opened, entries, now_ms)

    def end(self, id_: str, epoch: int, *, commit: bool) -> bool:
        """EndTxn. False: fenced, or there is nothing that could be ended so."""
        it = self._producer(id_)
        if epoch != it.epoch:
            return False
        if it.opened is not None:
            self._end(it, it.opened, commit=commit)
            return True
        return it.last is not None and it.last.was_committed is commit

    # ---- how they end --------------------------------------------------------------------------

    def _time_out(self, it: _Producer, opened: Opened) -> None:
        if not opened.is_over:
            self._world.happened("transaction timed out")
            it.epoch += 1
            self._end(it, opened, commit=False)

    def _end(self, it: _Producer, opened: Opened, *, commit: bool) -> None:
        world = self._world
        opened.is_over, opened.was_committed = True, commit
        world.note("txn", "commits" if commit else "aborts", sorted(opened.log_partitions))
        if commit:
            world.checker.outputs.committed(opened.effects, opened.letters)
            if world.keeps_state:
                world.checker.states.committed(opened.effects, opened.writes)
        opened.markers = len(opened.log_partitions) + len(opened.changelogs)
        for partition in sorted(opened.log_partitions):
            self._mark(it, opened, partial(self._decide, opened, partition))
        for tp in sorted(opened.changelogs):
            self._mark(it, opened, partial(world.changelogs.decide, tp, opened))

    def _decide(self, opened: Opened, partition: int) -> None:
        self._world.log.decide(partition, opened, committed=opened.was_committed)

    def _mark(self, it: _Producer, opened: Opened, decide: Call) -> None:
        """Write a marker somewhere, soon."""
        scheduler = self._world.scheduler
        delay_ms = scheduler.between(0, self._world.weather.append_ms)
        delay_ms = self._world.brokers.reach(delay_ms)
        scheduler.after(delay_ms, lambda: self._marked(it, opened, decide))

    def _marked(self, it: _Producer, opened: Opened, decide: Call) -> None:
        decide()
        opened.markers -= 1
        if not opened.markers:
            waiting, it.waiting = it.waiting, []
            for call in waiting:
                call()


def id_of(member: str, incarnation: int) -> str:
    """The transactional.id of a run of a member."""
    return f"{member}-{incarnation}"
