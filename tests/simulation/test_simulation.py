"""The simulation as a test: some seeds, and seeds that once failed, each with its story.

A violation prints the invariant, the step, the last events and the command that replays it. More
seeds: `python -m tests.simulation --seeds 2000`. What a story tells is also a unit test of its own
(`tests/unit/test_core_*.py`), because a seed leads elsewhere once the world has changed.
"""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import report
from tests.simulation.world import simulate

SEEDS = range(40)

STORIES = {
    6: "a plain group's offset began one epoch after the other, for ever",
    1249: "a release under way was no claim: a third member began without it",
    1901: "a sleeping lead took an old offset beside a new log for a foreign decision",
    3035: "an evicted owner's late first record hid a parked record from people",
    3136: "what a drained hash had finished was never told by its new owner",
    5088: "a range came back to its owner before the log had the owner's own release",
    50600: "a closing member lowered the mirror, and the owner never looked again",
}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_invariant_is_broken_under(seed: int) -> None:
    outcome = simulate(seed)
    assert not outcome.violation, report(outcome)


@pytest.mark.parametrize("seed", STORIES)
def test_what_once_broke_holds_now(seed: int) -> None:
    outcome = simulate(seed)
    assert not outcome.violation, f"once: {STORIES[seed]}\n{report(outcome)}"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_replays_exactly(seed: int) -> None:
    one, other = simulate(seed, trace=True), simulate(seed, trace=True)
    assert one.events
    assert one == other
