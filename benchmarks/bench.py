"""One case, system by system: topics, processes, kills, and the broker's share.

In: a broker, cases, who takes part. Out: rows. Runs are interleaved (ours, one peer, the next, ours
again), and each round begins with another system. So a busy machine, or a broker that is not warm
yet, hits all alike. Each run is a group of its own.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from uuid import uuid4

from benchmarks import topics
from benchmarks.case import Case
from benchmarks.children import Children, StuckError
from benchmarks.figures import Figures, Run, figures
from benchmarks.job import Job
from benchmarks.kills import Killer
from benchmarks.peers.errors import PeerMissingError
from benchmarks.processes import cpu_s
from benchmarks.row_files import RowFiles
from benchmarks.rows import JsonRow, missing, row_of, with_ratios
from benchmarks.systems import System
from tests.support.journal import Place

LIMIT_S = 60.0
"""A run that takes longer is stopped, and judged by what it has handled."""
LONG_S = 25.0
"""A system whose run takes longer is not run again: the next case waits."""


@dataclass(frozen=True, slots=True)
class Broker:
    """Where to measure: the address, and the processes, if they are ours."""

    bootstrap: str
    pids: tuple[int, ...] = ()

    def cpu_s(self) -> float | None:
        """What its processes have used so far; None: they are not ours."""
        if not self.pids:
            return None
        return sum(map(cpu_s, self.pids))


@dataclass(slots=True)
class Entry:
    """A system in a case: its runs so far, or why there are no more."""

    system: System
    found: list[Figures] = field(default_factory=list)
    reason: str = ""

    def row(self, case: Case) -> JsonRow:
        """What came of it."""
        if not self.found:
            is_unfit = bool(self.system.unfit(case))
            return missing(case, self.system.name, self.reason, is_unfit=is_unfit)
        told: dict[str, object] = {
            "keeps_order": self.system.keeps_order,
            "version": self.system.told_version(),
        }
        if self.reason:
            told["failed"] = self.reason
        return row_of(case, self.system.name, self.found, **told)


def measured(broker: Broker, case: Case, systems: Sequence[System], runs: int) -> list[JsonRow]:
    """All rows of a case."""
    entries = [Entry(system, reason=reason_against(system, case)) for system in systems]
    topic = "" if case.joins_before else filled(broker, case)
    for number in range(runs):
        turns = deque(entries)
        turns.rotate(-number)
        for entry in turns:
            if entry.reason or any(it.seconds > LONG_S for it in entry.found):
                continue
            try:
                run = run_once(broker, case, entry.system, topic, seed=number)
            except (StuckError, PeerMissingError) as error:
                entry.reason = str(error)
                print(f"{case.name} {entry.system.name}: {error}", file=sys.stderr)
                continue
            entry.found.append(figures(case, run))
            print(_line(case, entry), file=sys.stderr)
    return with_ratios([entry.row(case) for entry in entries])


def reason_against(system: System, case: Case) -> str:
    """Why it cannot take part, or ""; builds what has to be built."""
    if reason := system.unfit(case):
        return reason
    try:
        system.told_version()
    except PeerMissingError as error:
        return str(error)
    return ""


def filled(broker: Broker, case: Case, headers: Sequence[tuple[str, bytes]] = ()) -> str:
    """A topic with all records of a case; each has these headers."""
    topic = topics.made(broker.bootstrap, case.partitions)
    topics.fill(broker.bootstrap, topic, case.record_keys(), headers=headers)
    return topic


def run_once(broker: Broker, case: Case, system: System, topic: str, seed: int) -> Run:
    """One run, in processes of its own.

    Args:
        broker: Where.
        case: What.
        system: Who.
        topic: With all records; "": they are produced once the group is complete.
        seed: Of the kills.

    Raises:
        StuckError: It does not go on, or fell.
    """
    topic = topic or topics.made(broker.bootstrap, case.partitions)
    outputs = topics.made(broker.bootstrap, case.partitions) if case.sends else ""
    with TemporaryDirectory(prefix="coop-bench-") as name, Children(Path(name)) as children:
        folder = Path(name)
        commands = [
            system.command(job)
            for job in jobs(broker, case, system, topic, folder, outputs=outputs)
        ]
        for command in commands:
            children.start(command)
        before_s = broker.cpu_s()
        went_ns = children.go()
        until_s = time.monotonic() + LIMIT_S
        made_ns = produce_now(broker, case, topic, children)
        files = RowFiles(folder)
        killer = Killer(case, children, files, Random(seed))
        is_done = killer.run(until_s) if case.kills else wait_for_all(case, children, until_s)
        reports = children.stop()
        after_s = broker.cpu_s()
        files.read()
        judged = is_judged(case, system)
        return Run(
            is_judged=judged,
            rows=files.rows,
            reports=reports,
            went_ns=went_ns,
            produced=frozenset(places_of(broker, topic, case)) if judged else frozenset(),
            cpu_broker_s=None if before_s is None or after_s is None else after_s - before_s,
            made_ns=made_ns,
            killed=killer.killed,
            fallen=children.fallen,
            was_stopped=not is_done,
            outputs=topics.sent(broker.bootstrap, outputs, case.partitions) if outputs else None,
        )


def is_judged(case: Case, system: System) -> bool:
    """Whether the rows of all records are noted."""
    return case.is_judged and system.handles


def jobs(
    broker: Broker, case: Case, system: System, topic: str, folder: Path, *, outputs: str
) -> Iterator[Job]:
    """One for each process."""
    group = f"bench-{uuid4().hex[:8]}"
    processes = system.processes(case)
    by_itself = processes == 1 and not case.joins_before and not case.kills
    for number in range(processes):
        yield Job(
            system=system.name,
            bootstrap=broker.bootstrap,
            topic=topic,
            group=group,
            work=case.work,
            work_ms=case.work_ms,
            special_ms=case.special_ms,
            width=max(1, case.width // processes),
            ends_at=case.records if by_itself else 0,
            journal=str(folder) if is_judged(case, system) else "",
            at_once=case.kills > 0 or (case.work == "burn"),
            instance=f"m{number}" if case.kills else "",
            outputs=outputs,
            interval_ms=case.interval_ms,
            held=case.held,
        )


def produce_now(broker: Broker, case: Case, topic: str, children: Children) -> dict[Place, int]:
    """Where the group is complete first: wait for that, and produce; when each record was made."""
    if not case.joins_before:
        return {}
    children.wait(lambda: all(child.has_joined for child in children.all))
    if case.rate:
        return topics.feed(broker.bootstrap, topic, case)
    topics.fill(broker.bootstrap, topic, case.record_keys())
    return {}


def wait_for_all(case: Case, children: Children, until_s: float) -> bool:
    """Wait until all records are handled; False: they are not within the limit."""
    return children.wait_until(
        lambda: children.handled >= case.records or all(it.report for it in children.all), until_s
    )


def places_of(broker: Broker, topic: str, case: Case) -> Iterator[Place]:
    """Where all records of the topic lie."""
    for partition, end in enumerate(topics.ends(broker.bootstrap, topic, case.partitions)):
        yield from ((partition, offset) for offset in range(end))


def _line(case: Case, entry: Entry) -> str:
    it = entry.found[-1]
    efficiency = "" if it.efficiency is None else f", efficiency {it.efficiency:.3f}"
    return (
        f"{case.name} {case.point}{' ' if case.point else ''}{entry.system.name}: "
        f"{it.seconds:.3f} s{efficiency}, first record after {it.first_record_s:.2f} s, "
        f"{it.lost} lost, {it.out_of_order} out of order, {it.repeated} again, {it.special}"
    )
