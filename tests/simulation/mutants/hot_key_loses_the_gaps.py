"""Once a hot key is split off, the tenure that is left tells no gap ranges any more."""

from __future__ import annotations

import pytest

from coop_consumer.core.handover import Handover
from coop_consumer.core.state import Partition
from coop_consumer.core.tenure import Tenure
from offsets import RangeProgress

BREAKS = ("I3", "I5")
SEED = 232


def plant(patch: pytest.MonkeyPatch) -> None:
    """Its facts end at the stable offset, whatever is done above it."""
    real_move, real_facts = Handover.move_apart, Tenure.own_facts
    were_split: set[Tenure] = set()

    def move_apart(handover: Handover, partition: Partition, tenure: Tenure, key_hash: int) -> None:
        were_split.add(tenure)
        real_move(handover, partition, tenure, key_hash)

    def own_facts(tenure: Tenure) -> tuple[RangeProgress, ...]:
        facts = real_facts(tenure)
        if tenure in were_split:
            facts = tuple(RangeProgress(fact.range, fact.stable) for fact in facts)
        return facts

    patch.setattr(Handover, "move_apart", move_apart)
    patch.setattr(Tenure, "own_facts", own_facts)
