"""What errors tell people to do: read off every place that raises one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import coop_consumer
from coop_consumer.errors import AuthorizationError, BrokerUnreachableError, ForeignProtocolError

ROOM = Path(coop_consumer.__file__).parent
REMEDY_AT = {"MisuseError": 2, "ConfigError": 2, "ProgressTopicError": 2, "ChangelogError": 2}
POINTLESS = re.compile(
    r"\bthem here\b|\bsuch ones?\b|^(Let|Encode|Set|Give) it$|the other$|one that (is|does)$"
)


def remedies() -> Iterator[tuple[str, str]]:
    """Each remedy that is said in one piece, with its place."""
    for path in sorted(ROOM.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            at = REMEDY_AT.get(node.func.id)
            if at is None or len(node.args) <= at:
                continue
            remedy = node.args[at]
            if isinstance(remedy, ast.Constant) and isinstance(remedy.value, str):
                yield f"{path.relative_to(ROOM)}:{node.lineno}", remedy.value


def test_a_remedy_names_what_it_is_about() -> None:
    told = dict(remedies())
    assert len(told) > 40
    short = {
        at: text for at, text in told.items() if len(text.split()) < 3 and not set("=[") & set(text)
    }
    pointless = {at: text for at, text in told.items() if POINTLESS.search(text)}
    assert short | pointless == {}


def test_a_refused_login_is_corrected_not_granted() -> None:
    text = str(AuthorizationError("cluster b:9092", "authenticate", "alice"))
    assert text.startswith("cluster b:9092: the broker refused to authenticate user alice.")
    assert "Correct the login (sasl.mechanism, sasl.username and sasl.password" in text
    assert "Grant" not in text


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("b:9092", "bootstrap.servers=b:9092: no broker"),
        ("b:9092, c:9092", "bootstrap.servers=b:9092, c:9092: no broker"),
        ("group billing", "group billing: no broker"),
    ],
)
def test_a_broker_that_does_not_answer_is_named_by_its_place(where: str, told: str) -> None:
    assert str(BrokerUnreachableError(where, "silent")).startswith(told)


def test_who_assigns_by_himself_is_not_told_to_stop_plain_members() -> None:
    text = str(ForeignProtocolError("g", "it has members", "Stop the members"))
    assert "plain members" not in text
    assert text.endswith("Stop the members.")


# -- what is counted -------------------------------------------------------------------------------

NOUNS = (
    r"records|partitions|members|workers|keys(?! $)|groups|times|lines|results|slots|slices|outputs"
)
COUNTED = re.compile(rf" (more |other |unfinished |parked )?({NOUNS})\b")
PRINTED = re.compile(rf"%d (more |other )?({NOUNS})\b")
LARGE = {"errors.py", "demo/run.py", "core/hot.py", "core/lane.py", "core/load.py"}
"""Here numbers of records are those of whole topics or of bounds, or only a defect is told."""


def counts_by_hand(text: str) -> list[str]:
    """The places of a module where a number stands before a plural, whatever the number is."""
    found, tree = [], ast.parse(text)
    chosen = [it for it in ast.walk(tree) if isinstance(it, ast.IfExp)]
    apart = {it.orelse for it in chosen if ast.unparse(it.test).endswith(" == 1")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [f"{node.lineno}: {it[0]}" for it in PRINTED.finditer(node.value)]
        if not isinstance(node, ast.JoinedStr) or node in apart:
            continue
        for value, behind in pairwise(node.values):
            if not (isinstance(value, ast.FormattedValue) and isinstance(behind, ast.Constant)):
                continue
            said, noun = ast.unparse(value.value), COUNTED.match(str(behind.value))
            is_whole = value.format_spec is None or ast.unparse(value.format_spec) == "f','"
            if noun and is_whole and not said.isupper() and "counted(" not in said:
                found.append(f"{node.lineno}: {said}{noun[0]}")
    return found


def test_a_number_is_counted_by_the_function_that_knows_one_from_several() -> None:
    found = {}
    for path in sorted(ROOM.rglob("*.py")):
        name = path.relative_to(ROOM).as_posix()
        if name not in LARGE:
            found[name] = counts_by_hand(path.read_text(encoding="utf-8"))
    assert len(found) > 100
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_count_by_hand_is_found() -> None:
    assert counts_by_hand('f"{len(it)} more records wait"') == ["1: len(it) more records"]
    assert counts_by_hand('log.info("%d workers now", n)') == ["1: %d workers"]
    for fine in (
        'f"{WORKERS_MAX} workers at most, {counted(n, word)} there"',
        '"once" if n == 1 else f"{n} times"',
        'f"{ratio:.1f} times as fast"',
        'f"{tp} keys {ranges}"',
    ):
        assert counts_by_hand(fine) == []
