"""Fetch the broker's jars with Ivy, whose jar pyspark ships.

Room: `coop_consumer.broker`. In: a Kafka version and an empty folder. Out: the jars in that
folder. Touches the network through one Java process, never through Python. pyspark is located, not
imported. Ivy's own cache is thrown away, so a damaged download cannot come back from it.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from tempfile import TemporaryDirectory

from coop_consumer.broker.java import Java
from coop_consumer.errors import DiskFullError, lacking, lacking_in
from coop_consumer.log_events import LogEvent

_log = logging.getLogger(__name__)

SCALA = "2.13"
SLF4J = "1.7.36"
"""The binding has to be of the same line as the slf4j-api that Kafka depends on."""

FETCH_TIMEOUT_S = 900

DISK_FULL = "No space left on device"
"""How Java, too, tells a full disk."""

TRUST_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))
"""Where Linux systems keep the authorities they trust, in Java's form."""

_MODULE = """\
<ivy-module version="2.0">
  <info organisation="coop-consumer" module="embedded-broker"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_{scala}" rev="{version}"
                conf="default->default,runtime"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="{slf4j}" conf="default->default"/>
  </dependencies>
</ivy-module>
"""
"""Kafka leaves the choice of a logging back end to its packager; without one it prints nothing."""


_FILE_NAME = "[artifact]-[revision](-[classifier]).[ext]"


class IvyError(Exception):
    """Ivy could not fetch; the text is the first of what it complained about."""


def find_ivy() -> Path | None:
    """Ivy's jar in the installed pyspark, or None where there is no pyspark."""
    spec = util.find_spec("pyspark")
    folders = [] if spec is None else spec.submodule_search_locations or []
    jars = [jar for folder in folders for jar in sorted(Path(folder, "jars").glob("ivy-*.jar"))]
    return jars[-1] if jars else None


def fetch_with_ivy(version: str, directory: Path, java: Java, ivy: Path) -> None:
    """Fetch Kafka's jars of `version` into `directory`: about 46 files, 44 MB, 10 to 60 s.

    A Java that is not the system's has its own list of trusted authorities. Behind a company's
    proxy it trusts nobody, and Ivy reports "not found"; hence the further tries, each with one of
    the system's trust stores.

    Raises:
        IvyError: No try succeeded; the text is that of the last one.
        OutOfResourceError: The machine gives its Java too little.
    """
    failure = ""
    for options in trust_options(TRUST_STORES):
        if failure:
            extra = LogEvent.JARS_NOT_FOUND.extra()
            told = "Ivy found nothing (%s); trying again with %s"
            _log.warning(told, failure, options[0], extra=extra)
        failure = _run_ivy(version, directory, java, ivy, options)
        if not failure:
            return
        if DISK_FULL in failure:
            break
    raise IvyError(failure)


def trust_options(stores: tuple[Path, ...]) -> Iterator[tuple[str, ...]]:
    """Java options of each try: its own trust store first, then each that this system has."""
    yield ()
    for store in stores:
        if store.is_file():
            yield (f"-Djavax.net.ssl.trustStore={store}",)


def _run_ivy(version: str, directory: Path, java: Java, ivy: Path, options: tuple[str, ...]) -> str:
    """One try. Returns what went wrong, empty if nothing did."""
    with TemporaryDirectory(prefix="coop-ivy-") as scratch:
        module = Path(scratch, "ivy.xml")
        module.write_text(_MODULE.format(scala=SCALA, version=version, slf4j=SLF4J))
        command = [
            str(java.executable), *options, "-jar", str(ivy), "-ivy", str(module),
            "-cache", str(Path(scratch, "cache")), "-m2compatible", "-types", "jar", "bundle",
            "-confs", "default", "-retrieve", f"{directory}/{_FILE_NAME}",
        ]  # fmt: skip
        try:
            ended = subprocess.run(  # noqa: S603 - the command is ours
                command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            if (found := lacking(error)) is not None:
                raise found from error
            return str(error)
    if ended.returncode == 0 and any(directory.glob(f"kafka_{SCALA}-*.jar")):
        return ""
    said = ended.stdout + ended.stderr
    if (found := lacking_in(said)) is not None and not isinstance(found, DiskFullError):
        raise found
    return complaint(said)


def complaint(output: str, limit: int = 3) -> str:
    r"""The first few things Ivy found wrong, in one line.

    >>> complaint("::  fine\n\tSERVER ERROR: Bad Gateway\n:: unresolved: kafka: not found\n")
    'SERVER ERROR: Bad Gateway / :: unresolved: kafka: not found'
    """
    signs = ("ERROR", "not found", "Exception", "FAILED")
    lines = [line.strip() for line in output.splitlines()]
    wrong = [line for line in lines if any(sign in line for sign in signs)]
    return " / ".join((wrong or lines[-limit:])[:limit]) or "Ivy said nothing"
