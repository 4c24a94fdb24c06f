"""Handover: an assignment takes ranges away and brings others, and what stays goes on. Pure.

In: an assignment, complete reads of the progress log. Out: tenures that begin (`beginning`) and
end (`ending`), hashes that are free (`freeing`). A range begins when all of this holds: a stable
generation assigns it; our view of the log is complete since then; tag and log agree on the epoch;
every tenure on its wait list has released it, or its member has announced a later incarnation, or a
newer assignment lists it no more; no handler of its hashes runs in this process. No clock starts a
range. Upholds I2, I4, I6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors import KeyRange, TopicPartition, Wait, subtract, union
from coop_consumer.core.state import MemberState, Partition, WaitingRanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coop_consumer.core.beginning import Beginnings
    from coop_consumer.core.claims import Claims
    from coop_consumer.core.ending import Endings
    from coop_consumer.core.freeing import Freeing
    from coop_consumer.core.intake import Intake
    from coop_consumer.core.log_reading import LogReading
    from coop_consumer.core.notices import Notices
    from coop_consumer.core.tenure import Tenure


@dataclass(slots=True, eq=False)
class Handover:
    """Moves ranges to and from this member.

    Args:
        state: The member.
        intake: Feeds tenures that have begun.
        reading: Reads the log where something waits.
        claims: What others have not released.
        notices: What the user knows of ranges.
        freeing: Frees single hashes.
        beginnings: Begins tenures.
        endings: Ends them.
    """

    state: MemberState
    intake: Intake
    reading: LogReading
    claims: Claims
    notices: Notices
    freeing: Freeing
    beginnings: Beginnings
    endings: Endings

    # ---- an assignment comes, or is gone -------------------------------------------------------

    def assign(
        self,
        ranges: Mapping[TopicPartition, tuple[KeyRange, ...]],
        waits: Iterable[Wait],
        epochs: Mapping[TopicPartition, int],
    ) -> None:
        """Take over what the assignment gives; what stays goes on without a pause (I6).

        Args:
            ranges: All that is ours from now on.
            waits: Others' tenures that still claim some of it.
            epochs: Where members are in different epochs, the newest: what we hold in an older one
                begins again.
        """
        state = self.state
        waits_of: dict[TopicPartition, list[Wait]] = {}
        for wait in waits:
            waits_of.setdefault(wait.partition, []).append(wait)
        for tp in sorted(set(state.partitions) | set(ranges)):
            partition = state.partition(tp)
            partition.assigned = ranges.get(tp, ())
            if not partition.assigned:
                partition.agreement.forget_cut()
            for tenure in list(partition.tenures):
                is_old = tenure.epoch < epochs.get(tp, 0)
                kept = () if is_old else partition.assigned
                self.endings.give_up(partition, tenure, subtract(tenure.ranges, kept))
            partition.claims = tuple(waits_of.get(tp, ()))
            self._wait_for_claims(partition)

    def _wait_for_claims(self, partition: Partition) -> None:
        """Wait for what is new; every wait, old or new, is for the newest list of claims."""
        self.claims.drop_finished_waits(partition)
        waits = partition.claims
        since = {r: w.since_ms for w in partition.waiting for r in w.ranges}
        new = subtract(partition.assigned, partition.processed())
        partition.waiting = []
        if new:
            since_ms = min((since[r] for r in new if r in since), default=self.state.now_ms)
            partition.waiting = [WaitingRanges(new, waits, since_ms)]
            partition.agreement.reopen()
            self.fence_fallen(partition)
        for tenure in partition.tenures:
            if tenure.blocked.hashes:
                tenure.blocked.waits = waits
        if new or partition.agreement.leads or any(t.blocked.hashes for t in partition.tenures):
            self.reading.read(partition.view)

    def fence_fallen(self, partition: Partition) -> None:
        """End what fallen owners of ranges that wait have open: complete reads wait for it."""
        for item in partition.waiting:
            self.beginnings.fence_fallen(partition, item)

    def begin_again(self, partition: Partition) -> None:
        """Give up what we hold here, and wait for it anew by the present assignment.

        That includes claims we needed not wait for, as our tenure was older than they were. What
        begins now is younger.
        """
        self.endings.give_up_all(partition)
        self._wait_for_claims(partition)

    def go_back(self, tenure: Tenure) -> None:
        """Go back to what is committed of a tenure, and begin its ranges anew.

        What was done since is done again. With exactly once nothing of it is visible, and what the
        user's code has noted of it does not count either, as if others had the ranges.
        """
        partition = self.state.partition(tenure.tp)
        tenure.make_void()
        is_lost = self.state.config.exactly_once
        self.endings.give_up(partition, tenure, tenure.ranges, lost=is_lost)
        self.intake.drop_void()
        self._wait_for_claims(partition)

    def move_apart(self, partition: Partition, tenure: Tenure, key_hash: int) -> None:
        """Give a hot hash up, and begin it anew in a tenure of its own; see `hot`."""
        partition.hot.add(key_hash)
        self.endings.give_up(partition, tenure, (KeyRange(key_hash, key_hash),))
        self._wait_for_claims(partition)

    def lose_all(self) -> None:
        """We were evicted: give everything up; running handlers drain as in any handover."""
        for partition in self.state.partitions.values():
            partition.unassign()
            partition.agreement.lead(leads=False)
            partition.agreement.forget_cut()
            self.endings.give_up_all(partition, lost=True)
        self.intake.drop_void()

    # ---- the new owner -------------------------------------------------------------------------

    def begin_what_is_free(self, partition: Partition) -> None:
        """Begin waiting ranges that nobody is at any more, and free blocked hashes likewise."""
        state, view = self.state, partition.view
        if not (view.current and view.has_own_releases):
            return  # a range may come back to us: then its release must be read, too
        if partition.agreement.is_lost:
            return  # a release may be there, but no epoch has what was done before it
        for tenure in partition.tenures:
            if tenure.blocked.hashes:
                self.freeing.free_released(partition, tenure)
        may_begin = state.membership.is_stable and view.announcement.is_in_log
        if may_begin and partition.agreement.epoch:
            self.beginnings.begin(partition)

    def ready(self, token: int) -> None:
        """The user's code has loaded what some ranges need: let their records come."""
        tenure, hashes = self.notices.ready(token)
        partition = self.state.partition(tenure.tp)
        if hashes:
            self.freeing.loaded(partition, tenure, hashes)
        elif tenure.ranges:
            self.intake.streams.feed(partition, tenure)

    # ---- the user pauses, resumes, seeks -------------------------------------------------------

    def begin_anew(self, partition: Partition, offset: int | None) -> tuple[KeyRange, ...]:
        """Stop fetching a partition and forget what is queued of it; `feed` goes on.

        Args:
            partition: Which one.
            offset: None: go on with what is not done; else with everything from there on.

        Returns:
            The ranges that this concerns: those that have begun here.
        """
        self.intake.streams.unfeed(partition)
        begun = [tenure for tenure in partition.tenures if tenure.begun]
        for tenure in begun:
            self.intake.begin_anew(partition, tenure, offset)
        return union(r for tenure in begun for r in tenure.ranges)

    def unfeed(self, partition: Partition) -> None:
        """Stop fetching a partition; what is queued of it goes on. `feed` fetches it again."""
        self.intake.streams.unfeed(partition)

    def feed(self, partition: Partition) -> None:
        """Fetch again what was stopped; ranges that the user still loads come later."""
        for tenure in partition.tenures:
            if tenure.begun and not self.notices.is_loading(tenure):
                self.intake.streams.feed(partition, tenure)
