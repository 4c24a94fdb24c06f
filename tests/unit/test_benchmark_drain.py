"""The judge of members that end under full load."""

from __future__ import annotations

from benchmarks.drain import judged
from tests.support.journal import Row

FIRST, NEXT = 1, 2
MS = 1_000_000


def row(offset: int, started_ms: int, run: int = FIRST, key: str = "k") -> Row:
    """A record that took 5 ms."""
    return Row(0, offset, key, started_ms * MS, (started_ms + 5) * MS, str(run), run)


def test_an_end_in_order_loses_and_repeats_nothing() -> None:
    rows = [row(0, 0), row(1, 8, key="other"), row(2, 100, NEXT)]
    found = judged(rows, [(0, 0), (0, 1), (0, 2)], 10 * MS, 60 * MS, 0)
    assert (found.took_s, found.running) == (0.05, 1)
    assert found.is_clean


def test_what_the_next_member_does_again_or_nobody_does_is_found() -> None:
    again = judged([row(0, 0), row(0, 100, NEXT)], [(0, 0)], 10 * MS, 60 * MS, 0)
    missing = judged([row(0, 0)], [(0, 0), (0, 1)], 10 * MS, 60 * MS, 0)
    failed = judged([row(0, 0)], [(0, 0)], 10 * MS, 60 * MS, 143)
    assert again.repeated == 1
    assert missing.lost == 1
    assert not any(it.is_clean for it in (again, missing, failed))
