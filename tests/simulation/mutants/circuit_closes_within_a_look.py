"""The circuit closes before the rest of a look is taken in: what failed meanwhile is an attempt."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coop_consumer.core.circuit import Circuit
from coop_consumer.core.record import Record

BREAKS = ("circuit",)
SEED = 101957


def plant(patch: pytest.MonkeyPatch) -> None:
    """A success ends it at once."""
    real = Circuit.look_at

    def look_at(circuit: Circuit, finished: Iterable[Record]) -> None:
        real(circuit, finished)
        circuit.end_look()

    patch.setattr(Circuit, "look_at", look_at)
