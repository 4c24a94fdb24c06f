"""`.ci/run` says which of its steps a machine has nothing for, and what apt has said to that."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def outcome(folder: Path, **programs: str) -> tuple[int, str]:
    """The exit code and output of a run on a machine that has these programs alone: shell lines."""
    for name, line in programs.items():
        program = folder / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
    for name in ("bash", "dirname", "tail"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    done = subprocess.run(
        [folder / "bash", ROOT / ".ci" / "run"],
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def table(output: str) -> dict[str, str]:
    """Step → outcome, of the lines behind the last empty one."""
    lines = output.rpartition("\n\n")[2].splitlines()
    return {line.split()[-1]: line.split()[0] for line in lines}


def test_a_step_whose_package_is_not_there_is_absent_and_no_failure(tmp_path: Path) -> None:
    code, output = outcome(
        tmp_path, make="exit 0", promtool="exit 0", apt_get="echo E: no network; exit 100"
    )
    assert code == 0
    assert table(output) == {
        "set-up": "ok",
        "prometheus": "ok",
        "browser": "absent",
        "linters": "ok",
        "package": "ok",
        "tests": "ok",
    }
    assert "E: no network\nno chromium chromium-driver: tests/browser skips\n" in output


@pytest.mark.parametrize("apt", ["exit 0", "exit 100"])
def test_what_fails_is_a_failure_whatever_is_absent(tmp_path: Path, apt: str) -> None:
    code, output = outcome(tmp_path, make='test "$1" != lint', apt_get=apt)
    assert code == 1
    found = table(output)
    assert (found["linters"], found["tests"]) == ("FAILED", "ok")
    assert found["prometheus"] == found["browser"] == ("ok" if apt == "exit 0" else "absent")
