"""The simulation notices planted bugs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.hunt import hunt, hunt_again, simulate_with
from tests.simulation.mutants import named, names
from tests.simulation.world import simulate

WORDS = {
    "caught_up",
    "policy",
    "capacity",
    "rest",
    "I1",
    "I2",
    "I3",
    "I4",
    "I5",
    "I6",
    "I8",
    "I9",
    "I10",
    "stuck",
    "mirror",
    "start",
    "circuit",
    "falls",
    "attempts",
    "pause",
    "answer",
    "plain",
    "load",
}
HOLE = named("forgotten_hole")


@pytest.mark.parametrize("name", names())
def test_a_planted_bug_is_found(name: str) -> None:
    """By the seed that found it last, or, after a change of draws, by one of some others."""
    hunted = hunt_again(named(name), range(200))
    assert hunted.seed is not None, (
        f"{hunted}\nAfter a change of what seeds draw, run\n"
        "  python -m tests.simulation --mutants --remember --seeds 2000"
    )


@pytest.fixture(scope="module")
def seed() -> int:
    """The first seed that finds the forgotten hole."""
    found = hunt(HOLE, range(100))
    assert found.seed is not None, found
    assert found.seeds == found.seed + 1
    return found.seed


def test_a_seed_that_breaks_otherwise_than_the_bug_should_does_not_find_it(seed: int) -> None:
    survived = hunt(replace(HOLE, breaks=("I8",)), [seed])
    assert (survived.seed, survived.seeds) == (None, 1)
    assert f"SURVIVED 1 seeds (but seed {seed}: I2" in str(survived)


def test_a_bug_is_gone_once_its_seed_is_over(seed: int) -> None:
    before = simulate(seed, trace=True)
    assert simulate_with(HOLE, seed).violation
    assert simulate(seed, trace=True) == before


def test_the_docs_tell_of_all_bugs() -> None:
    told = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    for mutant in map(named, names()):
        row = f"| `{mutant.name}` | {mutant.story.rstrip('.')} | {', '.join(mutant.breaks)} |"
        assert row in told, row


def test_there_are_bugs_enough_and_each_says_what_it_breaks() -> None:
    mutants = [named(name) for name in names()]
    assert len(mutants) >= 16
    for mutant in mutants:
        assert mutant.story, mutant.name
        assert mutant.breaks, mutant.name
        assert set(mutant.breaks) <= WORDS, mutant.name
