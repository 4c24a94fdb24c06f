"""Beginnings: ranges that nobody else is at begin here, each with a first record in the log. Pure.

In: ranges that wait, what the log tells of them. Out: tenures, their first records, a `Rejoin` if
not all members know of an epoch. A tenure inherits what is done and what has failed of its ranges.
It dispatches nothing before its first record is acknowledged. Upholds I2, I4.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from assignors import WHOLE, KeyRange, intersect, subtract, union
from coop_consumer.core.actions import APART_MAX, Fence, Level
from coop_consumer.core.agreement import AgreementState
from coop_consumer.core.blocked_read import RunId
from coop_consumer.core.commits import next_entries
from coop_consumer.core.hashes import singles, without
from coop_consumer.core.hold import Blocked
from coop_consumer.core.state import MemberState, Partition, WaitingRanges
from coop_consumer.core.suspicion import Bound, be_careful
from coop_consumer.core.tenure import Tenure
from coop_consumer.log_events import LogEvent
from offsets import GapTracker, PartitionProgress, RangeProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coop_consumer.core.claims import Claims
    from coop_consumer.core.notices import Notices
    from coop_consumer.core.outbox import Outbox
    from coop_consumer.errors import CoopConsumerError
    from offsets import LoggedTenure, TenureRecord

_RESEND_MS = 200

FAR = 10_000
"""A single hash so many offsets behind others was hot where it comes from."""


@dataclass(slots=True, eq=False)
class Beginnings:
    """Begins tenures.

    Attributes:
        resending: Tokens of first records that are sent again, and when.
    """

    state: MemberState
    outbox: Outbox
    claims: Claims
    notices: Notices
    _beginning: dict[int, tuple[Tenure, TenureRecord]] = field(default_factory=dict)
    resending: list[tuple[int, int]] = field(default_factory=list)

    def fence_fallen(self, partition: Partition, waiting: WaitingRanges) -> None:
        """Fence whoever had ranges that wait, has not released them, and claims them no more.

        A range begins behind a complete read, which waits for what a fallen owner has open. So that
        is ended as soon as the log tells of the owner. To fence a member that lives is harmless.
        """
        if not self.state.config.exactly_once:
            return
        claiming = {RunId(it.member, it.incarnation) for it in waiting.waits}
        fallen = {
            RunId(last.id.member, last.id.incarnation)
            for last, share in partition.store.last_holders(waiting.ranges)
            if self._has_fallen(last, share)
        }
        if found := fallen - claiming:
            self.state.actions.append(Fence(sorted(found)))

    def begin(self, partition: Partition) -> None:
        """Begin what is free of the ranges that wait.

        Single hashes where a handler runs come along, blocked; see `freeing`.
        """
        waiting, partition.waiting = partition.waiting, []
        here = partition.hashes_at_work()
        for item in waiting:
            if partition.unlogged(item.ranges):
                partition.waiting.append(item)
                continue
            claimed = self.claims.claimed(partition, item.waits, item.ranges)
            blocked = {r.lo for r in claimed if r.size == 1}
            blocked |= {h for h in here if any(h in r for r in item.ranges)}
            free = subtract(item.ranges, union(r for r in claimed if r.size > 1))
            rest = item.ranges
            for part in self._parts(partition, free) if without(free, blocked) else ():
                if without(part, blocked):
                    self._begin_tenure(partition, part, item, blocked)
                    rest = subtract(rest, part)
            if rest:
                partition.waiting.append(WaitingRanges(rest, item.waits, item.since_ms))

    def _parts(
        self, partition: Partition, ranges: tuple[KeyRange, ...]
    ) -> list[tuple[KeyRange, ...]]:
        """The ranges of the tenures to begin: each hot hash has its own, all others share one."""
        hot = self._hot(partition, ranges)
        return [without(ranges, hot), *((KeyRange(it, it),) for it in sorted(hot))]

    def _hot(self, partition: Partition, ranges: tuple[KeyRange, ...]) -> set[int]:
        """Hashes that are hot, here or where they come from.

        Those from elsewhere are far behind all others. In one tenure these would wait for them.
        """
        pieces = [fact for r in ranges for fact in self._progress(partition).clip(r)]
        far = max(fact.next_offset for fact in pieces) - FAR
        room = APART_MAX - sum(len(it.hot) for it in self.state.partitions.values())
        for fact in pieces:
            key_hash = fact.range.lo
            is_behind = fact.range.size == 1 and fact.stable < far and len(pieces) > 1
            if is_behind and room > 0 and key_hash not in partition.hot:
                partition.hot.add(key_hash)
                room -= 1
        return {h for h in partition.hot if any(h in r for r in ranges)}

    @staticmethod
    def _progress(partition: Partition) -> PartitionProgress:
        """What is done, also by the committed offset."""
        agreement, store = partition.agreement, partition.store
        epoch, committed = agreement.epoch, agreement.committed
        progress = partition.progress_in(epoch)
        if committed is not None and store.tagged_epoch(committed) == epoch:  # so it is a fact
            progress.merge(RangeProgress(WHOLE, committed.offset))
        return progress

    def _begin_tenure(
        self,
        partition: Partition,
        ranges: tuple[KeyRange, ...],
        waiting: WaitingRanges,
        blocked: set[int],
    ) -> None:
        state, store, agreement = self.state, partition.store, partition.agreement
        waits = waiting.waits
        assert agreement.state is AgreementState.AGREED, (
            f"I2: {partition.tp}: ranges begin while {agreement.state.name}, epoch "
            f"{agreement.epoch}, log epoch {store.epoch}"
        )
        blocked = {h for h in blocked if any(h in r for r in ranges)}
        epoch, progress = agreement.epoch, self._progress(partition)
        tenure = Tenure(
            tp=partition.tp,
            key=state.new_tenure_key(partition),
            epoch=epoch,
            ranges=ranges,
            tracker=GapTracker([fact for r in ranges for fact in progress.clip(r)]),
            blocked=Blocked(blocked, self.claims.unfinished(partition, waits, singles(blocked))),
            attempts={
                offset: attempt
                for offset, attempt in partition.attempts_in(epoch).items()
                if any(attempt.key_hash in r for r in ranges)
                and not progress.is_done(attempt.key_hash, offset)
            },
            leader_epoch=max((t.record.leader_epoch for t in store.tenures()), default=-1),
            since_ms=waiting.since_ms,
        )
        tenure.logged.read_to = partition.view.store.next_offset
        self._suspect(partition, tenure, progress)
        if state.membership.alone:
            self._warn_of_others(partition, ranges)
        self.claims.warn_of_force(partition, waits, without(ranges, blocked))
        partition.tenures.append(tenure)
        self._append_first(partition, tenure, tenure.record())

    def _suspect(self, partition: Partition, tenure: Tenure, progress: PartitionProgress) -> None:
        """Be careful with what an owner that fell may have begun."""
        state = self.state
        bounds: list[Bound] = []
        fallen: set[RunId] = set()

        def is_left(bound: Bound) -> bool:
            key_range, offset = bound
            return any(fact.stable < offset for fact in progress.clip(key_range))

        for last, share in partition.store.last_holders(
            without(tenure.ranges, tenure.blocked.hashes)
        ):
            told, has_fallen = last.record, self._has_fallen(last, share)
            if has_fallen:
                fallen.add(RunId(last.id.member, last.id.incarnation))
            if not (has_fallen or told.fallen):
                continue
            begun = [(r, told.begun_to) for r in share if has_fallen]
            portion = [bound for bound in begun if is_left(bound)]
            others = [(r, at) for own, at in told.suspects for r in intersect(share, (own,))]
            bounds += [*portion, *filter(is_left, others)]
            noted = any(it.fell and it.offset in tenure.attempts for it in told.attempts)
            is_counted = has_fallen and (told.begun_to < 0 or bool(portion) or noted)
            tenure.falls.owners = max(tenure.falls.owners, told.fallen + is_counted)
        if fallen and state.config.exactly_once:  # readers of its outputs wait for them, too
            state.actions.append(Fence(sorted(fallen)))
        if tenure.falls.owners or any(attempt.fell for attempt in tenure.attempts.values()):
            be_careful(state, tenure, bounds)

    def _has_fallen(self, last: LoggedTenure, share: tuple[KeyRange, ...]) -> bool:
        """Whether another run has left some of its share behind without a release."""
        state = self.state
        was_ours = (last.id.member, last.id.incarnation) == (state.name, state.incarnation)
        return not was_ours and bool(subtract(share, last.record.released))

    def _warn_of_others(self, partition: Partition, ranges: tuple[KeyRange, ...]) -> None:
        """Without a group nobody keeps two processes apart: report whose hold the log shows."""
        state, store = self.state, partition.store
        for tenure in store.tenures():
            shared = intersect(store.unreleased(tenure.id, tenure.ranges), ranges)
            ours = (tenure.id.member, tenure.id.incarnation) == (state.name, state.incarnation)
            if shared and not ours:
                state.report(
                    Level.WARNING,
                    LogEvent.RANGE_HELD_ELSEWHERE,
                    f"{partition.tp} keys {' '.join(map(str, shared))}: assigned here, and held by "
                    f"{tenure.id.member}, which has not released them. It may have crashed; if it "
                    "runs, both process these keys. Assign each range to one process only.",
                    tp=partition.tp,
                )

    # ---- first records -------------------------------------------------------------------------

    def _append_first(self, partition: Partition, tenure: Tenure, record: TenureRecord) -> None:
        tenure.logged.record = record
        entries = next_entries(tenure, record, self.state.record_size.max_bytes)
        were_ours = partition.had_before(tenure, tenure.ranges)
        leave = self.outbox.append_behind if were_ours else self.outbox.append
        self._beginning[leave(partition.view, entries, self)] = tenure, record

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """A tenure's first record is acknowledged: from here on it may dispatch."""
        tenure, _ = self._beginning.pop(token)
        assert not tenure.begun, f"I4: {tenure} has begun already"
        tenure.begun = True
        if tenure.logged.first_offset < 0:
            tenure.logged.first_offset = offsets[0]
        tenure.logged.stable = tenure.tracker.stable
        self._rejoin_if_epoch_is_new(self.state.partition(tenure.tp))
        if tenure.ranges:
            self.state.tally.handover.observe((self.state.now_ms - tenure.since_ms) / 1_000)
            self.notices.begun(tenure)

    def _rejoin_if_epoch_is_new(self, partition: Partition) -> None:
        """Join again if some members may not know of a new epoch: they go on in the old one.

        A member that noticed may have lost its ranges since. So whoever begins looks for others.
        """
        state, store, agreement = self.state, partition.store, partition.agreement
        if not agreement.begun():
            return
        epoch = agreement.epoch
        # If the log has lost records, it may not show who holds ranges.
        if agreement.follows_a_loss or any(
            tenure.record.epoch < epoch and tenure.id.member != state.name
            for tenure in store.tenures()
            if store.unreleased(tenure.id, tenure.ranges)
        ):
            state.rejoin(f"{partition.tp} is in epoch {epoch}, and not all know")

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """A tenure's first record may or may not be in the log: send it again."""
        del error
        # Without a group, somebody may begin, fail and release before it comes. It knows nothing of
        # that, so it must not say that it began afterwards: the failures would count as inherited.
        logged = self._beginning[token][0].logged
        logged.first_offset = logged.read_to
        self.resending.append((self.state.now_ms + _RESEND_MS, token))

    def resend_due(self) -> None:
        """Send first records again whose pause is over."""
        if not self.resending:
            return
        now_ms = self.state.now_ms
        for _, refused in [item for item in self.resending if item[0] <= now_ms]:
            tenure, first = self._beginning.pop(refused)
            # Its answer speaks of what is built now: it may be in smaller parts than before.
            record = tenure.record()
            if self.state.config.exactly_once:  # what it has learned since may not be committed
                record = replace(record, facts=first.facts, released=())
            self._append_first(self.state.partition(tenure.tp), tenure, record)
        self.resending = [item for item in self.resending if item[0] > now_ms]
