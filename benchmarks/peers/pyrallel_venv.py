"""The environment of the peer pyrallel-consumer: made once, in the user's cache.

In: nothing. Out: a Python that has it. Its releases ask for Python 3.12; it also runs on 3.11,
and where there is no newer Python it is installed on this one all the same, which its row tells.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from benchmarks.job import Job
from benchmarks.peers.environments import environment

VERSION = "1.0.0"
_ASKED = (3, 12)


def command(job: Job) -> list[str]:
    """One of its processes. PeerMissingError: there is no such environment."""
    return [str(_python()), "-m", "benchmarks.child", job.argument()]


def told_version() -> str:
    """What is measured. PeerMissingError: nothing."""
    _python()
    told = f"pyrallel-consumer {VERSION}"
    if _base() == sys.executable and sys.version_info < _ASKED:
        told += f" on Python {sys.version_info.major}.{sys.version_info.minor}, against its wish"
    return told


@cache
def _base() -> str:
    """The Python to build on: one that it asks for, if there is one that works; else this one."""
    names = [f"python3.{minor}" for minor in (13, 12)]
    of_pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [
        *filter(None, map(shutil.which, names)),
        *(str(path) for name in names for path in sorted(of_pyenv.glob(f"*/bin/{name}"))),
    ]
    return next(filter(_works, found), sys.executable)


def _works(python: str) -> bool:
    """Whether it runs at all: what pyenv puts into the path does so only for chosen versions."""
    asked = [python, "-c", "import ensurepip, venv"]
    ran = subprocess.run(asked, capture_output=True, check=False)  # noqa: S603 - see above
    return ran.returncode == 0


def _python() -> Path:
    packages = (
        f"pyrallel-consumer=={VERSION}",
        f"confluent-kafka=={version('confluent-kafka')}",
    )
    name = f"pyrallel-consumer-{VERSION}"
    return environment(name, _base(), packages, "--ignore-requires-python")
