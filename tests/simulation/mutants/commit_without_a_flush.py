"""A commit is sent without a flush: it tells as done what a crash takes out of a buffer.

(Decision 011.)
"""

from __future__ import annotations

from functools import partial

import pytest

from coop_consumer.core import actions, commits

BREAKS = ("I2",)
BUFFERED = True


def plant(patch: pytest.MonkeyPatch) -> None:
    """No append asks for a flush."""

    def append(*args: object, flush: bool) -> actions.Append:
        del flush
        return partial(actions.Append, flush=False)(*args)  # type: ignore[arg-type]

    patch.setattr(commits, "Append", append)
