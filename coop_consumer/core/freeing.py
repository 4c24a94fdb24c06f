"""Freeing: a running handler blocks its hash, and the tenure around it goes on. Pure.

In: releases that are read, handlers that end here. Out: hashes that are free, with what was done of
them meanwhile. A tenure of its own for each of these hashes would fetch the partition again for
each. So they belong to the tenure around them, and their lanes wait. Upholds I2, I4, I6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors import KeyRange
from coop_consumer.core.hashes import singles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coop_consumer.core.claims import Claims
    from coop_consumer.core.intake import Intake
    from coop_consumer.core.notices import Notices
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.core.tenure import Tenure
    from offsets import Attempt, RangeProgress


@dataclass(slots=True, eq=False)
class Freeing:
    """Frees hashes of tenures that have begun."""

    state: MemberState
    intake: Intake
    claims: Claims
    notices: Notices

    def free_released(self, partition: Partition, tenure: Tenure) -> None:
        """Free the hashes whose handler elsewhere has ended, and learn what it finished."""
        blocked = tenure.blocked
        claimed = self.claims.claimed(partition, blocked.waits, tenure.ranges)
        here = partition.hashes_at_work() | self.notices.loading_hashes(tenure)
        claimed += partition.unlogged(tenure.ranges)
        freed = {h for h in blocked.hashes if h not in here and not any(h in r for r in claimed)}
        waits, others = blocked.waits, singles(blocked.hashes - freed)
        blocked.waits = self.claims.unfinished(partition, waits, others)
        if not freed:
            return
        self.claims.warn_of_force(partition, waits, singles(freed))
        progress = partition.progress_in(tenure.epoch)
        facts = [fact for h in sorted(freed) for fact in progress.clip(KeyRange(h, h))]
        self._free(partition, tenure, freed, facts)

    def handler_ended(
        self,
        partition: Partition,
        tenure: Tenure,
        key_hash: int,
        facts: Iterable[RangeProgress] = (),
        *,
        is_ours: bool = False,
    ) -> None:
        """A handler in this process has ended: free its hash in a tenure, if nobody claims it.

        Args:
            partition: The tenure's.
            tenure: In which it may be blocked.
            key_hash: It.
            facts: What the handler's tenure knows to be done of it.
            is_ours: The handler was this tenure's own, which knows more of its failures than the
                log.
        """
        if key_hash not in tenure.blocked.hashes or partition.agreement.is_lost:
            return
        alone = KeyRange(key_hash, key_hash)
        if partition.unlogged((alone,)):
            return  # `free_released` frees it
        if not self.claims.claimed(partition, tenure.blocked.waits, (alone,)):
            # Others may have been at it while our handler ran, and released it since.
            told = partition.progress_in(tenure.epoch).clip(alone)
            self._free(partition, tenure, {key_hash}, [*told, *facts], is_ours=is_ours)

    def _free(
        self,
        partition: Partition,
        tenure: Tenure,
        freed: set[int],
        facts: Iterable[RangeProgress],
        *,
        is_ours: bool = False,
    ) -> None:
        """No handler is at these hashes any more: notify the user where it has to, run the rest."""
        tenure.blocked.foreign -= freed
        tenure.learn(facts)
        if not is_ours:
            tenure.attempts |= self._attempts_at(partition, tenure, freed)
        self._unblock(partition, tenure, freed - self.notices.freed(tenure, freed))

    def loaded(self, partition: Partition, tenure: Tenure, hashes: set[int]) -> None:
        """The user's code is ready for hashes that were freed."""
        self._unblock(
            partition, tenure, hashes & tenure.blocked.hashes - set(tenure.blocked.lingering)
        )

    def _unblock(self, partition: Partition, tenure: Tenure, hashes: set[int]) -> None:
        tenure.blocked.free(hashes)
        self.intake.free(partition, tenure, hashes)

    @staticmethod
    def _attempts_at(partition: Partition, tenure: Tenure, hashes: set[int]) -> dict[int, Attempt]:
        """What has failed of these hashes, by who was at them: in the log, or here."""
        known = partition.attempts_in(tenure.epoch, but=tenure)
        found = {offset: it for offset, it in known.items() if it.key_hash in hashes}
        if not found:
            return {}
        progress = partition.progress_in(tenure.epoch)
        return {o: it for o, it in found.items() if not progress.is_done(it.key_hash, o)}
