"""Each aim of the page and the exporter is told beside its figure; a missed one is a failure."""

from __future__ import annotations

import pytest

from tests.browser.figures import Figure, asked, told

KEPT = Figure("until the page is painted", "s", 1, [0.3, 0.2, 4.0])
MISSED = Figure("`exporter`, of a core", "%", 10, [10.5])


def test_an_aim_that_is_missed_is_told_and_is_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told([KEPT]) == 0
    assert told([MISSED, KEPT]) == 1
    kept, missed, _ = capsys.readouterr().out.splitlines()
    assert kept == "until the page is painted: 0.30 s (0.20 to 4.00), aim 1 s: kept"
    assert missed == "`exporter`, of a core: 10.50 %, aim 10 %: MISSED"


def test_the_group_has_12_members_and_50_partitions_unless_something_else_is_said() -> None:
    size = asked([])
    assert (size.members, size.partitions, size.runs) == (12, 50, 5)
    assert asked(["--members", "4", "--partitions", "3"]).members == 4
