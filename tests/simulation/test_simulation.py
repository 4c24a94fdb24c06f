"""The simulation as a test: some seeds at random-looking numbers, and seeds that once failed.

A violation prints the invariant, the step, the last events and the command that replays it. More
seeds: `python -m tests.simulation --seeds 2000`.
"""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import report
from tests.simulation.world import simulate

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_invariant_is_broken_under(seed: int) -> None:
    outcome = simulate(seed)
    assert not outcome.violation, report(outcome)


def test_a_seed_replays_exactly() -> None:
    one, other = simulate(1, trace=True), simulate(1, trace=True)
    assert one.events == other.events
