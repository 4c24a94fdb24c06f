"""The table of metrics: does each row say what an operator needs, and does anything differ?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coop_consumer.core.histogram import Durations
from coop_consumer.ops.metric import Metric, MetricKind, MetricSection
from coop_consumer.ops.reference import metrics_page
from coop_consumer.ops.samples import member_samples
from coop_consumer.ops.table import TABLE, rows_in
from tests.unit.full_metrics import full_metrics

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
ROWS = list(TABLE.values())


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == metrics_page(), (
        "renew it: python -m coop_consumer.ops.reference > docs/metrics.md"
    )


def test_every_row_of_a_table_has_as_many_cells_as_its_header() -> None:
    width = 0
    for line in metrics_page().splitlines():
        cells = line.count("|") if line.startswith("|") else 0
        assert not (width and cells) or cells == width, line
        width = cells


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_says_what_it_is_when_it_is_bad_and_what_to_do(row: Metric) -> None:
    assert re.fullmatch(r"coop_[a-z0-9_]+", row.name)
    assert row.name.endswith("_total") == (row.kind is MetricKind.COUNTER)
    for text in (row.meaning, row.bad, row.remedy):
        assert text.endswith(".")
        assert len(text.split()) > 1
    if row.kind is MetricKind.HISTOGRAM:
        assert row.name.endswith(f"_{row.unit}")
    if row.unit in {"seconds", "bytes"}:
        assert row.unit in row.name


IMPERATIVES = {
    *("Allow", "Ask", "Compare", "Do", "Have", "Judge", "Look", "Raise", "Read", "Run", "See"),
    *("Set", "Start", "Upgrade"),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_to_do_begins_with_a_verb_that_says_so_or_is_nothing(row: Metric) -> None:
    assert row.remedy.split()[0] in IMPERATIVES or row.remedy.startswith("Nothing; ")
    assert row.remedy.startswith("Nothing; ") == (row.bad == "Never by itself.")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_label_has_a_key_an_offset_or_a_members_name(row: Metric) -> None:
    known = {
        *("group", "topic", "partition", "reason", "state", "bound", "outcome", "step", "where"),
        *("client", "version"),
    }
    more = {"member"} if row.name == "coop_member_info" else set()

    assert set(row.labels) <= known | more
    assert row.labels[0] == "group"


def test_every_row_of_a_member_has_a_sample_and_every_sample_a_row() -> None:
    samples = list(member_samples(full_metrics()))
    of_members = {row.name for it in MetricSection for row in rows_in(it)} - {
        row.name for row in rows_in(MetricSection.GROUP)
    }

    assert {sample.name for sample in samples} == of_members
    for sample in samples:
        row = TABLE[sample.name]
        assert len(sample.labels) == len(row.labels)
        assert isinstance(sample.value, Durations) == (row.kind is MetricKind.HISTOGRAM)


def test_no_two_samples_have_the_same_name_and_labels() -> None:
    places = [(sample.name, sample.labels) for sample in member_samples(full_metrics())]

    assert len(places) == len(set(places))
