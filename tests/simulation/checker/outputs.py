"""I9: what handlers have left behind is visible once, in the order of its keys, and complete.

In: transactions that are committed. Out: at the end, whether any output is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.checker.attempts import AttemptCheck
    from tests.simulation.checker.history import LaneKey
    from tests.simulation.checker.truth import Truth
    from tests.simulation.flusher import SimEffect, SimLetter


class OutputCheck:
    """Follows outputs that are visible."""

    def __init__(self, truth: Truth, attempts: AttemptCheck) -> None:
        self._truth, self._attempts = truth, attempts
        self._newest: dict[tuple[object, LaneKey], int] = {}

    def committed(self, effects: Sequence[SimEffect], letters: Sequence[SimLetter]) -> None:
        """Check the outputs of a transaction."""
        for letter in letters:
            self._letter(letter)
        for effect in effects:
            for other in effect.together:
                assert other in effects, (
                    f"I9: the block of {effect.execution.tenure.tp}@{effect.offset} is split"
                )
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

    def _letter(self, letter: SimLetter) -> None:
        """Check a dead letter that is visible."""
        record, history = letter.record, self._truth.history(letter.record.tenure)
        if history is not None:
            offset, tp = record.offset, record.tenure.tp
            assert offset not in history.letters, f"I9: the letter of {tp}@{offset} is there twice"
            assert offset not in history.outputs, f"I9: {tp}@{offset} has an output and a letter"
            self._attempts.is_last(history, record)
            history.letters.add(offset)
            history.without_output.add(offset)
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
