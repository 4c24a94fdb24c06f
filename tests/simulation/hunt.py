"""The hunt for mutants: each is planted, and seeds are run until one shows it.

In: mutants, seeds. Out: for each mutant the seed that found it and the broken invariant, or how
many seeds it survived. The hunt begins with the seed that found the mutant last. There are as many
processes as cores.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import pytest

from tests.simulation.mutants import Mutant
from tests.simulation.world import Outcome, simulate


@dataclass(frozen=True, slots=True)
class Hunted:
    """What became of a mutant.

    Attributes:
        seeds: How many seeds were run.
        seed: The seed that found it; None: it survived.
        violation: What that seed broke; for a survivor, a violation that does not count.
    """

    name: str
    seeds: int
    seed: int | None
    violation: str

    def __str__(self) -> str:
        what = self.violation.partition("\n")[0]
        if self.seed is None:
            return f"{self.name}: SURVIVED {self.seeds} seeds {what:.150}".rstrip()
        return f"{self.name}: found by seed {self.seed}, the {self.seeds}. run: {what:.150}"


def simulate_with(mutant: Mutant, seed: int, *, trace: bool = False) -> Outcome:
    """Run one seed while the mutant is planted."""
    with pytest.MonkeyPatch.context() as patch:
        mutant.plant(patch)
        return _simulate(mutant, seed, trace=trace)


def _simulate(mutant: Mutant, seed: int, *, trace: bool = False) -> Outcome:
    return simulate(seed, buffered=mutant.buffered, exactly_once=mutant.exactly_once, trace=trace)


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Hunted:
    """Run seeds until one breaks the mutant's invariant with the mutant only."""
    run, other = 0, ""
    for run, seed in enumerate(seeds, 1):
        violation = simulate_with(mutant, seed).violation
        word = violation.partition(":")[0]
        if word in mutant.breaks and not _simulate(mutant, seed).violation:
            return Hunted(mutant.name, run, seed, violation)
        other = other or (violation and f"(but seed {seed}: {violation})")
    return Hunted(mutant.name, run, None, other)


def hunt_again(mutant: Mutant, seeds: Sequence[int]) -> Hunted:
    """Hunt, beginning with the seed that found the mutant last."""
    return hunt(mutant, [mutant.seed, *seeds])


def hunt_all(mutants: Iterable[Mutant], seeds: Sequence[int]) -> Iterator[Hunted]:
    """Hunt many mutants, on all cores; results come in their order."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as processes:
        yield from processes.map(partial(hunt_again, seeds=seeds), mutants)
