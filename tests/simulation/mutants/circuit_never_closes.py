"""A probe that succeeds does not close the circuit: all is held back for ever."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coop_consumer.core.circuit import Circuit
from coop_consumer.core.record import Record

BREAKS = ("stuck",)
SEED = 205


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks at what is finished."""

    def look_at(circuit: Circuit, finished: Iterable[Record]) -> None:
        del circuit, finished

    patch.setattr(Circuit, "look_at", look_at)
