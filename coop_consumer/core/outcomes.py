"""Outcomes: what executors have finished, failed and drained, handed to whoever has to know. Pure.

In: the lanes' queues of results. Out: trackers that know what is done, failures that are decided
about, hashes that are released. Upholds I2: a record that is skipped by policy while its range is
given up counts before its hash is released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.lane import Lane, hash_of

if TYPE_CHECKING:
    from coop_consumer.core.circuit import Circuit
    from coop_consumer.core.commits import Commits
    from coop_consumer.core.ending import Endings
    from coop_consumer.core.failures import Failures
    from coop_consumer.core.intake import Intake
    from coop_consumer.core.state import MemberState


class Outcomes:
    """Takes in what executors have done."""

    def __init__(
        self,
        state: MemberState,
        intake: Intake,
        endings: Endings,
        *,
        commits: Commits,
        circuit: Circuit,
        failures: Failures,
    ) -> None:
        self._state = state
        self._lanes = state.lanes
        self._intake = intake
        self._endings = endings
        self._commits = commits
        self._circuit = circuit
        self._failures = failures

    def collect(self) -> bool:
        """Take in everything up to now. True: more than that records were finished."""
        lanes = self._lanes
        if lanes.ended:
            with self._state.lock:
                lanes.settle()
        if not (lanes.finished or lanes.drained or lanes.failed):
            return False
        # Executors settle, too: what has drained only now may have finished a record only now.
        drained = [lanes.drained.popleft() for _ in range(len(lanes.drained))]
        self._collect_finished()
        if not (drained or lanes.failed):
            return False
        if lanes.failed:
            self._failures.collect()
        for entry in drained:
            if isinstance(entry, Lane) and entry.failure is not None:
                self._failures.drained(*entry.failure)
        self._collect_finished()  # what was skipped, while its hash is ours
        for entry in drained:
            self._endings.drained(entry.tenure, hash_of(entry))
        return True

    def _collect_finished(self) -> None:
        if self._lanes.finished:
            if self._circuit.is_open:
                self._circuit.look_at(list(self._lanes.finished))
            count = self._intake.collect()
            self._commits.finished(count)
            self._circuit.finished(count)
