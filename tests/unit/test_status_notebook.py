"""A status in a notebook."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.unit.test_status_picture import PARKED, PARTITION, STATUS

HOSTILE = b"<img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, _: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_notebook_shows_the_picture_of_the_terminal() -> None:
    shown = STATUS._repr_html_()
    assert shown is not None
    page = Tags(shown)
    assert page.tags == {"pre", "code", "span"}
    assert "orders-1" in page.text
    assert "1 record parked" in page.text
    assert "coop-consumer retry" in page.text


def test_what_comes_from_records_stays_text() -> None:
    holder = replace(PARKED, key=HOSTILE, error="<script>alert(2)</script>")
    partition = replace(PARTITION, holder=holder, failed=(holder,))
    shown = replace(STATUS, partitions=(partition,))._repr_html_()
    assert shown is not None
    page = Tags(shown)
    assert page.tags == {"pre", "code", "span"}
    assert HOSTILE.decode() in page.text


def test_nothing_is_printed_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert STATUS._repr_html_()
    assert capsys.readouterr() == ("", "")


def test_without_rich_a_notebook_shows_the_value_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coop_consumer.status.model.find_spec", lambda _: None)
    assert STATUS._repr_html_() is None
