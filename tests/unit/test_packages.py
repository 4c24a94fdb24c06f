"""What the packages say of themselves, and that nobody's warnings keep them from being imported.

`make package` builds and installs them.
"""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

import coop_consumer
from tests.packages.__main__ import INTERNAL, all_extras, found_interpreters, missing_in
from tests.packages.imports import PACKAGES

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REQUIREMENTS = [
    it
    for it in [*PROJECT["dependencies"], *(one for extra in all_extras() for one in EXTRAS[extra])]
    if not it.startswith("coop-consumer")
]
BOUND = {
    "confluent-kafka",
    "kafka-python",
    "mmh3",
    "intervaltree",
    "pyspark",
    "rocksdict",
    "starlette",
}
"""Whose next major release, or what counts as one, may break us."""


def test_the_version_has_one_place() -> None:
    assert "version" not in PROJECT
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "coop_consumer.__version__"
    }
    assert re.fullmatch(r"\d+\.\d+\.\d+", coop_consumer.__version__)


def test_the_readme_of_the_packages_has_absolute_links_to_files_that_are_there() -> None:
    absolute = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")["absolute"]
    shown = absolute(README, PROJECT["urls"]["Repository"])
    links = re.findall(r"\]\(([^)\s]+)\)", shown)
    ours = [link for link in links if link.startswith(PROJECT["urls"]["Repository"])]
    assert len(ours) > 20
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    for link in ours:
        path = link.removeprefix(f"{PROJECT['urls']['Repository']}/blob/main/").partition("#")[0]
        assert (ROOT / path).exists(), link


@pytest.mark.parametrize("minor", range(11, 15))
def test_each_supported_python_is_named(minor: int) -> None:
    assert f"Programming Language :: Python :: 3.{minor}" in PROJECT["classifiers"]


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_a_requirement_has_a_lower_bound_and_an_upper_one_where_we_rest_on_much(
    requirement: str,
) -> None:
    name, bounds = re.match(r"([\w.-]+)(.*)", requirement).groups()  # type: ignore[union-attr]
    assert ">=" in bounds or requirement == "pandas<3"
    assert ("<" in bounds) >= (name in BOUND)


def test_every_module_that_we_import_comes_with_a_requirement_of_ours() -> None:
    """numpy came with pandas, of an extra for tests alone."""
    required = {plain(re.split(r"[<>=;]", it)[0]) for it in REQUIREMENTS}
    homes = packages_distributions()
    strangers = imported() - set(sys.stdlib_module_names) - {*PACKAGES, "pyspark_keyrange"}
    assert len(strangers) > 10
    assert {
        it for it in strangers if not {plain(one) for one in homes.get(it, ())} & required
    } == set()


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported() -> set[str]:
    """The top-level names that our packages import anywhere."""
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    found |= {it.name.partition(".")[0] for it in node.names}
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    found.add(node.module.partition(".")[0])
    return found


def test_the_extra_all_has_every_extra_that_members_and_commands_can_use() -> None:
    [named] = EXTRAS["all"]
    extras = set(named.removeprefix("coop-consumer[").removesuffix("]").split(","))
    assert extras == set(EXTRAS) - {"all", "demo", *INTERNAL}


def test_every_file_beside_the_modules_is_in_the_wheel() -> None:
    """A template that is in the checkout alone would be missed by users, and by no other test."""
    patterns: dict[str, list[str]] = PYPROJECT["tool"]["setuptools"]["package-data"]
    files = [
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    ]
    assert len(files) >= 5
    assert [it for it in files if not is_packaged(it, patterns)] == []
    assert not is_packaged(ROOT / "coop_consumer" / "ops" / "page.css", {"*": ["py.typed"]})


def is_packaged(path: Path, patterns: dict[str, list[str]]) -> bool:
    """Whether setuptools takes a file along with the package in which it lies."""
    home = next(it for it in path.parents if (it / "__init__.py").exists())
    package, inside = ".".join(home.relative_to(ROOT).parts), path.relative_to(home).as_posix()
    return any(fnmatch(inside, it) for it in (*patterns["*"], *patterns.get(package, ())))


def test_a_file_that_an_sdist_lacks_is_found() -> None:
    names = ["coop_consumer-1.0", "coop_consumer-1.0/README.md"]
    assert missing_in(names, ["README.md", "docs/cli.md"]) == ["docs/cli.md"]


def test_an_interpreter_is_found_where_its_command_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyenv has commands for all its versions, and runs those of the chosen one alone."""
    refused, works = tmp_path / "shims", tmp_path / "versions" / "3.13.0" / "bin"
    for folder, code in ((refused, 127), (works, 0)):
        folder.mkdir(parents=True)
        command = folder / "python3.13"
        command.write_text(f"#!/bin/sh\nexit {code}\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(refused))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert found_interpreters() == [str(works / "python3.13")]


def test_everything_can_be_imported_with_warnings_as_errors() -> None:
    """kafka-python has Python 3.11 and 3.12 warn of it."""
    code = "import coop_consumer; [getattr(coop_consumer, it) for it in coop_consumer.__all__]"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr


def test_the_hooks_before_a_commit_are_the_linters_of_make() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    run = {hook["entry"].split()[0] for repo in hooks["repos"] for hook in repo["hooks"]}
    lint = (
        (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    )
    assert run == {f".venv/bin/{tool}" for tool in re.findall(r"\$\(BIN\)/([\w-]+)", lint)}
    # ruff changes files here; what mypy looks at is written out.
    entries = {hook["entry"] for repo in hooks["repos"] for hook in repo["hooks"]}
    typed = re.sub(r"\$\(addprefix --package ,\$\(PACKAGES\)\)", _packages(), lint)
    assert {it for it in entries if "mypy" in it} == {
        line.replace("$(BIN)", ".venv/bin") for line in typed.split("\n\t") if "mypy" in line
    }


def _packages() -> str:
    [names] = re.findall(r"^PACKAGES [:?]?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return " ".join(f"--package {name}" for name in names.split())
