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
    from collections.abc import Sequence

    from coop_consumer.core.effects import Result
    from coop_consumer.core.events import OutputRefused
    from coop_consumer.core.failures import Failures
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.state import MemberState


@dataclass(slots=True, eq=False)
class RefusedOutputs:
    """Fails records for what they have left behind."""

    state: MemberState
    handover: Handover
    failures: Failures

    def refused(self, event: OutputRefused, results: Sequence[Result]) -> None:
        """An output of a record was refused; nothing of its commit is visible.

        Args:
            event: What the topic says.
            results: Of the commit.
        """
        record, error, config = event.record, event.error, self.state.config
        tenure = record._tenure
        if tenure.is_void or tenure.tp not in self.state.partitions:
            return  # its results are dropped anyhow
        failure = Failure(type(error).__name__, describe(error))
        is_letter = event.topic == config.dead_letter_topic_for(tenure.tp.topic)
        self.failures.output_refused(record, failure, is_letter=is_letter)
        block = next((it.effects.block for it in results if it.record is record), None)
        together = {tenure} | {
            it.record._tenure for it in results if block is not None and it.effects.block is block
        }
        for one in sorted(together, key=lambda it: it.key):
            self.handover.go_back(one)
