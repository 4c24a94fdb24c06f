"""A range that comes back inherits attempts that this member knows to be over."""

from __future__ import annotations

import pytest

from coop_consumer.core.state import Partition
from coop_consumer.core.tenure import Tenure
from offsets import Attempt

BREAKS = ("falls", "attempts")
SEED = 48010


def plant(patch: pytest.MonkeyPatch) -> None:
    """What the log says counts where our own tenures say nothing."""

    def attempts_in(
        self: Partition, epoch: int, *, but: Tenure | None = None
    ) -> dict[int, Attempt]:
        found = self.store.attempts() if self.store.epoch == epoch else {}
        for tenure in self.all_tenures():
            if tenure is not but and tenure.epoch == epoch:
                for offset, attempt in tenure.attempts.items():
                    if not any(attempt.key_hash in r for r in tenure.logged.released):
                        found[offset] = attempt
        return found

    patch.setattr(Partition, "attempts_in", attempts_in)
