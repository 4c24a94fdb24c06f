"""A commit is sent without a flush: it tells as done what a crash takes out of a buffer.

(Decision 011.)
"""

from __future__ import annotations

from typing import Any

import pytest

from coop_consumer.core import actions, outbox

BREAKS = ("I2",)
BUFFERED = True
SEED = 0


def plant(patch: pytest.MonkeyPatch) -> None:
    """No append asks for a flush."""

    def append(*args: Any, flush: bool) -> actions.Append:
        del flush
        return actions.Append(*args, flush=False)

    patch.setattr(outbox, "Append", append)
