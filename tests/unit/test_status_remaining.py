"""How many records are left: each that arrives adds one, so what was done can be told apart."""

from __future__ import annotations

import pytest

from assignors import WHOLE
from coop_consumer.status.remaining import remaining
from offsets import RangeProgress

PARTS = WHOLE.parts(3)


@pytest.mark.parametrize(
    "shares",
    [
        {},
        {PARTS[0].lo: 0.1},
        {PARTS[0].lo: 0.1, PARTS[1].lo: 0.7},
        {PARTS[0].lo: 0.8, PARTS[2].hi: 0.9},
    ],
    ids=["even", "a heavy key", "two", "measured above 1 in sum"],
)
def test_each_record_that_arrives_is_one_more_that_is_left(shares: dict[int, float]) -> None:
    pieces = [RangeProgress(part, 100) for part in PARTS]
    done = {end - remaining(pieces, end, shares).records for end in range(101, 5_000)}

    assert done == {100}
