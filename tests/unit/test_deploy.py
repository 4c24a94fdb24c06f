"""Dashboard and alerts: do they name what there is, and does each alert say what to do?"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coop_consumer.ops.metric import MetricKind
from coop_consumer.ops.table import TABLE

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy/grafana/coop-consumer.json").read_text(encoding="utf-8"))
ALERTS = (ROOT / "deploy/prometheus/alerts.yaml").read_text(encoding="utf-8")
ALERT_TESTS = (ROOT / "deploy/prometheus/alerts_test.yaml").read_text(encoding="utf-8")
RUNBOOK = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
NAMES = re.findall(r"alert: (\w+)", ALERTS)


def known() -> set[str]:
    """What a query may name."""
    found = set()
    for row in TABLE.values():
        is_histogram = row.kind is MetricKind.HISTOGRAM
        found |= (
            {f"{row.name}_{it}" for it in ("bucket", "sum", "count")}
            if is_histogram
            else {row.name}
        )
    return found


def panels() -> Iterator[dict[str, Any]]:
    yield from DASHBOARD["panels"]


def queries() -> list[str]:
    return [it["expr"] for panel in panels() for it in panel.get("targets", ())]


@pytest.mark.parametrize("query", queries())
def test_a_panel_asks_only_for_what_the_table_has(query: str) -> None:
    named = set(re.findall(r"\bcoop_\w+", query))

    assert named
    assert named <= known()


def test_alerts_ask_only_for_what_the_table_has() -> None:
    named = set(re.findall(r"\bcoop_\w+", ALERTS))

    assert len(named) > 8
    assert named <= known()


def test_an_exporter_that_sees_nothing_shows_beside_what_needs_a_person() -> None:
    """It leaves the group's other figures out, which looks like calm."""
    rows = [panel["gridPos"]["y"] for panel in panels() if panel["type"] == "row"]
    above = [panel for panel in panels() if panel["gridPos"]["y"] < rows[1] and "targets" in panel]
    asked = " ".join(target["expr"] for panel in above for target in panel["targets"])
    assert {"coop_group_up", "coop_group_look_age_seconds"} <= set(re.findall(r"coop_\w+", asked))


def test_panels_do_not_lie_on_each_other() -> None:
    places: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not cells & places, panel["title"]
        places |= cells
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_links_its_section_and_is_tested(name: str) -> None:
    # As setup.py links the pages that README names: an alert is read far from any checkout.
    page = f"{URLS['Repository']}/blob/main/docs/runbook.md"
    for text in (ALERTS, ALERT_TESTS):
        assert f"runbook_url: {page}#{name.lower()}\n" in text
    assert f"\n### {name}\n" in RUNBOOK
    assert f"alertname: {name}\n" in ALERT_TESTS
    section = RUNBOOK.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
    assert "**How bad.**" in section
    assert "**What to do.**" in section


def test_there_is_an_alert_for_each_kind_of_trouble() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 10
    assert len(re.findall(r"\n### Coop", RUNBOOK)) == len(NAMES)
