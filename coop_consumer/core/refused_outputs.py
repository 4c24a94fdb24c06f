"""Refused outputs: a topic takes no such output as a finished record has left behind. Pure.

In: refusals that no repetition cures, such as a record that is too large for the topic by now. Out:
the record has failed, and its tenure goes back to what is committed. Then the record is parked, or
given up otherwise by `on.failure`, and the others go on. So it fells no member.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.core.failure import Failure, describe

if TYPE_CHECKING:
    from coop_consumer.core.effects import Effects
    from coop_consumer.core.events import OutputRefused
    from coop_consumer.core.failures import Failures
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.state import MemberState
    from coop_consumer.core.tenure import Tenure


@dataclass(slots=True, eq=False)
class RefusedOutputs:
    """Fails records for what they have left behind."""

    state: MemberState
    effects: Effects
    handover: Handover
    failures: Failures

    def refused(self, event: OutputRefused) -> None:
        """An output of a record was refused; nothing of its commit is visible.

        The results of the commit wait for the next one.
        """
        record, error, config = event.record, event.error, self.state.config
        tenure = record._tenure
        if tenure.is_void or tenure.tp not in self.state.partitions:
            return  # its results are dropped anyhow
        failure = Failure(type(error).__name__, describe(error))
        is_letter = event.topic == config.dead_letter_topic_for(tenure.tp.topic)
        self.failures.output_refused(record, failure, is_letter=is_letter)
        with self.state.lock:  # else a block might be done between the look and the end of it
            together = self._together(tenure)
            for one in together:
                one.make_void()
        for one in sorted(together, key=lambda it: it.key):
            self.handover.go_back(one)

    def _together(self, tenure: Tenure) -> set[Tenure]:
        """The tenure, and all that blocks tie to it: a block counts as a whole or not at all.

        Any block ties its tenures, also one that is in no commit yet.
        """
        finished = [
            (record._tenure, filed.block)
            for record in list(self.state.lanes.finished)
            if (filed := record._tenure.effects.get(record)) is not None
        ]
        of_blocks: dict[object, set[Tenure]] = {}
        for one, block in [*self.effects.blocks(), *finished]:
            if block is not None:
                of_blocks.setdefault(block, set()).add(one)
        together, before = {tenure}, 0
        while len(together) > before:
            before = len(together)
            together.update(*(it for it in of_blocks.values() if it & together))
        return together
