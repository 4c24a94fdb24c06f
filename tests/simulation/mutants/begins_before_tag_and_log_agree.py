"""Members begin in the log's epoch, whatever is committed: its tag is not written, nor missed."""

from __future__ import annotations

import pytest

from coop_consumer.core.lead import Lead
from coop_consumer.core.state import Partition

BREAKS = ("stuck",)
SEED = 9


def plant(patch: pytest.MonkeyPatch) -> None:
    """The tag is not looked at where the log has an epoch."""
    real = Lead.agree

    def agree(lead: Lead, partition: Partition) -> None:
        if partition.view.current and not partition.agreement.epoch:
            partition.agreement.epoch = partition.store.epoch or 0
        real(lead, partition)

    patch.setattr(Lead, "agree", agree)
