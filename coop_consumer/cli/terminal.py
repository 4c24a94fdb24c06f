"""Where a command's tables and pictures go: a console that is wide enough to show something.

Room: `coop_consumer.cli`. In: the environment, the terminal. Out: a `rich` console. It is apart
from `output`, because `--help` loads no terminal library.
"""

from __future__ import annotations

from rich.console import Console

COLUMNS_MIN = 20
"""In fewer columns nothing can be read."""
_COLUMNS = 80


class _Console(Console):
    """Leaves it to `ending` to end a command whose reader has gone: `rich` ends it with code 1."""

    def on_broken_pipe(self) -> None:
        """Called where `rich` has met a `BrokenPipeError`."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """The console of stdout or stderr.

    Some programs start others with `COLUMNS=0`. In so few columns `rich` shows nothing.
    """
    made = _Console(stderr=stderr)
    if made.width < COLUMNS_MIN:
        made.width = _COLUMNS
    return made
