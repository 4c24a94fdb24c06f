"""Outcomes: what executors have finished, failed and drained goes to the parts it concerns. Pure.

In: the lanes' queues of results. Out: trackers that know what is done, failures that are decided
about, hashes that are released. Upholds I2: a record that is skipped by policy while its range is
given up counts before its hash is released.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.core.lane import Lane, hash_of

if TYPE_CHECKING:
    from coop_consumer.core.circuit import Circuit
    from coop_consumer.core.commits import Commits
    from coop_consumer.core.ending import Endings
    from coop_consumer.core.failures import Failures
    from coop_consumer.core.intake import Intake
    from coop_consumer.core.state import MemberState


@dataclass(slots=True, eq=False)
class Outcomes:
    """Takes in what executors have done."""

    state: MemberState
    intake: Intake
    endings: Endings
    commits: Commits
    circuit: Circuit
    failures: Failures

    def collect(self) -> bool:
        """Take in everything up to now. True: more than that records were finished."""
        lanes = self.state.lanes
        if lanes.ended:
            with self.state.lock:
                lanes.settle()
        if not (lanes.finished or lanes.drained or lanes.failed):
            return False
        # Executors settle, too: what has drained only now may have finished a record only now.
        drained = [lanes.drained.popleft() for _ in range(len(lanes.drained))]
        self._collect_finished()
        if not (drained or lanes.failed):
            self.circuit.end_look()
            return False
        if lanes.failed:
            self.failures.collect()
        for entry in drained:
            if isinstance(entry, Lane) and entry.failure is not None:
                self.failures.drained(*entry.failure)
        self._collect_finished()  # what was skipped, while its hash is ours
        self.circuit.end_look()
        for entry in drained:
            self.endings.drained(entry.tenure, hash_of(entry))
        return True

    def _collect_finished(self) -> None:
        if self.state.lanes.finished:
            if self.circuit.is_open:
                self.circuit.look_at(list(self.state.lanes.finished))
            count = self.intake.collect()
            self.commits.finished(count)
            self.circuit.finished(count)
