"""A heavy hash that a claim names by itself counts in its bins as well."""

from __future__ import annotations

import pytest

from assignors import ClaimLoad, KeyRange
from coop_consumer.core.load import TenureLoad

BREAKS = ("load",)
SEED = 13


def plant(patch: pytest.MonkeyPatch) -> None:
    """The bins hold all records."""
    real = TenureLoad.told

    def told(
        load: TenureLoad, ranges: tuple[KeyRange, ...], cost_ps: int, pace: int
    ) -> ClaimLoad | None:
        claim = real(load, ranges, cost_ps, pace)
        if claim is None:
            return None
        each = cost_ps / load._offsets
        return claim._replace(bins=tuple(round(it * each) for it in load._bins))

    patch.setattr(TenureLoad, "told", told)
