"""The Dockerfile and the unit of systemd: do they name what there is, and nothing that cannot be?

No Docker engine takes part. `systemd-analyze` reads the unit, where the machine has it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from coop_consumer.config import Config
from coop_consumer.config.addresses import is_loopback
from coop_consumer.errors import ExitCode
from tests.support.manifests import manifests
from tests.support.systemd_unit import UNIT, settings, start_of_unit
from tests.unit.test_pages import refusal

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy" / "docker"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NEEDS_A_PERSON = {
    *(ExitCode.USAGE, ExitCode.UNAUTHORIZED, ExitCode.STOPPED),
    *(ExitCode.MISSING, ExitCode.CONFLICT, ExitCode.DISK_FULL),
}
ROOM_S = 10
HADOLINT = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, each with its words on one line."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    whole = re.sub(r"\\\n\s*", " ", lines)
    return [
        (name, words.strip())
        for name, _, words in (line.partition(" ") for line in whole.splitlines() if line)
    ]


DOCKERFILE = instructions((DOCKER / "Dockerfile").read_text(encoding="utf-8"))


def last(name: str) -> str:
    """The words of the last such instruction, which is that of the image."""
    return [words for it, words in DOCKERFILE if it == name][-1]


# ---- the image -----------------------------------------------------------------------------------


def test_the_image_is_slim_and_its_process_1_is_an_init_that_reaps() -> None:
    assert re.fullmatch(r"python:\$\{PYTHON\}-slim-\w+", last("FROM"))
    assert last("ENTRYPOINT") == '["tini", "--"]'
    assert any(it == "RUN" and "install" in words and "tini" in words for it, words in DOCKERFILE)


def test_the_image_runs_as_the_user_of_the_manifests_and_not_as_root() -> None:
    names = [it for it, _ in DOCKERFILE]
    user = last("USER")
    pods = [it.pod["spec"]["securityContext"] for it in manifests() if it.pod]
    assert not {"RUN", "COPY"} & set(names[names.index("USER") :])
    assert {f"{it['runAsUser']}:{it['runAsGroup']}" for it in pods} == {user}
    assert {it["fsGroup"] for it in pods} == {int(user.partition(":")[0])}
    assert not user.startswith("0")


def test_the_image_has_extras_that_exist_and_a_python_that_is_supported() -> None:
    given = dict(words.split("=", 1) for it, words in DOCKERFILE if it == "ARG")
    supported = f"Programming Language :: Python :: {given['PYTHON']}"
    assert set(given["EXTRAS"].split(",")) < set(PROJECT["project"]["optional-dependencies"])
    assert supported in PROJECT["project"]["classifiers"]


def test_all_that_the_package_is_made_of_reaches_the_build() -> None:
    ignored = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    let_in = {line[1:] for line in ignored.splitlines() if line.startswith("!")}
    packages = {
        it.rstrip("*") for it in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    }
    folders = {it for it in packages if (ROOT / it).is_dir()}
    assert len(folders) >= 4
    assert let_in == {*folders, "LICENSE", "README.md", "pyproject.toml", "setup.py"}


def test_a_command_of_the_image_exists() -> None:
    words = re.findall(r'"([^"]+)"', last("CMD"))
    assert words == ["coop-consumer", "--help"]


@pytest.mark.skipif(HADOLINT is None, reason="needs hadolint")
def test_a_linter_of_dockerfiles_finds_nothing() -> None:
    assert HADOLINT is not None
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    assert hadolint(HADOLINT, text) == ""
    assert "DL3002" in hadolint(HADOLINT, f"{text}USER root\n")


def hadolint(program: str, text: str) -> str:
    """What it says of a Dockerfile."""
    ran = subprocess.run([program, "-"], input=text, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


# ---- the unit ------------------------------------------------------------------------------------


def test_the_unit_starts_a_command_that_exists() -> None:
    program, *words = start_of_unit()
    assert Path(program).name == "coop-consumer"
    assert refusal(words) == ""


def test_a_member_of_the_unit_has_metrics_and_probes_and_a_log_for_programs() -> None:
    """And what pip installs as the page says suffices for these."""
    words = start_of_unit()
    assert is_loopback(words[words.index("--ops") + 1].rpartition(":")[0])
    assert words[words.index("--log-format") + 1] == "json"
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    [extras] = re.findall(r"/pip install '\.\[([\w,]+)\]'", page)
    assert set(extras.split(",")) == {"cli", "log", "metrics", "web"}


def test_the_unit_writes_only_where_systemd_lets_it() -> None:
    given = settings("Service")
    assert re.findall(r"/var/lib/(\S+)", given["ExecStart"]) == [given["StateDirectory"]]
    assert given["ProtectSystem"] == "strict"
    assert given["User"] not in {"root", "0"}


def test_the_unit_gives_handlers_their_time_and_leaves_to_a_person_what_needs_one() -> None:
    given = settings("Service")
    config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})
    assert int(given["TimeoutStopSec"]) * 1_000 >= config.max_processing_ms + ROOM_S * 1_000
    assert {int(code) for code in given["RestartPreventExitStatus"].split()} == NEEDS_A_PERSON
    assert given["KillMode"] == "mixed"  # the worker process gets its signal from its parent, once


def test_the_page_makes_all_that_the_unit_needs() -> None:
    """A unit whose working directory or file of variables is missing does not start."""
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    block = page.partition("\n## systemd\n")[2].partition("```sh\n")[2].partition("```")[0]
    given = {name: it.replace("%i", "billing") for name, it in settings("Service").items()}
    program, *words = given["ExecStart"].split()
    made = re.findall(r"^install .* (\S+)$", block, re.MULTILINE)
    assert f"{given['WorkingDirectory']}/billing.py" in made
    assert words[words.index("--config-file") + 1] in made
    assert f"> {given['EnvironmentFile']}\n" in block
    assert f"{Path(program).parent}/pip install" in block
    assert f"useradd --system --user-group {given['User']}\n" in block
    assert given["User"] == given["Group"]
    assert f"cp deploy/systemd/{UNIT.name} " in block


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    assert analyzed(tmp_path, UNIT.read_text(encoding="utf-8")) == ""
    assert "KillMod" in analyzed(tmp_path, UNIT.read_text().replace("KillMode", "KillMod"))


def analyzed(folder: Path, text: str) -> str:
    """What systemd says of the unit with a command that this machine has."""
    unit = folder / "coop-consumer@billing.service"
    unit.write_text(text.replace("/opt/coop-consumer/bin/coop-consumer", sys.executable))
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (ran.stdout + ran.stderr).splitlines()
    return "\n".join(line for line in lines if "coop-consumer" in line)
