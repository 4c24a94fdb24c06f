"""Fetches jars from a Maven repository, and takes none that is not the pinned one.

Room: `coop_consumer.broker`. In: pinned jars, an empty folder, the environment. Out: the jars in
that folder. Touches the network over HTTPS, by the proxies that the environment names, and with the
certificate authorities that Python trusts. What must hold: a file with another SHA-256 than the
pinned one is never written. So a mirror may be named without trusting it.
"""

from __future__ import annotations

import hashlib
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Self
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from coop_consumer.broker.pinned import PinnedJar
from coop_consumer.config.setting import shown
from coop_consumer.errors import ConfigError, lacking

CENTRAL = "https://repo1.maven.org/maven2"
"""Maven Central, from which Maven itself takes what no settings send elsewhere."""
REPOSITORY_VARIABLE = "COOP_MAVEN_REPOSITORY"

AT_ONCE = 6
"""Most jars are small, so most of the time is the repository's answer."""
TIMEOUT_S = 30.0
"""How long the repository may be silent."""
TRIES = 3
PAUSE_S = 0.5
"""The pause before the second try; the next is twice as long."""

_MAY_PASS = (408, 425, 429, 500, 502, 503, 504)
"""HTTP's words for "try again"."""


class JarFetchError(Exception):
    """A jar could not be fetched; the text says which, from where, and why."""


@dataclass(frozen=True, slots=True)
class MavenRepository:
    """A repository, without a secret in its `repr`.

    Attributes:
        address: Its URL, without a login and a slash at the end.
        login: `user:password`, or "".
    """

    address: str
    login: str = field(default="", repr=False)

    @classmethod
    def named_in(cls, environment: Mapping[str, str]) -> Self:
        """The mirror that COOP_MAVEN_REPOSITORY names, or Maven Central.

        Raises:
            ConfigError: It is no URL of a repository.

        >>> MavenRepository.named_in({REPOSITORY_VARIABLE: "https://ann:pw@nexus.example/maven/"})
        MavenRepository(address='https://nexus.example/maven')
        """
        text = environment.get(REPOSITORY_VARIABLE) or CENTRAL
        try:
            parts = urlsplit(text)
            is_url = parts.scheme in ("http", "https", "file") and parts.port != 0
        except ValueError:  # it has a port that is none, say
            is_url = False
        if not is_url or (parts.scheme != "file" and not parts.hostname):
            problem = "is no URL" if "@" in text else f"={shown(text)} is no URL"  # or a secret
            remedy = "Give one such as https://nexus.example.com/repository/maven-public"
            raise ConfigError(REPOSITORY_VARIABLE, problem, remedy)
        login, _, host = parts.netloc.rpartition("@")
        address = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        return cls(address, unquote(login))

    def read(self, path: str) -> bytes:
        """A file of the repository.

        Raises:
            OSError, HTTPException: It cannot be read.
        """
        request = Request(f"{self.address}/{path}")  # noqa: S310 - its scheme is checked above
        if self.login:
            token = b64encode(self.login.encode()).decode()
            # Not for the host of a redirection.
            request.add_unredirected_header("Authorization", f"Basic {token}")
        with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - as above
            content: bytes = answer.read()
        return content


def fetch_jars(jars: Sequence[PinnedJar], directory: Path, repository: MavenRepository) -> None:
    """Fetch these jars into a folder: some 44 MB, 3 to 60 s.

    Raises:
        JarFetchError: One cannot be had.
        OutOfResourceError: The machine gives too little.
        OSError: The folder cannot be written.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        under_way = [pool.submit(_fetch, jar, directory, repository) for jar in jars]
        try:
            for one in under_way:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch(jar: PinnedJar, directory: Path, repository: MavenRepository) -> None:
    content = _downloaded(jar, repository)
    found = hashlib.sha256(content).hexdigest()
    if found != jar.sha256:
        raise JarFetchError(
            f"{repository.address}/{jar.path} is not the expected file: its SHA-256 is {found}, "
            f"not {jar.sha256}"
        )
    (directory / jar.name).write_bytes(content)


def _downloaded(jar: PinnedJar, repository: MavenRepository) -> bytes:
    for failed in range(TRIES):
        try:
            return repository.read(jar.path)
        except (OSError, HTTPException) as error:
            if (found := lacking(error)) is not None:
                raise found from error
            if failed + 1 == TRIES or not _may_pass(error):
                raise JarFetchError(f"{repository.address}/{jar.path}: {_reason(error)}") from error
        time.sleep(PAUSE_S * 2**failed)
    raise AssertionError("the last try returns or raises")


def _may_pass(error: OSError | HTTPException) -> bool:
    """Whether another try may do better; a missing file or an unknown certificate stays so."""
    match error:
        case HTTPError():
            return error.code in _MAY_PASS
        case URLError():
            return not isinstance(error.reason, ssl.SSLCertVerificationError | FileNotFoundError)
        case _:
            return True


def _reason(error: OSError | HTTPException) -> str:
    match error:
        case HTTPError():
            return f"HTTP {error.code} {error.reason}"
        case URLError():
            return str(error.reason)
        case _:
            return str(error) or type(error).__name__
