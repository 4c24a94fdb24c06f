"""After a dead letter the next record of its key goes there after its first failure."""

from __future__ import annotations

import pytest

from coop_consumer.core.failures import Failures
from coop_consumer.core.record import Record
from coop_consumer.errors import CoopConsumerError

BREAKS = ("attempts",)
SEED = 3


def plant(patch: pytest.MonkeyPatch) -> None:
    """The lane is still taken for one whose first record is given up."""
    real = Failures.dead_lettered

    def dead_lettered(self: Failures, record: Record, error: CoopConsumerError | None) -> None:
        before = dict(self._dead)
        real(self, record, error)
        self._dead |= before

    patch.setattr(Failures, "dead_lettered", dead_lettered)
