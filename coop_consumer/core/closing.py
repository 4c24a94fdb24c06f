"""The end of a member: drain, commit, mirror, leave. Pure.

In: the wish to close, with or without an error. Out: the steps towards `Leave`, each taken when the
one before is done. Upholds I2, I4: nobody leaves before its last handler has ended and what that
did is in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.actions import Leave

if TYPE_CHECKING:
    from coop_consumer.core.commits import Commits
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.lead import Lead
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.errors import CoopConsumerError


class Closing:
    """Ends a member in order.

    Attributes:
        error: Why it ends; None: it was asked to, or does not end.
        log_lost: The progress log takes no more records: there is nothing left to commit to.
    """

    def __init__(
        self, state: MemberState, handover: Handover, commits: Commits, lead: Lead
    ) -> None:
        self._state = state
        self._handover = handover
        self._commits = commits
        self._lead = lead
        self._reads = self._asks = False
        self.error: CoopConsumerError | None = None
        self.log_lost = False

    def begin(self, error: CoopConsumerError | None) -> None:
        """Stop admitting; what runs ends, what is queued is given up."""
        state = self._state
        if state.closing:
            return
        state.closing = True
        self.error = error
        for partition in state.partitions.values():
            partition.assigned = ()
            partition.waiting = []
            for tenure in list(partition.tenures):
                self._handover.give_up(partition, tenure, tenure.ranges)

    def lose_log(self, error: CoopConsumerError) -> None:
        """Close because no commit will ever be taken: to go on would only pile up repeats."""
        self.log_lost = True
        self.begin(error)
        self.error = self.error or error  # also if we were about to end in order

    def step(self) -> None:
        """Do the next step, if what it waits for is done."""
        if self.log_lost:
            if not self.still_running():
                self._leave()
            return
        if self._state.generation >= 0:
            touched = [p for p in self._state.partitions.values() if p.epoch]
        else:
            touched = []
        if self._told_everything() and self._saw_log(touched) and self._saw_offsets(touched):
            self._lead.mirror(touched)
            if not self._lead.under_way:
                self._leave()

    def _leave(self) -> None:
        self._state.left = True
        self._state.actions.append(Leave(self.error))

    def _told_everything(self) -> bool:
        partitions = self._state.partitions.values()
        return not self._commits.under_way and not any(
            tenure.draining or tenure.dirty or not tenure.begun
            for partition in partitions
            for tenure in partition.draining
        )

    def _saw_log(self, touched: list[Partition]) -> bool:
        if not self._reads:
            self._reads = True
            for partition in touched:
                self._handover.read(partition.view)
        return all(p.view.current for p in touched)

    def _saw_offsets(self, touched: list[Partition]) -> bool:
        """Look last: what is seen is mirrored at once, before the next owners commit more."""
        if not self._asks:
            if any(p.asked_committed for p in touched):
                return False  # that answer may be old
            self._asks = True
            for partition in touched:
                partition.committed_known = False
        for partition in touched:
            if not partition.committed_known:
                self._lead.ask(partition)
        return all(p.committed_known for p in touched)

    def still_running(self) -> list[str]:
        """What a close waits for: one line for each hash with a running handler."""
        return [
            f"{tenure.tp} key hash {key_hash}"
            for partition in self._state.partitions.values()
            for tenure in partition.all_tenures()
            for key_hash in sorted(tenure.draining)
        ]
