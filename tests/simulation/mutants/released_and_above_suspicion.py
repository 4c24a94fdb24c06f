"""A member that trusts what it has left forgets the falls of ranges that it has released."""

from __future__ import annotations

import pytest

from coop_consumer.core.suspicion import Suspects
from coop_consumer.core.tenure import Tenure

BREAKS = ("falls",)
SEED = 51726


def plant(patch: pytest.MonkeyPatch) -> None:
    """What is released keeps nobody from trusting the rest."""

    def trust(suspects: Suspects, tenure: Tenure, fallen: int = 0) -> None:
        tenure.falls.suspicion, tenure.falls.owners = None, fallen
        suspects._commit_soon(tenure)

    patch.setattr(Suspects, "_trust", trust)
