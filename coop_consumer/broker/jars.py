"""The broker's jars in a per-user cache: fetched once, written at once, verified at each use.

Room: `coop_consumer.broker`. In: a Kafka version and something that fetches its jars into
an empty folder. Out: a folder that holds exactly these jars. Touches the cache folder only. Three
things must hold. The cache's final name never has half a set of jars. Of two processes one fetches,
and the other waits. A jar that changed, vanished or was added is noticed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from coop_consumer.broker.errors import (
    EXTRA,
    FolderError,
    JarsHaveNoRoomError,
    JarsUnavailableError,
)
from coop_consumer.broker.ivy import DISK_FULL, IvyError, fetch_with_ivy, find_ivy
from coop_consumer.broker.java import find_java
from coop_consumer.errors import DiskFullError, lacking
from coop_consumer.log_events import LogEvent

_log = logging.getLogger(__name__)

DEFAULT_VERSION = "4.3.1"

MANIFEST = "manifest.json"
"""Name to SHA-256 of every jar; the last file written."""

_OTHER_FOLDER = (
    "Make room for 100 MB there and in the temporary folder, or name another one: "
    "COOP_CACHE_DIR=FOLDER"
)
_OTHER_WAY = (
    "Check the version and this machine's way to the Java package repository. Behind a company's "
    "certificate authority, name a Java trust store that has it: "
    "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=FILE"
)

FetchJars = Callable[[str, Path], None]
"""Brings the jars of a version into an empty folder, or raises `IvyError`."""


def cache_home(environment: Mapping[str, str]) -> Path:
    """Where this user's caches of ours lie: COOP_CACHE_DIR, else below XDG_CACHE_HOME.

    >>> cache_home({"XDG_CACHE_HOME": "/var/cache/ann"}).as_posix()
    '/var/cache/ann/coop-consumer'
    >>> cache_home({"COOP_CACHE_DIR": "/srv/coop", "XDG_CACHE_HOME": "/var/cache/ann"}).as_posix()
    '/srv/coop'
    """
    if own := environment.get("COOP_CACHE_DIR"):
        return Path(own)
    xdg = environment.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else user_home("COOP_CACHE_DIR") / ".cache") / "coop-consumer"


def user_home(variable: str) -> Path:
    """This user's home.

    Args:
        variable: Of the environment, by which a user without a home can do.

    Raises:
        FolderError: Neither HOME is set, nor does this machine know the user.
    """
    try:
        return Path.home()
    except RuntimeError as error:
        problem = "this user has none (HOME is not set, and passwd has no entry)"
        raise FolderError("home", problem, f"Set HOME, or {variable}=FOLDER") from error


def ensure_jars(
    version: str = DEFAULT_VERSION, *, cache_dir: Path | None = None, fetch: FetchJars | None = None
) -> Path:
    """The folder with the jars of Kafka `version`, fetched if need be. 0.1 s once they are there.

    Raises:
        JarsUnavailableError: Not cached, and there is no Ivy, or it failed, or the cache cannot be
            read or written.
        OutOfResourceError: The machine gives too little.
        JavaMissingError: Not cached, and there is no Java to run Ivy.
    """
    cache = cache_dir or cache_home(os.environ)
    try:
        return _ensured(version, cache, fetch)
    except OSError as error:
        match lacking(error):
            case None:
                kind = JarsUnavailableError
            case DiskFullError():
                kind = JarsHaveNoRoomError
            case found:
                raise found from error
        raise kind(version, str(cache), str(error), _OTHER_FOLDER) from error


def _ensured(version: str, cache: Path, fetch: FetchJars | None) -> Path:
    directory = cache / f"kafka-{version}"
    if not damage(directory):
        return directory
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"kafka-{version}.lock"):
        problem = damage(directory)  # another process may have fetched while we waited
        if problem:
            if directory.exists():
                extra = LogEvent.JARS_DAMAGED.extra()
                _log.warning("%s: %s; fetching the jars again", directory, problem, extra=extra)
            _replace(directory, version, fetch or partial(fetch_by_ivy, ivy=find_ivy()))
    return directory


def damage(directory: Path) -> str:
    """What is wrong with a cached folder; empty if it holds exactly what its manifest says."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
    except FileNotFoundError:
        return "no manifest"
    except ValueError:
        return "unreadable manifest"
    if not isinstance(manifest, dict):
        return "unreadable manifest"
    found = digests(directory)
    wrong = sorted(name for name in found | manifest if found.get(name) != manifest.get(name))
    return f"changed, missing or added: {', '.join(wrong)}" if wrong else ""


def digests(directory: Path) -> dict[str, str]:
    """Name to SHA-256 of each jar in a folder. 44 MB take 0.07 s."""
    return {
        jar.name: hashlib.sha256(jar.read_bytes()).hexdigest()
        for jar in sorted(directory.glob("*.jar"))
    }


def _replace(directory: Path, version: str, fetch: FetchJars) -> None:
    """Fetch beside `directory`, then put the result in its place by renaming."""
    with TemporaryDirectory(prefix=f"{directory.name}-", dir=directory.parent) as scratch:
        fresh = Path(scratch, "fresh")
        fresh.mkdir()
        try:
            fetch(version, fresh)
        except IvyError as error:
            is_full = DISK_FULL in str(error)
            kind = JarsHaveNoRoomError if is_full else JarsUnavailableError
            remedy = _OTHER_FOLDER if is_full else _OTHER_WAY
            raise kind(version, str(directory), str(error), remedy) from error
        (fresh / MANIFEST).write_text(json.dumps(digests(fresh), indent=1))
        if directory.exists():
            directory.rename(Path(scratch, "damaged"))
        fresh.rename(directory)


def fetch_by_ivy(version: str, directory: Path, *, ivy: Path | None) -> None:
    """Fetch into an empty folder with this Ivy, run by the Java that will run the broker.

    Raises:
        JarsUnavailableError: `ivy` is None: pyspark is missing.
        JavaMissingError: There is no Java.
        IvyError: Ivy failed.
    """
    if ivy is None:
        raise JarsUnavailableError(
            version,
            str(directory.parent.parent),
            "Ivy, which fetches them, comes with pyspark, and pyspark is not installed",
            f"Install the extra that brings it: pip install '{EXTRA}'",
        )
    cache = directory.parent.parent
    told = "fetching Apache Kafka %s, about 44 MB, once, into %s"
    _log.info(told, version, cache, extra=LogEvent.JARS_FETCHED.extra())
    fetch_with_ivy(version, directory, find_java(), ivy)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; the system frees it if this one dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
