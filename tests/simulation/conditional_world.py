"""All interleavings of conditional appends: two publishers and a stranger on a log in memory.

In: what each may do, and how many faults there may be. Out: every state that can be reached, each
checked; of a broken promise the steps that lead there. The rules are those that run on Kafka
(`coop_consumer.logs.conditional`), and so is what the log in memory makes hard: markers that come
late, an id that is busy until they are written, epochs, answers that get lost, requests that come
late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from coop_consumer.core.transaction import Said
from coop_consumer.logs.conditional import AppendCall, AppendEnd, ConditionalAppend
from coop_consumer.logs.memory_log import (
    Fate,
    MemoryClient,
    MemoryPartition,
    Phase,
    StoredRecord,
)
from coop_consumer.logs.port import Landed
from coop_consumer.logs.records import APPEND_HEADER, NewRecord
from tests.simulation.never_busy import NeverBusy

STRANGER = "stranger"


class BrokenPromiseError(AssertionError):
    """What was promised does not hold."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is explored.

    Attributes:
        appends: Of each publisher.
        attempts: How often a publisher may produce.
        count: Records of an append.
        plain: Records that the stranger writes outside of transactions.
        transactions: Transactions of the stranger, with one record each.
        faults: Lost answers, late requests and fences, in one run.
    """

    appends: int = 2
    attempts: int = 3
    count: int = 1
    plain: int = 0
    transactions: int = 0
    faults: int = 0


class Append(NamedTuple):
    """An append of a publisher, as its records tell it."""

    publisher: int
    number: int
    expected: int


@dataclass(slots=True)
class Publisher:
    """One publisher: its rule, its client, and what it was promised."""

    name: int
    rule: ConditionalAppend
    client: MemoryClient
    known: int = -1
    begun: int = 0
    attempts: int = 0
    first_at: int = -1  # of a first batch, while the second one is on its way
    promised: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()

    def copied(self, partition: MemoryPartition) -> Publisher:
        client = MemoryClient(partition, self.client.writer)
        client.epoch = self.client.epoch
        return replace(self, rule=copied(self.rule), client=client)

    @property
    def key(self) -> tuple[Any, ...]:
        it = self.rule
        told = tuple(getattr(it, name) for name in type(it).__slots__ if name != "_chance")
        known = self.client.epoch, self.known, self.begun, self.attempts, self.first_at
        return *told, *known, self.promised, self.refused

    @property
    def append(self) -> Append:
        return Append(self.name, self.begun, self.rule.expected)


def copied(rule: ConditionalAppend) -> ConditionalAppend:
    it = object.__new__(type(rule))
    for name in ConditionalAppend.__slots__:
        setattr(it, name, getattr(rule, name))
    return it


class Step(NamedTuple):
    """What may happen next."""

    name: str
    do: Callable[[World], None]
    faults: int = 0


@dataclass(slots=True)
class World:
    """One state."""

    bounds: Bounds
    partition: MemoryPartition
    publishers: list[Publisher]
    plain: int = 0
    transactions: int = 0
    faults: int = 0
    late: tuple[tuple[str, int], ...] = ()  # commits on their way: writer and epoch
    path: tuple[Any, ...] = field(default=())

    @classmethod
    def new(
        cls,
        bounds: Bounds,
        rule: type[ConditionalAppend] = ConditionalAppend,
        partition: type[MemoryPartition] = MemoryPartition,
    ) -> Self:
        log = partition(late_markers=True)
        publishers = [
            Publisher(n, rule(lambda: 0.0, fence_after_ms=0.0), MemoryClient(log, f"p{n}"))
            for n in range(2)
        ]
        world = cls(bounds, log, publishers)
        for it in publishers:
            world.go_on(it)
        return world

    def copied(self) -> World:
        partition = self.partition.copied()
        publishers = [it.copied(partition) for it in self.publishers]
        return replace(self, partition=partition, publishers=publishers)

    @property
    def key(self) -> tuple[Any, ...]:
        log = self.partition
        return (
            tuple(log.stored), tuple(sorted(log.writers.items())),
            *(it.key for it in self.publishers),
            self.plain, self.transactions, self.faults, self.late,
        )  # fmt: skip

    # ---- what may happen -----------------------------------------------------------------------

    def steps(self) -> Iterator[Step]:
        log, bounds = self.partition, self.bounds
        for it in self.publishers:
            yield from self._steps_of(it)
        for writer in log.writers:
            if log.has_marker(writer) if isinstance(log, NeverBusy) else log.is_busy(writer):
                yield Step(f"marker of {writer}", lambda w, of=writer: w.partition.write_marker(of))
        for late in self.late:
            yield Step(f"late commit of {late}", lambda w, it=late: w.come_late(it))
        if self.plain < bounds.plain:
            yield Step("plain record", World.write_plainly)
        phase = log.state_of(STRANGER).phase
        if phase is Phase.OPEN:
            for is_commit in (True, False):
                yield Step(
                    f"stranger ends, {is_commit=}",
                    lambda w, it=is_commit: w.partition.decide(STRANGER, 0, is_commit=it),
                )
        elif phase is Phase.IDLE and self.transactions < bounds.transactions:
            yield Step("stranger begins", World.begin_transaction)

    def write_plainly(self) -> None:
        self.plain += 1
        self.partition.append_plainly(NewRecord(None, None))

    def begin_transaction(self) -> None:
        self.transactions += 1
        self.partition.add(
            STRANGER, self.partition.state_of(STRANGER).epoch, [NewRecord(None, None)]
        )

    def come_late(self, late: tuple[str, int]) -> None:
        left = list(self.late)
        left.remove(late)
        self.late = tuple(left)
        self.partition.decide(*late, is_commit=True)

    def _steps_of(self, it: Publisher) -> Iterator[Step]:
        n, call = it.name, it.rule.next
        match call:
            case None:
                return
            case AppendCall.READ:
                yield self._step(n, call, lambda p: p.rule.read(p.client.read(p.rule.expected)))
            case AppendCall.RENEW:
                yield self._step(n, call, lambda p: p.rule.renewed(p.client.renew()))
            case AppendCall.PRODUCE:
                is_free = it.first_at >= 0 or not self.partition.is_busy(it.client.writer)
                if is_free and (it.first_at >= 0 or it.attempts < self.bounds.attempts):
                    yield self._step(n, call, produce)
                    yield self._step(n, "PRODUCE, not acknowledged", produce_in_vain, faults=1)
            case AppendCall.COMMIT:
                yield self._step(n, call, lambda p: p.rule.committed(p.client.commit()))
                for said in (Said.AGAIN, Said.BROKEN):
                    for arrives in ("now", "never", "late"):
                        yield self._commit_without_answer(n, said, arrives)
            case AppendCall.ABORT:
                yield self._step(n, call, lambda p: p.rule.aborted(p.client.abort()))
                yield self._step(n, "ABORT, lost", lambda p: p.rule.aborted(Said.BROKEN), faults=1)
            case AppendCall.FENCE:
                yield self._step(n, "FENCE, nobody found", lambda p: p.rule.fenced(False))
                yield self._step(n, call, fence, faults=1)
            case AppendCall.PAUSE:
                yield self._step(n, call, lambda p: p.rule.paused())

    def _step(
        self,
        number: int,
        name: AppendCall | str,
        do: Callable[[Publisher], object],
        faults: int = 0,
    ) -> Step:
        def run(world: World) -> None:
            publisher = world.publishers[number]
            do(publisher)
            world.go_on(publisher)

        text = name if isinstance(name, str) else name.name
        return Step(f"p{number} {text}", run, faults)

    def _commit_without_answer(self, number: int, said: Said, arrives: str) -> Step:
        def run(world: World) -> None:
            it = world.publishers[number]
            if arrives == "now":
                it.client.commit()
            elif arrives == "late":
                world.late = tuple(sorted([*world.late, (it.client.writer, it.client.epoch)]))
            it.rule.committed(said)
            world.go_on(it)

        return Step(f"p{number} COMMIT, {said.name}, arrives {arrives}", run, 1)

    def go_on(self, it: Publisher) -> None:
        """What follows without a choice: pauses, the end of an append, the next one."""
        rule = it.rule
        rule._losses = 0
        if rule.next is AppendCall.PAUSE:
            rule.paused()
        if rule.next is not None:
            return
        if rule.end is AppendEnd.APPENDED:
            self._check_promise(it)
            it.promised = (*it.promised, it.begun)
            it.known = rule.appended
        elif rule.end is AppendEnd.CONFLICT:
            if rule.found <= rule.expected:
                raise BrokenPromiseError(f"a conflict without another record: {it.append}")
            it.refused = (*it.refused, it.begun)
            it.known = rule.found
        elif rule.end is not None:
            raise BrokenPromiseError(f"{it.append} has ended as {rule.end.name}")
        if it.begun < self.bounds.appends:
            it.begun += 1
            rule.begin(it.known, self.bounds.count, b"%d.%d" % (it.name, it.begun))

    # ---- what must hold ------------------------------------------------------------------------

    def _check_promise(self, it: Publisher) -> None:
        log, offset = self.partition, it.rule.appended
        stored = log.stored[offset]
        if append_of(stored) != it.append:
            raise BrokenPromiseError(f"{it.append} was promised at {offset}, where {stored} lies")
        is_decided = (
            log.is_committing(stored.writer)
            if isinstance(log, NeverBusy)
            else (log.state_of(stored.writer).phase is Phase.COMMITTING)
        )
        if stored.fate is not Fate.VISIBLE and not is_decided:
            raise BrokenPromiseError(f"{it.append} was promised, and is {stored.fate.name}")

    def check(self) -> None:
        """See that each visible append follows the record that it expects, and is there once."""
        last, seen = -1, set()
        for offset, it in enumerate(self.partition.stored):
            if it.fate is not Fate.VISIBLE:
                continue
            append = append_of(it)
            if append is not None and append != append_of(self.partition.stored[last]):
                if append.expected != last:
                    raise BrokenPromiseError(f"{append} at {offset} lies behind {last}")
                if append in seen:
                    raise BrokenPromiseError(f"{append} is there twice")
                if append.number in self.publishers[append.publisher].refused:
                    raise BrokenPromiseError(f"{append} is there, and was refused")
                seen.add(append)
            last = offset


def append_of(stored: StoredRecord) -> Append | None:
    """Whose record it is; None: a stranger's, or a marker."""
    record = stored.record
    return (
        None if record is None or record.value is None else Append(*map(int, record.value.split()))
    )


def records_of(it: Publisher, count: int) -> list[NewRecord]:
    value = b"%d %d %d" % it.append
    first = NewRecord(None, value, ((APPEND_HEADER, b"%d.%d" % (it.name, it.begun)),))
    return [first, *[NewRecord(None, value)] * (count - 1)]


def produce(it: Publisher) -> None:
    """Each record is a batch of its own, so that others may come between the two of an append."""
    records = records_of(it, it.rule._count)
    if it.first_at < 0:
        it.attempts += 1
        landed = it.client.produce(records[:1])
        if landed.said is Said.DONE and len(records) > 1:
            it.first_at = landed.first
        else:
            it.rule.produced(landed)
    else:
        first, it.first_at = it.first_at, -1
        it.rule.produced(it.client.produce(records[1:])._replace(first=first))


def produce_in_vain(it: Publisher) -> None:
    it.attempts += it.first_at < 0
    it.first_at = -1
    it.client.produce(records_of(it, it.rule._count)[:1])
    it.rule.produced(Landed(Said.REFUSED))


def fence(it: Publisher) -> None:
    it.rule.fenced(it.client.end_blocker(it.rule.blocked_at))
