"""The broker's jars in a per-user cache: fetched once, written at once, verified at each use.

Room: `coop_consumer.broker`. In: the pinned jars. Out: a folder that holds exactly these jars.
Touches the cache folder only; `maven` fetches. Three things must hold. The cache's final name never
has half a set of jars. Of two processes one fetches, and the other waits. A jar that changed,
vanished or was added is noticed.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from coop_consumer.broker.errors import FolderError, JarsHaveNoRoomError, JarsUnavailableError
from coop_consumer.broker.maven import (
    REPOSITORY_VARIABLE,
    JarFetchError,
    MavenRepository,
    fetch_jars,
)
from coop_consumer.broker.pinned import KAFKA_VERSION, PinnedJar, pinned_jars
from coop_consumer.errors import DiskFullError, lacking
from coop_consumer.log_events import LogEvent

_log = logging.getLogger(__name__)

_OTHER_FOLDER = "Make room for 100 MB there, or name another folder: COOP_CACHE_DIR=FOLDER"
_OTHER_WAY = (
    "Check this machine's way to that address. A proxy is named by https_proxy=URL, a company's "
    f"certificate authority by SSL_CERT_FILE=FILE, a mirror of Maven Central by "
    f"{REPOSITORY_VARIABLE}=URL"
)


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


def ensure_jars(*, cache_dir: Path | None = None, jars: Sequence[PinnedJar] | None = None) -> Path:
    """The folder with the broker's jars, fetched if need be. 0.1 s once they are there.

    Args:
        cache_dir: Where the folder lies; by default in this user's cache.
        jars: What it holds; by default the jars of `KAFKA_VERSION`.

    Raises:
        JarsUnavailableError: Not cached, and they cannot be fetched, or the cache cannot be read or
            written.
        OutOfResourceError: The machine gives too little.
        ConfigError: COOP_MAVEN_REPOSITORY is no URL.
    """
    cache = cache_dir or cache_home(os.environ)
    try:
        return _ensured(cache, pinned_jars() if jars is None else jars)
    except OSError as error:
        match lacking(error):
            case None:
                kind = JarsUnavailableError
            case DiskFullError():
                kind = JarsHaveNoRoomError
            case found:
                raise found from error
        raise kind(KAFKA_VERSION, str(cache), str(error), _OTHER_FOLDER) from error


def _ensured(cache: Path, jars: Sequence[PinnedJar]) -> Path:
    directory = cache / f"kafka-{KAFKA_VERSION}"
    if directory.exists() and not damage(directory, jars):
        return directory
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"{directory.name}.lock"):
        problem = damage(directory, jars)  # another process may have fetched while we waited
        if problem:
            if directory.exists():
                extra = LogEvent.JARS_DAMAGED.extra()
                _log.warning("%s: %s; fetching the jars again", directory, problem, extra=extra)
            _replace(directory, jars)
    return directory


def damage(directory: Path, jars: Sequence[PinnedJar]) -> str:
    """What is wrong with a cached folder; empty if it holds exactly these jars."""
    found, pinned = digests(directory), {jar.name: jar.sha256 for jar in jars}
    wrong = sorted(name for name in found | pinned if found.get(name) != pinned.get(name))
    return f"changed, missing or added: {', '.join(wrong)}" if wrong else ""


def digests(directory: Path) -> dict[str, str]:
    """Name to SHA-256 of each jar in a folder. 44 MB take 0.07 s."""
    return {
        jar.name: hashlib.sha256(jar.read_bytes()).hexdigest()
        for jar in sorted(directory.glob("*.jar"))
    }


def _replace(directory: Path, jars: Sequence[PinnedJar]) -> None:
    """Fetch beside `directory`, then put the result in its place by renaming."""
    repository = MavenRepository.named_in(os.environ)
    _log.info(
        "fetching Apache Kafka %s, 44 MB, once, from %s into %s",
        KAFKA_VERSION, repository.address, directory.parent, extra=LogEvent.JARS_FETCHED.extra(),
    )  # fmt: skip
    with TemporaryDirectory(prefix=f"{directory.name}-", dir=directory.parent) as scratch:
        fresh = Path(scratch, "fresh")
        fresh.mkdir()
        try:
            fetch_jars(jars, fresh, repository)
        except JarFetchError as error:
            raise JarsUnavailableError(
                KAFKA_VERSION, str(directory.parent), str(error), _OTHER_WAY
            ) from error
        if directory.exists():
            directory.rename(Path(scratch, "damaged"))
        fresh.rename(directory)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; the system frees it if this one dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
