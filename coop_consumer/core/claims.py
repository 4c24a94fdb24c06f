"""Claims: the other members' tenures that a range waits for, and what they have released. Pure.

In: wait lists of assignments, what the log tells of the tenures on them. Out: what is still
claimed, and a `Rejoin` if a wait list is out of date. No clock ends a claim. Upholds I4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import WHOLE, KeyRange, Wait, intersect
from coop_consumer.core.actions import Level
from coop_consumer.core.hashes import singles
from coop_consumer.log_events import LogEvent
from offsets import TenureId

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.core.tenure import Tenure

_REJOIN_MS = 3_000
"""So long a tenure on a wait list may be unknown to the log."""


def tenure_of(wait: Wait) -> TenureId:
    """The tenure that is waited for."""
    return TenureId(wait.member, wait.incarnation, wait.number)


class Claims:
    """Knows what other members' tenures have not released yet."""

    def __init__(self, state: MemberState) -> None:
        self._state = state
        self._unknown_since_ms: dict[TopicPartition, int] = {}

    def claimed(
        self, partition: Partition, waits: tuple[Wait, ...], ranges: tuple[KeyRange, ...]
    ) -> tuple[KeyRange, ...]:
        """What of these ranges a tenure on the wait list has not released yet."""
        claimed: list[KeyRange] = []
        for wait in waits:
            common = intersect(wait.ranges, ranges)
            if common:
                claimed += partition.store.unreleased(tenure_of(wait), common)
        return tuple(sorted(set(claimed)))

    def unfinished(
        self, partition: Partition, waits: tuple[Wait, ...], ranges: tuple[KeyRange, ...]
    ) -> tuple[Wait, ...]:
        """The waits of which something is left to wait for in these ranges."""
        return tuple(
            wait
            for wait in waits
            if self.claimed(partition, (wait,), ranges)
            or partition.store.forced(tenure_of(wait), ranges)
        )

    def drop_finished_waits(self, partition: Partition) -> None:
        """Drop the waits that are over, as soon as their release is read.

        The log drops a tenure once later tenures contain its facts. An unknown tenure counts as
        unreleased. So a release is remembered when it is read.
        """
        if partition.agreement.is_lost:
            return
        partition.claims = self.unfinished(partition, partition.claims, (WHOLE,))
        for item in partition.waiting:
            item.waits = self.unfinished(partition, item.waits, (WHOLE,))
        for tenure in partition.tenures:
            blocked = tenure.blocked
            if blocked.waits:
                self._take_back_falls(partition, tenure)
                blocked.waits = self.unfinished(partition, blocked.waits, (WHOLE,))

    @staticmethod
    def _take_back_falls(partition: Partition, tenure: Tenure) -> None:
        """Where a blocked hash is released, its handler has ended no process."""
        waited_for = {tenure_of(wait) for wait in tenure.blocked.waits}
        for former in partition.store.tenures():
            if former.id in waited_for:
                released = former.record.released
                freed = {h for h in tenure.blocked.hashes if any(h in r for r in released)}
                tenure.take_back(freed, former.record.attempts)

    def warn_of_force(
        self, partition: Partition, waits: tuple[Wait, ...], ranges: tuple[KeyRange, ...]
    ) -> None:
        """Report, and count, that the order of keys may break because a person wanted it so."""
        state, store = self._state, partition.store
        tenures = [tenure_of(wait) for wait in waits]
        tenures += [tenure.id for tenure in partition.all_tenures()]
        risk = "the order of these keys may break, and records repeat"
        if state.config.exactly_once:  # the command has put its member out of the group
            risk = "what it does outside of Kafka may come beside what is done here"
        for tenure in sorted(set(tenures)):
            if forced := store.forced(tenure, ranges):
                state.counters.forced += 1
                state.report(
                    Level.WARNING,
                    LogEvent.RANGE_FORCED,
                    f"{partition.tp} keys {' '.join(map(str, forced))}: begin here, though "
                    f"{tenure} has not released them: `coop-consumer release` said so. Where its "
                    f"handler still runs, {risk}.",
                    tp=partition.tp,
                )

    def ask_for_unknown_tenures(self) -> bool:
        """Ask for a new assignment where we wait for a tenure that the log does not know.

        A static member that comes back gets its old assignment with an old wait list. What that
        names may be gone from the log, or of a run that is over. Only a new list of claims tells.
        """
        state, unknown = self._state, self._unknown_since_ms
        for tp, partition in state.partitions.items():
            if not partition.view.current:
                continue  # it is read again, as a lead does every 2 s: no news yet
            if not self._waits_for_unknown(partition):
                unknown.pop(tp, None)
            elif state.now_ms - unknown.setdefault(tp, state.now_ms) > _REJOIN_MS:
                unknown[tp] = state.now_ms
                state.rejoin(f"{tp}: the wait list is out of date")
                return True
        return False

    def _waits_for_unknown(self, partition: Partition) -> bool:
        waits = [(item.waits, item.ranges) for item in partition.waiting]
        blocked = [tenure.blocked for tenure in partition.tenures if tenure.blocked.hashes]
        waits += [(it.waits, singles(it.hashes)) for it in blocked]
        if not any(others for others, _ in waits):
            return False
        known = {tenure.id for tenure in partition.store.tenures()}
        announced = partition.view.store.announced
        return any(
            (
                tenure_of(wait) not in known
                or ((run := announced(wait.member)) and run.incarnation != wait.incarnation)
            )
            and self.claimed(partition, (wait,), ranges)
            for others, ranges in waits
            for wait in others
        )
