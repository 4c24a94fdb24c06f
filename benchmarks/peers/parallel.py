"""The peer parallel-consumer: Confluent's Parallel Consumer for Java, built by Maven.

In: `peers/java`. Out: its jars in the user's cache, and the command of a process. They are built
again when the sources have changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import asdict
from functools import cache
from pathlib import Path

from benchmarks.job import Job
from benchmarks.peers.errors import PeerMissingError
from coop_consumer.broker import JavaMissingError, find_java
from coop_consumer.broker.jars import cache_home

_PROJECT = Path(__file__).parent / "java"
_BUILD_TIMEOUT_S = 600
_MEMORY = "-Xmx1g"


def command(job: Job) -> list[str]:
    """One of its processes. PeerMissingError: it cannot be built or run."""
    told = [
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in asdict(job).items()
    ]
    return [_java(), _MEMORY, "-cp", f"{_built()}/peer-1.jar:{_built()}/jars/*", "Main", *told]


def told_version() -> str:
    """What is measured. PeerMissingError: nothing."""
    [jar] = (_built() / "jars").glob("parallel-consumer-core-*.jar")
    [clients] = (_built() / "jars").glob("kafka-clients-*.jar")
    return f"{jar.stem}, {clients.stem}"


def _java() -> str:
    try:
        return str(find_java().executable)
    except JavaMissingError as error:
        raise PeerMissingError(str(error)) from error


@cache
def _built() -> Path:
    sources = [_PROJECT / "pom.xml", *sorted(_PROJECT.rglob("*.java"))]
    mark = hashlib.sha256(b"".join(it.read_bytes() for it in sources)).hexdigest()[:12]
    folder = cache_home(os.environ) / "peers" / f"parallel-consumer-{mark}"
    done = folder / ".built"
    if not done.exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise PeerMissingError("there is no Maven (mvn) to build it with")
        words = [maven, "-q", "-B", "package", f"-Dbuild.folder={folder}"]
        try:
            ran = subprocess.run(  # noqa: S603 - the command is ours
                words,
                cwd=_PROJECT,
                capture_output=True,
                text=True,
                timeout=_BUILD_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PeerMissingError(f"Maven cannot build it: {error}") from error
        if ran.returncode:
            raise PeerMissingError.from_output("Maven cannot build it", ran.stdout + ran.stderr)
        done.touch()
    return folder
