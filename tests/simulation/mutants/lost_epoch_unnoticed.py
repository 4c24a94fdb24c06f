"""Members go on in an epoch whose beginning the log has lost: who comes later waits for them.

(Decision 017.)
"""

from __future__ import annotations

import pytest

from coop_consumer.core.agreement import Agreement
from coop_consumer.core.lead import Lead
from coop_consumer.core.state import Partition

BREAKS = ("stuck",)
SEED = 822


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nobody minds, and only who leads may begin the next one."""
    real = Lead.agree

    def agree(lead: Lead, partition: Partition) -> None:
        committed = partition.agreement.committed
        lost = (
            committed is not None and not partition.store.epoch and committed[1].startswith("coop:")
        )
        if not (lost and not partition.agreement.leads):
            real(lead, partition)

    patch.setattr(Lead, "agree", agree)
    patch.setattr(Agreement, "is_lost", property(lambda _: False))
