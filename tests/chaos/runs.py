"""Runs of faults, one after the other, and the table of what came of them.

In: faults, seeds. Out: an `Outcome` a run, a line a fault. A run that breaks a promise, or stops a
key for long, leaves its folder behind: what every member wrote and logged, and the story of what
was done to them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from random import Random
from tempfile import mkdtemp

from confluent_kafka import KafkaException

from coop_consumer.broker import BrokerStartError
from tests.chaos.arena import Arena, arena
from tests.chaos.checker import Verdict
from tests.chaos.faults import Fault
from tests.chaos.fleet import Ended, StuckError
from tests.chaos.once import OnceScene
from tests.chaos.scene import Scene

TROUBLES = (StuckError, AssertionError, KafkaException, BrokerStartError)
"""What a run may end with: the group is stuck, or the brokers do not come back."""

LONG_STOP_S = 45.0
"""No fault should stop a key for longer: what happened is kept, for whoever wants to know why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one run.

    Attributes:
        verdict: None if the run got stuck before there was something to judge.
        stuck: What did not happen, or nothing.
        ended: Members that ended by themselves.
        kills: How many processes were ended by kill -9.
        folder: Where everything lies, if `is_told`.
    """

    fault: Fault
    seed: int
    verdict: Verdict | None
    stuck: str
    ended: tuple[Ended, ...]
    kills: int
    folder: Path

    @property
    def is_good(self) -> bool:
        return (
            self.verdict is not None
            and self.verdict.is_clean
            and not any(it.had_joined for it in self.ended)
        )

    @property
    def is_convicted(self) -> bool:
        """Whether what the run left breaks a promise."""
        return self.verdict is not None and not self.verdict.is_clean

    @property
    def is_told(self) -> bool:
        """Whether somebody should read what happened."""
        return not self.is_good or stopped_long(self.verdict)

    def __str__(self) -> str:
        told = [] if self.verdict is None else told_of(self.verdict)
        told += [f"{self.kills} killed"] if self.kills else []
        told += [f"STUCK: {self.stuck}"] if self.stuck else []
        told += [f"{it.name} ended with {it.error.partition(':')[0]}" for it in self.ended]
        told += [f"see {self.folder}"] if self.is_told else []
        return f"{self.fault.name}, seed {self.seed}: " + "; ".join(told)


def told_of(found: Verdict) -> list[str]:
    """The figures of a verdict."""
    told = [
        f"{found.records} records",
        f"{len(found.lost)} lost",
        f"{len(found.out_of_order)} out of order",
        f"{found.repeated} repeated, {len(found.needless)} needlessly",
        f"longest stop {found.longest_stop_s:.1f} s",
    ]
    if (outputs := found.outputs) is not None:
        told += [
            f"{outputs.outputs} outputs",
            f"{len(outputs.duplicates)} duplicates",
            f"{len(outputs.missing)} missing",
            f"{len(outputs.out_of_order)} outputs out of order",
            f"{len(outputs.wrong)} wrong",
            f"{len(outputs.of_zombies)} of zombies",
            f"transactions {dict(sorted(outputs.transactions.items()))}",
            f"seen after {outputs.longest_stop_s:.1f} s at most",
        ]
    return told


def run(arena: Arena, fault: Fault, seed: int, *, mutant: str = "", once: bool = False) -> Outcome:
    """One run of a fault; the same seed makes the same choices."""
    slug = re.sub(r"[^a-z0-9]+", "-", fault.name.lower()).strip("-")
    folder = Path(mkdtemp(prefix=f"coop-chaos-{slug}-{seed}-"))
    scene = (OnceScene if once else Scene)(
        arena,
        slug,
        Random(f"{fault.name}:{seed}"),
        folder,
        mutant=mutant,
        executor=fault.executor,
        hot=fault.hot,
    )
    verdict, stuck = None, ""
    with scene:
        try:
            fault.muster(scene)
            scene.warm_up()
            fault.strike(scene)
            scene.go_on(100, 300)
            verdict = scene.finish(loses_progress=fault.loses_progress)
        except TROUBLES as error:
            stuck = str(error)
            scene.fleet.explain()
            scene.tell(f"STUCK: {stuck}")
            with suppress(*TROUBLES):  # brokers may be what is stuck
                for it in arena.undecided(*scene.topics):
                    scene.tell(it)
    outcome = Outcome(fault, seed, verdict, stuck, tuple(scene.fleet.ended), scene.kills, folder)
    if outcome.is_told:
        write_story(scene, verdict, folder)
    else:
        shutil.rmtree(folder)
    return outcome


def run_all(
    faults: Sequence[Fault], seeds: Iterable[int], *, mutant: str = "", once: bool = False
) -> Iterator[Outcome]:
    """Every fault with every seed. Faults share their brokers, until a run got stuck on them."""
    every = [(fault, seed) for fault in faults for seed in seeds]
    for nodes, same in groupby(every, key=lambda it: it[0].nodes_for(once=once)):
        with ExitStack() as brokers:
            place = brokers.enter_context(arena(nodes, once=once))
            for fault, seed in same:
                outcome = run(place, fault, seed, mutant=mutant, once=once)
                yield outcome
                if outcome.stuck:
                    brokers.close()
                    place = brokers.enter_context(arena(nodes, once=once))


def stopped_long(verdict: Verdict | None) -> bool:
    """Whether a key stopped for longer than any fault should make it."""
    return verdict is not None and verdict.longest_stop_s > LONG_STOP_S


def write_story(scene: Scene, verdict: Verdict | None, folder: Path) -> None:
    told = [*scene.story]
    told += [f"{it.name} ended, exit code {it.exit_code}: {it.error}" for it in scene.fleet.ended]
    if verdict is not None:
        told += [f"lost: {place}" for place in verdict.lost]
        told += [f"out of order: {breach}" for breach in verdict.out_of_order]
        told += [f"needless: {repeat}" for repeat in verdict.needless]
        if (outputs := verdict.outputs) is not None:
            told += [f"output again: {it}" for it in outputs.duplicates]
            told += [f"output missing: {it}" for it in outputs.missing]
            told += [f"output out of order: {it}" for it in outputs.out_of_order]
            told += [f"wrong: {it}" for it in outputs.wrong]
            told += [f"of a zombie: {it}" for it in outputs.of_zombies]
            if outputs.slowest is not None:
                place, made_ns = outputs.slowest
                told.append(
                    f"output seen last: of partition {place[0]}, offset {place[1]}, made at "
                    f"{scene.at_s(made_ns):.2f} s, {outputs.longest_stop_s:.2f} s later"
                )
        if verdict.slowest is not None:
            place, made_ns = verdict.slowest
            taken_ns = scene.load.acknowledged_ns.get(place)
            told.append(
                f"longest stop: partition {place[0]}, offset {place[1]}, made at "
                f"{scene.at_s(made_ns):.2f} s, "
                + (f"acknowledged at {scene.at_s(taken_ns):.2f} s, " if taken_ns else "")
                + f"processed {verdict.longest_stop_s:.2f} s after it was made"
            )
    (folder / "story.txt").write_text("\n".join(told) + "\n")


def table(outcomes: Sequence[Outcome]) -> str:
    """A line a fault: runs, lost, out of order, repeated, longest stop, and what else happened."""
    titles = (
        "fault", "runs", "kills", "records", "lost", "out of order", "repeated", "needless",
        "longest stop", "ended", "stuck",
    )  # fmt: skip
    return _lines(
        outcomes,
        titles,
        lambda verdicts: (
            str(sum(it.records for it in verdicts)),
            str(sum(len(it.lost) for it in verdicts)),
            str(sum(len(it.out_of_order) for it in verdicts)),
            str(sum(it.repeated for it in verdicts)),
            str(sum(len(it.needless) for it in verdicts)),
            f"{max((it.longest_stop_s for it in verdicts), default=0):.1f} s",
        ),
    )


def table_of_outputs(outcomes: Sequence[Outcome]) -> str:
    """A line a fault: what came of outputs, and what else happened."""
    titles = (
        "fault", "runs", "kills", "outputs", "duplicates", "missing", "out of order", "wrong",
        "of zombies", "in doubt", "longest stop", "broken", "ended", "stuck",
    )  # fmt: skip

    def cells(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
        found = [it.outputs for it in verdicts if it.outputs is not None]
        broken = sum(len(it.lost) + len(it.out_of_order) + len(it.needless) for it in verdicts)
        return (
            str(sum(it.outputs for it in found)),
            str(sum(len(it.duplicates) for it in found)),
            str(sum(len(it.missing) for it in found)),
            str(sum(len(it.out_of_order) for it in found)),
            str(sum(len(it.wrong) for it in found)),
            str(sum(len(it.of_zombies) for it in found)),
            str(sum(it.in_doubt for it in found)),
            f"{max((it.longest_stop_s for it in found), default=0):.1f} s",
            str(broken),
        )

    return _lines(outcomes, titles, cells)


def _lines(
    outcomes: Sequence[Outcome],
    titles: tuple[str, ...],
    cells: Callable[[Sequence[Verdict]], tuple[str, ...]],
) -> str:
    lines = [titles]
    for fault in dict.fromkeys(outcome.fault for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.fault is fault]
        lines.append(
            (
                fault.name,
                str(len(own)),
                str(sum(it.kills for it in own)),
                *cells([it.verdict for it in own if it.verdict is not None]),
                str(sum(len(it.ended) for it in own)),
                str(sum(bool(it.stuck) for it in own)),
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
