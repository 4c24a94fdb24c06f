"""How much of what a member says of its load counts: near to its share, however far it is off."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from assignors.counted import near_to_their_shares

LIES = [0, 1, 10**6, 10**18, 10**30, 10**90]


def counted_beside(lie: int, capacities: Sequence[int]) -> list[int]:
    """What counts if the first member lies, and each other one says what it should find."""
    said = {0: lie} | {i: 10**15 * capacities[i] for i in range(1, len(capacities))}
    near = near_to_their_shares(said, capacities)
    return [near[i] for i in range(len(capacities))]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 8, 11, 12, 13, 40, 200])
def test_a_lie_of_any_size_changes_what_others_are_due_by_ten_percent_at_most(
    count: int, lie: int
) -> None:
    own, *others = counted_beside(lie, [1] * count)
    honest = sum(others) / (count - 1)
    assert 0.9 <= (own + sum(others)) / count / honest <= 1.1000001
    assert max(others) - min(others) == 0


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("seed", range(20))
def test_so_it_does_beside_members_of_any_capacities(seed: int, lie: int) -> None:
    rng = random.Random(seed)
    capacities = [rng.choice([1, 2, 4, 16, 1_000]) for _ in range(rng.randint(2, 15))]
    own, *others = counted_beside(lie, capacities)
    honest = sum(others) / sum(capacities[1:])
    assert 0.9 <= (own + sum(others)) / sum(capacities) / honest <= 1.1000001


def test_who_is_near_to_its_share_is_believed() -> None:
    said = {0: 10**9, 1: 10**9 + 10**8, 2: 10**9 - 10**8}
    assert near_to_their_shares(said, [1, 1, 1]) == said


@pytest.mark.parametrize("others", [0, 1])
def test_beside_members_that_have_nothing_to_do_there_is_still_an_answer(others: int) -> None:
    near = near_to_their_shares({0: 10**15} | dict.fromkeys(range(1, 13), others), [1] * 13)
    assert near[0] > 0
    assert all(0 <= near[i] <= near[0] for i in range(1, 13))
