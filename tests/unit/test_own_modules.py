"""A stranger's module of the name of one of ours is found at import, and named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import offsets
from coop_consumer import own_modules
from coop_consumer.cli.worker import load_worker
from coop_consumer.errors import WorkerImportError

ROOT = Path(own_modules.__file__).parents[1]


def imported(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """A program that is run in a folder, whose modules come first."""
    words = [sys.executable, "-c", program]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.parametrize("name", own_modules.NAMES)
@pytest.mark.parametrize("program", ["import coop_consumer", "import {name}, coop_consumer"])
@pytest.mark.parametrize("is_package", [True, False])
def test_a_module_before_ours_is_told_at_import_with_both_paths(
    tmp_path: Path, name: str, program: str, is_package: bool
) -> None:
    theirs = tmp_path / name / "__init__.py" if is_package else tmp_path / f"{name}.py"
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("TABLE = {}\n", encoding="utf-8")
    told = imported(tmp_path, program.format(name=name)).stderr.splitlines()[-1]
    assert told.startswith(f"ImportError: coop_consumer needs its own module {name} ({ROOT}")
    assert f"but Python finds {theirs} first. Rename that file" in told
    assert f"pip uninstall {name}" in told


def test_without_such_a_module_nothing_is_said(tmp_path: Path) -> None:
    ended = imported(tmp_path, "import coop_consumer, offsets; coop_consumer.WorkerPool")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_module_beside_the_worker_that_ours_would_hide_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "offsets.py").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(WorkerImportError) as caught:
        load_worker("billing:Billing")
    told, own = str(caught.value), offsets.__file__
    assert f"offsets.py has the name of coop-consumer's own module offsets ({own})" in told


def test_in_a_checkout_that_is_not_what_is_installed_nobody_is_told_to_rename_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("assignors", "coop_consumer"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(WorkerImportError, match="a checkout of coop-consumer: work in another one"):
        load_worker("billing:Billing")
