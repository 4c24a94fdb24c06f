"""After a seek back a tenure tells what is left to hand out, and so withdraws what it had told."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coop_consumer.core.tenure import Tenure
from offsets import RangeProgress

BREAKS = ("I3",)
SEED = 572


def plant(patch: pytest.MonkeyPatch) -> None:
    """What the tracker tells is taken for the facts."""

    def true(_: Tenure, told: Iterable[RangeProgress]) -> tuple[RangeProgress, ...]:
        return tuple(told)

    patch.setattr(Tenure, "_true", true)
