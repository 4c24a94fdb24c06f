"""Do ARCHITECTURE and CONTRIBUTING name what there is, and nothing else?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def modules(room: str) -> set[str]:
    return {path.stem for path in (ROOT / room).glob("*.py")} - {"__init__"}


def named(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", text))


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


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda path: path.name)
def test_every_page_that_a_page_links_to_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+\.(?:md|py))", page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_module_that_tests_share_has_its_line() -> None:
    lines = set(re.findall(r"^\| `([a-z_]+)` \|", CONTRIBUTING, flags=re.MULTILINE))

    assert lines == modules("tests/support")
