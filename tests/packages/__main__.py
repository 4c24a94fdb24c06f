"""`python -m tests.packages`: builds sdist and wheel, checks them, and installs the wheel afresh.

In: interpreters, extras. Out: `dist/`, a line for each step, and exit code 1 if one has failed:

    build     an sdist, and a wheel of it
    twine     the metadata, and README as an index would show it
    contents  the wheel has the packages and nothing else; the sdist has every file of the checkout
    install   for each interpreter, bare and with each extra: pip's own check, and an import of
              every module with warnings as errors

It needs the extra `package`, and a registry for the dependencies.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
MINORS = range(11, 15)
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
    built()
    failed = [
        f"{interpreter} [{extra}]"
        for interpreter in interpreters
        for extra in ("", *extras)
        if not installed(interpreter, extra)
    ]
    if failed:
        tell(f"FAILED: {', '.join(failed)}")
    return int(bool(failed))


def built() -> None:
    """Build both, and check them.

    Raises:
        CalledProcessError: A tool says no.
        AssertionError: The sdist lacks a file.
    """
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    sdist, wheel = the_one("*.tar.gz"), the_one("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel))
    run(sys.executable, "-m", "check_wheel_contents", str(wheel))
    with tarfile.open(sdist) as archive:
        missing = missing_in(archive.getnames(), tracked())
    assert not missing, f"{sdist.name} lacks {missing}"
    tell(f"{sdist.name} ({size_kb(sdist)} kB) has all files of the checkout")
    tell(f"{wheel.name} ({size_kb(wheel)} kB)")


def missing_in(names: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """The files that an sdist lacks; its own names begin with a folder.

    >>> missing_in(["coop_consumer-1.0/README.md"], ["README.md", "docs/cli.md"])
    ['docs/cli.md']
    """
    there = {name.partition("/")[2] for name in names}
    return sorted(set(wanted) - there)


def tracked() -> list[str]:
    """The files of the checkout."""
    return run("git", "-C", str(ROOT), "ls-files", quiet=True).splitlines()


def installed(interpreter: str, extra: str) -> bool:
    """Install the wheel into a fresh environment and import all of it; whether that went well."""
    wheel = f"coop-consumer[{extra}]" if extra else "coop-consumer"
    with TemporaryDirectory(prefix="coop-package-") as folder:
        python = str(Path(folder) / "bin" / "python")
        try:
            run(interpreter, "-m", "venv", folder)
            given = f"{wheel} @ {the_one('*.whl').as_uri()}"
            run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", given)
            run(python, "-m", "pip", "check", quiet=True)
            script = str(Path(__file__).with_name("imports.py"))
            said = run(python, "-I", "-W", "error", script, quiet=True)
        except subprocess.CalledProcessError as error:
            tell(f"{interpreter} {wheel}: FAILED\n{error.stdout}")
            return False
    tell(f"{interpreter} {wheel}: {said.strip()}")
    return True


def all_extras() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [extra for extra in project["optional-dependencies"] if extra not in INTERNAL]


def found_interpreters() -> list[str]:
    """Those of this machine that work."""
    named = [shutil.which(f"python3.{minor}") for minor in MINORS]
    found = [it for it in named if it and works(it)]
    return found or [sys.executable]


def works(interpreter: str) -> bool:
    told = subprocess.run([interpreter, "-c", ""], capture_output=True, check=False)
    return told.returncode == 0


def the_one(pattern: str) -> Path:
    [found] = DIST.glob(pattern)
    return found


def size_kb(path: Path) -> int:
    return path.stat().st_size // 1_000


def run(*words: str, quiet: bool = False) -> str:
    """Run a command; returns what it said.

    Raises:
        CalledProcessError: It failed.
    """
    ran = subprocess.run(
        words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if ran.returncode:
        if not quiet:
            tell(ran.stdout)
        raise subprocess.CalledProcessError(ran.returncode, words, ran.stdout)
    return ran.stdout


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
