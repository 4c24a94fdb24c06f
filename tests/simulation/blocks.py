"""Blocks: records that count together or not at all, as a user's `transaction()` says.

In: a seed's number, handlers that are about to end. Out: which of them wait for another one, to end
with it. Blocks have a chance of their own: a draw more from the world's would change every other
world. What pulls at a block is a topic that refuses an output. So worlds with such topics have
blocks, and some others.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coop_consumer.core.record import Record
    from coop_consumer.core.tenure import Tenure
    from tests.simulation.flusher import SimEffect

_EVERY, _AT = 8, (1, 3, 5)
"""Three seeds in so many have blocks, by their numbers."""
_WAITS = 0.7
WAITS_MS = 1_000
"""How long a handler waits, before it ends alone."""


class Blocks:
    """The blocks of one world."""

    def __init__(self, seed: int, *, exactly_once: bool) -> None:
        self._rng = Random(f"blocks {seed}")
        self._has_blocks = exactly_once and seed % _EVERY in _AT
        self._tied: list[tuple[SimEffect, ...]] = []

    def waits(self) -> bool:
        """Whether a handler that is about to end waits for one of another tenure."""
        return self._has_blocks and self._rng.random() < _WAITS

    def tie(self, finished: dict[Record, SimEffect]) -> None:
        """These are finished as a block."""
        block, together = object(), tuple(finished.values())
        for record, effect in finished.items():
            record.tenure.effects[record].block = block
            effect.together = together
        self._tied.append(together)

    def tied_to(self, tenure: Tenure) -> set[Tenure]:
        """The tenure, and those that it goes back with, as blocks are not visible yet."""
        self._tied = [it for it in self._tied if not _is_visible(it[0])]
        blocks = [{it.execution.tenure for it in together} for together in self._tied]
        found, before = {tenure}, 0
        while len(found) > before:
            before = len(found)
            found.update(*(it for it in blocks if it & found))
        return found


def _is_visible(effect: SimEffect) -> bool:
    history = effect.execution.history
    return history is not None and effect.offset in history.outputs
