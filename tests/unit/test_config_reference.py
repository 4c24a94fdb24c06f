"""Is the page on configuration the one that the table makes?"""

from __future__ import annotations

from pathlib import Path

from coop_consumer.config.librdkafka import ALIASES, DECIDED, PASSED, REFUSED
from coop_consumer.config.reference import markdown
from coop_consumer.config.settings import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), (
        "renew it: python -m coop_consumer.config.reference > docs/configuration.md"
    )


def test_the_page_tells_every_name() -> None:
    page = markdown()

    for name in (*SETTINGS, *PASSED, *ALIASES, *DECIDED, *REFUSED):
        assert f"`{name}`" in page


def test_every_row_of_a_table_has_as_many_cells_as_its_header() -> None:
    width = 0
    for line in markdown().splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = line.count("|")
        width = width or cells
        assert cells == width, line
