"""The benchmark of logs: each way gives the same figures, and says what was lost."""

from __future__ import annotations

import pytest

from benchmarks import logs
from benchmarks.rows import is_broken

pytestmark = pytest.mark.integration


def test_each_way_has_the_same_figures_and_loses_nothing(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LOAD", 3_000)
    found = [
        logs._alone(bootstrap, 3, 2),
        logs._unchecked(bootstrap, 3, 2),
        logs._loaded(bootstrap),
        logs._unchecked_load(bootstrap),
    ]
    assert len({tuple(it) for it in found}) == 1
    assert [it["lost"] for it in found] == [0, 0, 0, 0]
    assert all(it["records_a_second"] > it["appends_a_second"] for it in found)


def test_a_lost_update_breaks_the_row() -> None:
    row = {"case": "logs", "system": "ours", "figures": {"lost": 1}}
    assert is_broken(row)
    assert not is_broken({**row, "figures": {"lost": 0}})
