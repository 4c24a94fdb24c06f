"""One type name means one thing in the whole tree."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coop_consumer

ROOT = Path(str(coop_consumer.__file__)).parents[1]
PACKAGES = ("assignors", "offsets", "coop_consumer", "streams_adapter")


def types_in(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each class and each alias of a module: its name, and what it means (a class: its line)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, f"class in line {node.lineno}"
    for node in tree.body:
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value):
                text = "" if value is None else ast.unparse(value)
                if re.fullmatch(r"_?[A-Z][a-z]\w*", name) and not text.startswith("TypeVar("):
                    yield name, text


def test_no_type_name_of_the_four_packages_has_two_meanings() -> None:
    meanings: dict[str, dict[str, str]] = defaultdict(dict)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name, text in types_in(ast.parse(path.read_text(encoding="utf-8"))):
                place = str(path.relative_to(ROOT))
                meanings[name][f"{place}: {text}" if text.startswith("class in") else text] = place
    assert len(meanings) > 300, "the packages were not found"
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}
