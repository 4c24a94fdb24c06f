"""Do ARCHITECTURE and CONTRIBUTING name what there is, and nothing else?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coop_consumer.ops.page.needs import NeedKind
from tests.support.links import anchors_in, leads_somewhere, links_of
from tests.support.pages import PAGES

ROOT = Path(__file__).parents[2]
OTHERS = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def modules(room: str) -> set[str]:
    return {path.stem for path in (ROOT / room).glob("*.py")} - {"__init__"}


def named(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", text))


def damage_in(text: str) -> list[str]:
    """Lines that a merge has torn from what belongs around them."""
    found, before, is_fenced = [], "", False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        elif not is_fenced and (
            line.startswith("$ ") or (before and re.match("#+ ", line) is not None)
        ):
            found.append(line)
        before = line.strip()
    return found


@pytest.mark.parametrize("room", ["core", "member"])
def test_architecture_names_every_module_of_a_room(room: str) -> None:
    assert modules(f"coop_consumer/{room}") <= named(ARCHITECTURE)


def test_architecture_names_no_module_of_the_core_that_is_not_there() -> None:
    inside = ARCHITECTURE.partition("### Inside `core/`")[2].partition("\n## ")[0]

    assert named(inside) - {"status", "latest"} <= modules("coop_consumer/core")


def test_architecture_names_every_thread_and_no_other_one() -> None:
    sources = [
        path.read_text(encoding="utf-8")
        for package in ("coop_consumer", "streams_adapter")
        for path in (ROOT / package).rglob("*.py")
    ]
    made = {
        name.rstrip("-")
        for text in sources
        for name in re.findall(r'(?:name ?= ?f?|_THREADS, )"(coop-[a-z-]+)', text)
        + re.findall(r'f"(coop-[a-z]+)-\{(?:self\._)?config\.group_id\}"', text)
    }
    made.discard("coop-consumer")
    told = {name.rstrip("-") for name in re.findall(r"`(coop-[a-z-]+)", ARCHITECTURE)}
    told.discard("coop-consumer")

    assert told == made


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda path: path.name)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert [link for link in links_of(page) if not leads_somewhere(page, link)] == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    page = ROOT / "README.md"

    assert leads_somewhere(page, "docs/cli.md#exit-codes")
    assert leads_somewhere(page, "#use-it")
    assert not leads_somewhere(page, "docs/cli.md#no-such-heading")
    assert not leads_somewhere(page, "docs/no-such-page.md")


def test_an_anchor_is_made_as_a_site_for_code_makes_it() -> None:
    page = "# A `code` word, and 2^63\n```\n# no heading\n```\n## Twice\n## Twice\n"

    assert anchors_in(page) == {"a-code-word-and-263", "twice", "twice-1"}


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda path: path.name)
def test_no_heading_is_glued_to_a_paragraph_and_no_terminal_stands_outside_a_fence(
    page: Path,
) -> None:
    assert damage_in(page.read_text(encoding="utf-8")) == []


def test_a_block_that_has_lost_its_fence_is_found() -> None:
    assert damage_in("text\n\n## Two\n\n```\n# a comment\n$ ls\n```\n") == []
    assert damage_in("text\n## Two\n\n$ ls\n") == ["## Two", "$ ls"]


def test_every_page_of_docs_is_named_in_the_readme_or_by_one_that_is() -> None:
    named, waiting = {ROOT / "README.md"}, [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        files = {(page.parent / link.partition("#")[0]).resolve() for link in links_of(page)}
        new = {it for it in files if it.suffix == ".md" and it.is_file()} - named
        named |= new
        waiting += new
    decisions = ROOT / "docs" / "decisions"

    assert [it for it in PAGES if it not in named and it.parent != decisions] == []


def test_the_page_tells_every_kind_of_what_needs_a_person() -> None:
    text = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")
    table = text.partition("| kind | means |")[2].partition("\n\n")[0]
    kinds = re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE)
    assert sorted(kinds) == sorted(kind.replace("_", " ") for kind in NeedKind)


def test_every_module_that_tests_share_has_its_line() -> None:
    lines = set(re.findall(r"^\| `([a-z_]+)` \|", CONTRIBUTING, flags=re.MULTILINE))

    assert lines == modules("tests/support")


def test_every_picture_of_the_page_is_taken_by_a_script() -> None:
    script = (ROOT / "tests" / "browser" / "pictures.py").read_text(encoding="utf-8")
    taken = {f"page-{name}.png" for name in re.findall(r"\btake\(\"(\w+)\"", script)}
    assert taken == {path.name for path in (ROOT / "docs" / "images").glob("page-*.png")}


GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
TRIALS = sorted(set(re.findall(r"`(tests/[^`]+)`", GUARANTEES)))


@pytest.mark.parametrize("trial", TRIALS)
def test_a_trial_that_guarantees_names_is_there(trial: str) -> None:
    path, _, name = trial.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^def {name or 'test_'}", text, re.MULTILINE), trial


def test_every_row_of_guarantees_names_its_trial() -> None:
    """But for the modes, which are no failures."""
    headers = re.findall(r"^(\|.*)\n\|---", GUARANTEES, re.MULTILINE)
    assert sum("tried by" in it for it in headers) == len(headers) - 1 >= 6
    rows = GUARANTEES.partition("## Processes")[2].partition("## What nobody promises")[0]
    cells = [it.strip("| ").rpartition("|")[2] for it in rows.splitlines() if it.startswith("|")]
    assert [
        it for it in cells if not re.search("tests/|chaos|the simulation|tried by|---", it)
    ] == []
