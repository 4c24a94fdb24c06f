"""`python -m tests.packages`: builds sdist and wheel, checks them, and installs the wheel afresh.

In: interpreters, by default each of 3.11 to 3.14 that is found; extras, by default all. Out:
`dist/`, a line for each step, and exit code 1 if one has failed:

    build     an sdist, and a wheel of it
    twine     the metadata, and README as an index would show it
    contents  the wheel has the packages and nothing else; the sdist has every file of the checkout
    install   for each interpreter, bare and with each extra: pip's own check, and an import of
              every module with warnings as errors
    readme    README's own line, typed in the checkout (not with --bare)

It needs the extra `package`, and a registry for the dependencies.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
MINORS = range(11, 15)
SHOWN_MAX = 3_000
"""Characters of what a failed command has said; its end tells why."""
INTERNAL = ("bench", "package", "test")
"""Extras for whoever changes this project. They bring tools, and no module of ours needs them."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packages", description=__doc__)
    parser.add_argument("--python", action="append", default=[], help="an interpreter; repeatable")
    parser.add_argument("--extra", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--bare", action="store_true", help="install without extras only")
    asked = parser.parse_args(arguments)
    interpreters = asked.python or found_interpreters()
    extras = [] if asked.bare else asked.extra or all_extras()
    with TemporaryDirectory(prefix="coop-dist-") as folder:
        try:
            wheel = built(Path(folder))
        except subprocess.CalledProcessError as error:
            tell(f"FAILED: {' '.join(error.cmd)}\n{error.stdout[-SHOWN_MAX:]}")
            return 1
        failed = [
            f"{interpreter} [{extra}]"
            for interpreter in interpreters
            for extra in ("", *extras)
            if not installed(interpreter, wheel, extra)
        ]
    if not asked.bare:
        failed += [f"{it} as in README" for it in interpreters if not installed_as_in_readme(it)]
    if failed:
        tell(f"FAILED: {', '.join(failed)}")
    return int(bool(failed))


def built(folder: Path) -> Path:
    """Build both, check them, and put them into `dist/` as well; returns the wheel.

    Raises:
        CalledProcessError: A tool says no.
        AssertionError: The sdist lacks a file.
    """
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel))
    run(sys.executable, "-m", "check_wheel_contents", str(wheel))
    with tarfile.open(sdist) as archive:
        missing = missing_in(archive.getnames(), tracked())
    assert not missing, f"{sdist.name} lacks {missing}"
    tell(f"{sdist.name} ({size_kb(sdist)} kB) has all files of the checkout")
    tell(f"{wheel.name} ({size_kb(wheel)} kB)")
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(folder, DIST)
    return wheel


def missing_in(names: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """The files that an sdist lacks; its own names begin with a folder."""
    there = {name.partition("/")[2] for name in names}
    return sorted(set(wanted) - there)


def tracked() -> list[str]:
    """The files of the checkout."""
    return run("git", "-C", str(ROOT), "ls-files").splitlines()


def installed(interpreter: str, wheel: Path, extra: str) -> bool:
    """Install the wheel into a fresh environment and import all of it; whether that went well."""
    name = f"coop-consumer[{extra}]" if extra else "coop-consumer"
    with TemporaryDirectory(prefix="coop-package-") as folder:
        python = str(Path(folder) / "bin" / "python")
        try:
            run(interpreter, "-m", "venv", folder)
            given = f"{name} @ {wheel.as_uri()}"
            run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", given)
            run(python, "-m", "pip", "check")
            script = str(Path(__file__).with_name("imports.py"))
            said = run(python, "-I", "-W", "error", script)
        except subprocess.CalledProcessError as error:
            tell(f"{interpreter} {name}: FAILED\n{error.stdout[-SHOWN_MAX:]}")
            return False
    tell(f"{interpreter} {name}: {said.strip()}")
    return True


def installed_as_in_readme(interpreter: str) -> bool:
    """Type README's line in a fresh environment; whether the commands then work.

    The checkout is what the sdist has, so nothing is built in this one.
    """
    with TemporaryDirectory(prefix="coop-readme-") as folder:
        environment, [sdist] = Path(folder) / "environment", DIST.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        [checkout] = Path(folder).glob("coop_consumer-*")
        [line] = install_lines(checkout / "README.md")
        try:
            run(interpreter, "-m", "venv", str(environment))
            run(str(environment / "bin" / "python"), "-m", *shlex.split(line), cwd=checkout)
            said = run(str(environment / "bin" / "coop-consumer"), "--version")
        except subprocess.CalledProcessError as error:
            tell(f"{interpreter} {line}: FAILED\n{error.stdout[-SHOWN_MAX:]}")
            return False
    tell(f"{interpreter} {line}: {said.strip()}")
    return True


def install_lines(page: Path) -> list[str]:
    """The lines of a page that install something."""
    return re.findall(r"^pip install .*", page.read_text(encoding="utf-8"), re.MULTILINE)


def all_extras() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [extra for extra in project["optional-dependencies"] if extra not in INTERNAL]


def found_interpreters() -> list[str]:
    """One of this machine that works for each version, if there is one."""
    named = [f"python3.{minor}" for minor in MINORS]
    found = [next(filter(works, places_of(name)), None) for name in named]
    return [it for it in found if it] or [sys.executable]


def places_of(name: str) -> Iterator[str]:
    """Where an interpreter may be. pyenv has versions that its own commands refuse to run."""
    if on_path := shutil.which(name):
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    yield from sorted(map(str, pyenv.glob(f"versions/*/bin/{name}")))


def works(interpreter: str) -> bool:
    told = subprocess.run([interpreter, "-c", ""], capture_output=True, check=False)
    return told.returncode == 0


def size_kb(path: Path) -> int:
    return path.stat().st_size // 1_000


def run(*words: str, cwd: Path | None = None) -> str:
    """Run a command, in a folder; returns what it said.

    Raises:
        CalledProcessError: It failed.
    """
    ran = subprocess.run(
        words, cwd=cwd, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if ran.returncode:
        raise subprocess.CalledProcessError(ran.returncode, words, ran.stdout)
    return ran.stdout


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
