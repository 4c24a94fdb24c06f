"""What errors tell people to do: read off every place that raises one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
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
