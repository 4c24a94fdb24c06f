"""Endings: ranges are given up and released, hash by hash, as their handlers end. Pure.

In: ranges that this member holds no more, the end of handlers, acknowledged commits. Out: tenures
that drain and end, or go on under a new number. What is queued is released at once. A hash with a
running handler is released when that ends. Upholds I4, I6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.core.actions import Level
from coop_consumer.core.lane import hash_of
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted

if TYPE_CHECKING:
    from assignors import KeyRange
    from coop_consumer.core.freeing import Freeing
    from coop_consumer.core.intake import Intake
    from coop_consumer.core.notices import Notices
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.core.tenure import Tenure


@dataclass(slots=True, eq=False)
class Endings:
    """Ends tenures."""

    state: MemberState
    intake: Intake
    notices: Notices
    freeing: Freeing

    def give_up_all(self, partition: Partition, *, lost: bool = False) -> None:
        """Give up all that is held of a partition; `lost`: others may be at it already."""
        if lost and self.state.config.exactly_once:
            for tenure in partition.all_tenures():
                tenure.make_void()
        for tenure in list(partition.tenures):
            self.give_up(partition, tenure, tenure.ranges, lost=lost)

    def give_up(
        self,
        partition: Partition,
        tenure: Tenure,
        ranges: tuple[KeyRange, ...],
        *,
        lost: bool = False,
    ) -> None:
        """Stop admitting `ranges`, forget what is queued, release all but the running hashes."""
        if not ranges:
            return
        state = self.state
        tenure.was_hot = partition.is_hot(tenure)
        running = self.intake.give_up(tenure, ranges)
        tenure.give_up(ranges, map(hash_of, running))
        partition.view.hurry()
        state.counters.releases += 1
        self.notices.given_up(tenure, ranges, lost=lost)
        if running:
            state.report(
                Level.INFO,
                LogEvent.RANGE_DRAINS,
                f"{tenure.tp}: handlers of {counted(len(running), 'key')} still run, of ranges "
                "that move: " + " ".join(map(str, ranges)),
                tp=tenure.tp,
            )
        self._settle(partition, tenure)

    def drained(self, tenure: Tenure, key_hash: int) -> None:
        """A handler whose lane was given up has ended: free its hash, here or for others."""
        partition = self.state.partition(tenure.tp)
        if key_hash in tenure.blocked.lingering:
            if tenure.blocked.lingered(key_hash):
                self.freeing.handler_ended(partition, tenure, key_hash, is_ours=True)
            return
        facts = tenure.drained(key_hash)
        partition.view.hurry()
        if tenure.is_void and key_hash not in tenure.draining:
            told = tenure.record().attempts
            for other in partition.all_tenures():
                if other is not tenure:
                    other.take_back({key_hash}, told)
        if facts:
            for other in partition.tenures:
                shared = facts if other.shares_history(tenure) else ()
                self.freeing.handler_ended(partition, other, key_hash, shared)
        self._settle(partition, tenure)

    def _settle(self, partition: Partition, tenure: Tenure) -> None:
        """Put a tenure on the list where it belongs."""
        if not tenure.ranges and tenure in partition.tenures:
            partition.tenures.remove(tenure)
            partition.draining.append(tenure)
        self.intake.streams.rearrange(partition)

    def committed(self, partition: Partition) -> None:
        """The log has a commit: forget tenures that have ended, rename those that released."""
        partition.draining = [
            tenure
            for tenure in partition.draining
            if tenure.draining or tenure.dirty or not tenure.begun
        ]
        self.rename_released(partition)

    def rename_released(self, partition: Partition) -> None:
        """Tenures whose releases the log has go on under a new number, see `Tenure.rename`.

        Not between a JoinGroup and its assignment: others wait for the numbers that it listed.
        """
        state = self.state
        if not state.membership.is_stable:
            return
        for tenure in partition.tenures:
            told = tenure.released and tenure.released == tenure.logged.released
            if told and tenure.begun and not tenure.draining and tenure.logged.retired is None:
                tenure.rename(state.new_tenure_key(partition))
