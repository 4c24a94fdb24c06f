"""The simulation as a test: some seeds.

A violation prints the invariant, the step, the last events and the command that replays it. More
seeds: `python -m tests.simulation --seeds 2000`. A bug that a seed has found gets a unit test of
its own (`tests/unit/test_core_*.py`), because the seed leads elsewhere once the world has changed.
"""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import report
from tests.simulation.world import STEPS_MIN, simulate

SEEDS = range(100)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_invariant_is_broken_under(seed: int) -> None:
    outcome = simulate(seed)
    assert not outcome.violation, report(outcome)
    assert outcome.steps >= STEPS_MIN


@pytest.mark.parametrize("seed", SEEDS[:40])
def test_no_invariant_is_broken_if_handlers_buffer_their_output_under(seed: int) -> None:
    outcome = simulate(seed, buffered=True)
    assert not outcome.violation, report(outcome)


@pytest.mark.parametrize("seed", SEEDS[:40])
def test_outputs_and_progress_are_visible_once_under(seed: int) -> None:
    outcome = simulate(seed, exactly_once=True)
    assert not outcome.violation, report(outcome)
    assert outcome.steps >= STEPS_MIN


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_replays_exactly(seed: int) -> None:
    one, other = simulate(seed, trace=True), simulate(seed, trace=True)
    assert one.events
    assert one == other
