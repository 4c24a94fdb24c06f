"""A lead that was left out of a plan leads on as before: nobody begins anything."""

from __future__ import annotations

import pytest

from coop_consumer.core.agreement import Agreement

BREAKS = ("stuck",)
SEED = 70241


def plant(patch: pytest.MonkeyPatch) -> None:
    """Only a new lead compares committed offset and log."""
    lead = Agreement.lead

    def lead_on(agreement: Agreement, *, leads: bool, afresh: bool = False) -> None:
        del afresh
        lead(agreement, leads=leads)

    patch.setattr(Agreement, "lead", lead_on)
