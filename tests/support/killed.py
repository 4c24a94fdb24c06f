"""Processes that stop at a place, report it, and are killed there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.journal import WAIT_S

_ROOT = Path(__file__).parents[2]
_WORD = b"there\n"


@contextmanager
def to_be_killed(
    module: str, settings: Mapping[str, Any], topic: str, count: int
) -> Iterator[None]:
    """Run a process of a module for a block, once it stands at its place after `count` records.

    The module's `main` gets these as JSON, and calls `say_there`.
    """
    plan = json.dumps({"settings": settings, "topic": topic, "count": count})
    child = subprocess.Popen(
        [sys.executable, "-m", module, plan], cwd=_ROOT, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == _WORD, "it has ended by itself"
        yield
    finally:
        child.kill()
        child.wait(WAIT_S)
        child.stdout.close()


def say_there() -> None:
    """Report that this process stands at its place."""
    sys.stdout.buffer.write(_WORD)
    sys.stdout.buffer.flush()
