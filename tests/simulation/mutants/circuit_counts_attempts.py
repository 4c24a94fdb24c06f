"""What fails while the circuit is open counts as an attempt: an outage parks records."""

from __future__ import annotations

import pytest

from coop_consumer.core.circuit import Circuit
from coop_consumer.core.failure import Failure
from coop_consumer.core.record import Record

BREAKS = ("circuit",)
SEED = 182


def plant(patch: pytest.MonkeyPatch) -> None:
    """Each failure counts."""
    real = Circuit.failed

    def failed(circuit: Circuit, record: Record, failure: Failure) -> bool:
        real(circuit, record, failure)
        return True

    patch.setattr(Circuit, "failed", failed)
