"""I9: what handlers have left behind is visible once, in the order of its keys, and complete.

In: transactions that are committed. Out: at the end, whether any output is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.checker.history import LaneKey
    from tests.simulation.checker.truth import Truth
    from tests.simulation.flusher import SimEffect
    from tests.simulation.world import World


class OutputCheck:
    """Follows outputs that are visible."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world, self._truth = world, truth
        self._newest: dict[tuple[object, LaneKey], int] = {}

    def committed(self, effects: Sequence[SimEffect]) -> None:
        """Check the outputs of a transaction."""
        for effect in effects:
            history, offset, lane = effect.execution.history, effect.offset, effect.execution.lane
            tp = effect.execution.tenure.tp
            if history is None:
                continue
            assert offset not in history.outputs, f"I9: the output of {tp}@{offset} is there twice"
            before = self._newest.get((tp, lane), -1)
            assert before < offset, f"I9: the output of {tp}@{offset} comes behind that of {before}"
            self._newest[tp, lane] = offset
            history.outputs.add(offset)
            history.settle(offset)

    def check_complete(self) -> None:
        """Check that no output is missing, once all is done."""
        for tp, watched in self._truth.watched.items():
            for history in watched.history.values():
                missing = [
                    message.offset()
                    for message in watched.log.messages
                    if message.offset() >= history.base
                    and message.offset() not in history.outputs
                    and message.offset() not in history.without_output
                    and message.offset() not in watched.excused
                ]
                assert not missing, f"I9: the outputs of {tp} {missing} are missing"
