"""Is every block of README and docs run or marked, and does each command in them exist?"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from coop_consumer.cli.app import app
from tests.packages.__main__ import install_lines
from tests.support.pages import (
    PAGES,
    ROOT,
    RUN,
    SHOWN,
    Block,
    Mark,
    UnknownMarkError,
    blocks_of,
    mark_of,
)

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
REASON_WORDS_MIN = 3
COMMAND = r"(coop-consumer|make|pip|python|export) "
"""How a block begins that a reader would paste. One that shows output begins with `$ `."""


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each call of `coop-consumer` in a block, without the name."""
    text = re.sub(r"\\\n\s*", "", block.text)
    for line in text.splitlines():
        for part in re.split(r"\|(?!\|)|&&|;", line.removeprefix("$ ")):
            if re.match(r"\s*coop-consumer ", part):
                words = shlex.split(part, comments=True)
                yield [word for word in words if word != "&"][1:]


def refusal(words: list[str]) -> str:
    """What is wrong with a command line, apart from its values; "" if nothing is."""
    command: click.Command = app
    context = click.Context(app)
    rest = list(words)
    while isinstance(command, click.Group):
        found = command.get_command(context, rest[0]) if rest else None
        if found is None:
            return f"no command {rest[:1]}"
        command, context = found, click.Context(found, info_name=rest.pop(0), parent=context)
    try:
        given, left, _ = command.make_parser(context).parse_args(rest)
    except click.UsageError as error:
        return error.format_message()
    # What was not given is None, or a word of click's own for that.
    named = {name for name, value in given.items() if value and isinstance(value, str | tuple)}
    missing = [it.name for it in command.params if it.required and it.name not in named]
    return f"too many words: {left}" if left else f"missing: {missing}" if missing else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    for block in blocks_of(page):
        shows = block.language in SHOWN and not re.match(COMMAND, block.text)
        assert block.language in RUN or shows, f"{block}: write sh or python, so that it is run"
        if block.language in RUN:
            reason = block.mark.reason
            assert not reason or len(reason.split()) >= REASON_WORDS_MIN, f"{block}: {reason}"
            is_program = block.mark.until or block.mark.runs_on
            if block.language == "python" and is_program:
                assert block.mark.file, f"{block}: a program that runs on is saved as a file"


def test_the_blocks_were_found() -> None:
    assert sum(block.language in RUN and not block.mark.reason for block in BLOCKS) >= 15
    readme = PAGES[0].read_text(encoding="utf-8")
    begins = re.findall(r"^(?:```\w+|<!-- run first:)$", readme, re.MULTILINE)
    assert len(begins) == len([block for block in BLOCKS if block.page == PAGES[0]])


def test_a_newcomer_may_paste_readme_into_any_shell() -> None:
    """An interactive zsh takes comments for words, unless it is told not to."""
    shown = [block for block in BLOCKS if block.page == PAGES[0] and block.language == "sh"]
    assert shown
    assert [str(block) for block in shown if "#" in block.text] == []


def test_readme_names_no_port_of_a_broker() -> None:
    """The broker that it starts has another one where 9092 is taken: records went to a stranger's.

    Pages of docs, which start none, have `localhost:9092` as an example.
    """
    pasted = [block for block in BLOCKS if block.page == PAGES[0] and block.language in RUN]
    assert [str(it) for it in pasted if re.search(r"(localhost|127\.0\.0\.1):\d", it.text)] == []


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("not run: takes too long", Mark(reason="takes too long")),
        ("prints: 42", Mark(prints="42")),
        ("saved as a.py, runs on", Mark(file="a.py", runs_on=True)),
        ("saved as a.py, runs until it prints: x: y", Mark(file="a.py", until="x: y")),
        ("runs until it prints: up", Mark(until="up")),
    ],
)
def test_a_mark_says_what_is_done_with_a_block(text: str, mark: Mark) -> None:
    assert mark_of(text, "here") == mark


@pytest.mark.parametrize("text", ["skip", "not run", "not run: ", "saved as a.py", "prints:"])
def test_a_comment_that_is_no_mark_is_refused(text: str) -> None:
    with pytest.raises(UnknownMarkError, match="is no mark"):
        mark_of(text, "here")


@pytest.mark.parametrize("block", [block for block in BLOCKS if [*commands(block)]], ids=str)
def test_every_command_of_a_page_exists_with_its_options(block: Block) -> None:
    """Also in blocks that are not run."""
    assert {shlex.join(it): refusal(it) for it in commands(block) if refusal(it)} == {}


@pytest.mark.parametrize(
    "words", ["stauts billing", "topic crate a", "status --wach", "status", "status a b"]
)
def test_a_command_that_does_not_exist_is_found(words: str) -> None:
    assert refusal(words.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_installed_and_made_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"(?:coop-consumer|'\.)\[([\w,]+)\]", text)
    extras = {extra for it in named for extra in it.split(",")}
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    lines = "".join(block.text for block in blocks_of(page))
    made = {
        *re.findall(r"^make ([a-z-]+)", lines, re.MULTILINE),
        *re.findall(r"`make ([a-z-]+)", text),
    }
    assert extras <= set(project["optional-dependencies"])
    assert made <= set(targets)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_installed_is_the_checkout_with_its_extras(page: Path) -> None:
    """No index has the package yet: README began with a line that could find nothing.

    Others' packages come from an index.

    Messages may name `coop-consumer[web]`: for whoever has the package, pip brings the extra alone.
    """
    lines = [it for block in blocks_of(page) for it in block.text.splitlines()]
    installs = [it for it in lines if re.search(r"\bpip install ", it)]
    others = [it for it in installs if not re.search(r"pip install '\.\[[\w,]+\]'", it)]
    assert [it for it in others if re.search(r"coop|\s'?\.", it)] == []


def test_readme_has_one_line_that_installs() -> None:
    """`make package` types it."""
    assert install_lines(PAGES[0]) == ["pip install '.[broker,metrics,web]'"]
