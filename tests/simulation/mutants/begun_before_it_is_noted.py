"""A suspect is begun before the log has its attempt: its fall is counted nowhere."""

from __future__ import annotations

import pytest

from coop_consumer.core.suspicion import Suspects
from coop_consumer.core.tenure import Tenure

BREAKS = ("falls",)
SEED = 211


def plant(patch: pytest.MonkeyPatch) -> None:
    """What is to be committed counts as committed."""
    real = Suspects._commit_soon

    def commit_soon(suspects: Suspects, tenure: Tenure) -> None:
        real(suspects, tenure)
        tenure.appended(tenure.record())

    patch.setattr(Suspects, "_commit_soon", commit_soon)
