"""Environments of programs that this one cannot import: made once each, in the user's cache.

In: a name, packages. Out: a Python that has them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from benchmarks.peers.errors import PeerMissingError
from coop_consumer.broker.jars import cache_home

_INSTALL_TIMEOUT_S = 600


@cache
def environment(name: str, base: str, packages: tuple[str, ...], *pip_options: str) -> Path:
    """The interpreter of an environment.

    Args:
        name: Of its folder.
        base: The interpreter to build on.
        packages: What it has; a folder of the same name has always the same.
        pip_options: For the installation.

    Raises:
        PeerMissingError: It cannot be made.
    """
    folder = cache_home(os.environ) / "peers" / name
    python = folder / "bin" / "python"
    done = folder / ".installed"
    if not done.exists():
        _run([base, "-m", "venv", "--clear", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", *pip_options, *packages])
        done.touch()
    return python


def _run(words: Sequence[str]) -> None:
    try:
        ran = subprocess.run(  # noqa: S603 - the command is ours
            words, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissingError(f"its environment cannot be made: {error}") from error
    if ran.returncode:
        raise PeerMissingError.from_output("its environment cannot be made", ran.stderr)
