"""Handover: ranges begin here when nobody else is at them, and end hash by hash. Pure.

In: an assignment, complete reads of the progress log, the end of handlers. Out: tenures that begin
and end. A range begins when a stable generation assigns it, our view of the log is complete since
then, tag and log agree on the epoch, every tenure on its wait list has released it (or its member
has announced a later incarnation, or a newer assignment lists it no more), and no handler of its
hashes runs in this process. No clock starts a range. Upholds I2, I4, I6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import WHOLE, KeyRange, TopicPartition, Wait, intersect, subtract, union
from coop_consumer.core.actions import (
    Level,
    RangesAssigned,
    RangesLost,
    RangesRevoked,
    ReadLog,
    Rejoin,
)
from coop_consumer.core.commits import next_entries
from coop_consumer.core.lanes import hash_of
from coop_consumer.core.state import Announcement, LogView, MemberState, Partition, Waiting
from coop_consumer.core.suspicion import Bound, be_careful
from coop_consumer.core.tenure import Tenure
from offsets import (
    GapTracker,
    PartitionProgress,
    RangeProgress,
    TenureId,
    TenureKey,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from coop_consumer.core.intake import Intake
    from coop_consumer.core.outbox import Outbox
    from coop_consumer.errors import CoopConsumerError
    from offsets import Attempt

_UNKNOWN_TENURE_REJOIN_MS = 3_000
_RESEND_MS = 200


def singles(hashes: Iterable[int]) -> tuple[KeyRange, ...]:
    """These hashes as ranges, sorted and melted."""
    return union(KeyRange(hash_, hash_) for hash_ in hashes)


def without(ranges: tuple[KeyRange, ...], hashes: Iterable[int]) -> tuple[KeyRange, ...]:
    """Ranges less single hashes."""
    return subtract(ranges, singles(hashes))


class Handover:
    """Begins and ends tenures.

    Args:
        state: The member.
        outbox: Appends first records.
        intake: Feeds tenures that have begun, and forgets those that ended.
    """

    def __init__(self, state: MemberState, outbox: Outbox, intake: Intake) -> None:
        self._state = state
        self._outbox = outbox
        self._intake = intake
        self._beginning: dict[int, Tenure] = {}
        self._resend: list[tuple[int, int]] = []
        self._loading: dict[int, Tenure] = {}
        self._freeing: dict[int, tuple[Tenure, set[int]]] = {}

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
        state = self._state
        waits_of: dict[TopicPartition, list[Wait]] = {}
        for wait in waits:
            waits_of.setdefault(wait.partition, []).append(wait)
        for tp in sorted(set(state.partitions) | set(ranges)):
            partition = state.partition(tp)
            partition.assigned = ranges.get(tp, ())
            if not partition.assigned:
                partition.cut = None  # for its next owner to notice
            for tenure in list(partition.tenures):
                is_old = tenure.epoch < epochs.get(tp, 0)
                kept = () if is_old else partition.assigned
                self.give_up(partition, tenure, subtract(tenure.ranges, kept))
            partition.claims = tuple(waits_of.get(tp, ()))
            self._wait_for_claims(partition)

    def _wait_for_claims(self, partition: Partition) -> None:
        """Wait for what is new; every wait, old or new, is for the newest list of claims."""
        self.strike_off(partition)
        waits = partition.claims
        since = {r: w.since_ms for w in partition.waiting for r in w.ranges}
        new = subtract(partition.assigned, partition.processed())
        partition.waiting = []
        if new:
            since_ms = min((since[r] for r in new if r in since), default=self._state.now_ms)
            partition.waiting = [Waiting(new, waits, since_ms)]
            partition.epoch = 0  # tag and log must agree once more: someone may have rewound
            partition.committed_known = False
        for tenure in partition.tenures:
            if tenure.blocked.hashes:
                tenure.blocked.waits = waits
        if new or partition.leading or any(tenure.blocked.hashes for tenure in partition.tenures):
            self.read(partition.view)

    def begin_again(self, partition: Partition) -> None:
        """Give up what we hold here, and wait for it anew by the present assignment.

        Also for those whom we needed not wait for, as our tenure was older than their claims: what
        begins now is younger.
        """
        for tenure in list(partition.tenures):
            self.give_up(partition, tenure, tenure.ranges)
        self._wait_for_claims(partition)

    def read(self, view: LogView) -> None:
        """Ask for the log's end as it is from now on."""
        asked_just_now = ReadLog(view.log_partition, view.asked)
        if asked_just_now in self._state.actions:
            return
        view.asked += 1
        self._state.actions.append(ReadLog(view.log_partition, view.asked))

    def lose_all(self) -> None:
        """We were evicted: give everything up; running handlers drain as in any handover."""
        for partition in self._state.partitions.values():
            partition.assigned = ()
            partition.waiting = []
            partition.leading, partition.cut = False, None
            for tenure in list(partition.tenures):
                self.give_up(partition, tenure, tenure.ranges, lost=True)

    # ---- the new owner -------------------------------------------------------------------------

    def begin_what_is_free(self, partition: Partition) -> None:
        """Begin waiting ranges that nobody is at any more, and free blocked hashes likewise."""
        state = self._state
        view = partition.view
        if not view.current or view.store.next_offset <= view.told_offset:
            return  # what we told ourselves must be read, too: a range may come back to us
        if partition.is_lost:
            return  # a release may be there, but what was done before it is told in no epoch
        for tenure in partition.tenures:
            if tenure.blocked.hashes:
                self._unblock(partition, tenure)
        if (
            state.joining
            or state.closing
            or not partition.epoch
            or view.announcement is not Announcement.IN_LOG
        ):
            return
        waiting, partition.waiting = partition.waiting, []
        for item in waiting:
            self._begin(partition, item)

    @staticmethod
    def _progress(partition: Partition, epoch: int) -> PartitionProgress:
        """What the log tells, and what our tenures have done that is not in it yet."""
        progress = partition.store.progress()
        for tenure in partition.all_tenures():
            if tenure.epoch == epoch and tenure.key.topic_id == partition.topic_id:
                for fact in tenure.facts():
                    progress.merge(fact)
        return progress

    def _claimed(
        self, partition: Partition, waits: tuple[Wait, ...], ranges: tuple[KeyRange, ...]
    ) -> tuple[KeyRange, ...]:
        """What of these ranges another member's tenure has not released yet."""
        store = partition.store
        claimed: list[KeyRange] = []
        for wait in waits:
            common = intersect(wait.ranges, ranges)
            if common:
                tenure = TenureId(wait.member, wait.incarnation, wait.number)
                claimed += store.unreleased(tenure, common)
        return tuple(sorted(set(claimed)))

    def strike_off(self, partition: Partition) -> None:
        """Forget the waits that are over, as soon as that is read, whatever else we wait for.

        What is released stays so; but once others tell all of a tenure the log forgets it, and a
        tenure that the log does not know has released nothing.
        """
        if partition.is_lost:
            return
        partition.claims = self._open(partition, partition.claims, (WHOLE,))
        for item in partition.waiting:
            item.waits = self._open(partition, item.waits, (WHOLE,))
        for tenure in partition.tenures:
            blocked = tenure.blocked
            blocked.waits = self._open(partition, blocked.waits, (WHOLE,))

    def _open(
        self, partition: Partition, waits: tuple[Wait, ...], ranges: tuple[KeyRange, ...]
    ) -> tuple[Wait, ...]:
        """The waits of which something is left to wait for in these ranges."""
        store = partition.store
        return tuple(
            wait
            for wait in waits
            if self._claimed(partition, (wait,), ranges)
            or store.forced(TenureId(wait.member, wait.incarnation, wait.number), ranges)
        )

    def _begin(self, partition: Partition, item: Waiting) -> None:
        """Begin what is free of `item`; single hashes where a handler runs come along, blocked."""
        claimed = self._claimed(partition, item.waits, item.ranges)
        # A running handler claims one hash. A tenure of its own for each would fetch the partition
        # again for each, so they join the tenure around them and their lanes wait.
        blocked = {r.lo for r in claimed if r.size == 1}
        here = self._at_work_here(partition)
        blocked |= {h for h in here if any(h in r for r in item.ranges)}
        apart = union(r for r in claimed if r.size > 1)
        ranges = subtract(item.ranges, apart)
        if without(ranges, blocked):
            self._begin_tenure(partition, ranges, item.waits, blocked)
            rest = intersect(item.ranges, apart)
        else:
            rest = item.ranges
        if rest:
            partition.waiting.append(Waiting(rest, item.waits, item.since_ms))

    def _begin_tenure(
        self,
        partition: Partition,
        ranges: tuple[KeyRange, ...],
        waits: tuple[Wait, ...],
        blocked: set[int],
    ) -> None:
        state = self._state
        blocked = {h for h in blocked if any(h in r for r in ranges)}
        store, tp = partition.store, partition.tp
        progress = self._progress(partition, partition.epoch)
        if partition.committed is not None:  # tagged with this epoch, so it is one of its facts
            progress.merge(RangeProgress(WHOLE, partition.committed.offset))
        inherited = [fact for r in ranges for fact in progress.clip(r)]
        tenure = Tenure(
            tp=tp,
            key=self._new_key(partition),
            epoch=partition.epoch,
            ranges=ranges,
            tracker=GapTracker(inherited),
            waits=self._open(partition, waits, singles(blocked)),
            blocked=blocked,
            attempts=[
                attempt
                for attempt in store.attempts().values()
                if any(attempt.key_hash in r for r in ranges)
                and not progress.is_done(attempt.key_hash, attempt.offset)
            ],
            leader_epoch=max((t.record.leader_epoch for t in store.tenures()), default=-1),
        )
        self._suspect(partition, tenure, progress)
        if state.alone:
            self._warn_of_others(partition, ranges)
        self._warn_of_force(partition, waits, without(ranges, blocked))
        partition.tenures.append(tenure)
        self._append_first(partition, tenure)

    def _suspect(self, partition: Partition, tenure: Tenure, progress: PartitionProgress) -> None:
        """Be careful with what an owner that fell may have begun."""
        state = self._state
        bounds: list[Bound] = []

        def is_left(bound: Bound) -> bool:
            key_range, offset = bound
            return any(fact.stable < offset for fact in progress.clip(key_range))

        own = without(tenure.ranges, tenure.blocked.hashes)
        for last, share in partition.store.last_holders(own):
            told = last.record
            was_ours = (last.id.member, last.id.incarnation) == (state.name, state.incarnation)
            has_fallen = not was_ours and bool(subtract(share, told.released))
            if not (has_fallen or told.fallen):
                continue
            begun = [(r, told.begun_to) for r in share if has_fallen]
            portion = [bound for bound in begun if is_left(bound)]
            others = [(r, at) for old, at in told.suspects for r in intersect(share, (old,))]
            bounds += [*portion, *filter(is_left, others)]
            noted = any(it.fell and it.offset in tenure.attempts for it in told.attempts)
            is_counted = has_fallen and (told.begun_to < 0 or bool(portion) or noted)
            tenure.falls.owners = max(tenure.falls.owners, told.fallen + is_counted)
        if tenure.falls.owners or any(attempt.fell for attempt in tenure.attempts.values()):
            be_careful(state, tenure, bounds)

    @staticmethod
    def _at_work_here(partition: Partition) -> set[int]:
        """Hashes at which a handler runs in this process, but for those that a person released."""
        return {
            hash_
            for tenure in partition.all_tenures()
            for hash_ in (*tenure.draining, *tenure.blocked.lingering)
            if not partition.store.forced(tenure.id, [KeyRange(hash_, hash_)])
        }

    def _warn_of_force(
        self, partition: Partition, waits: tuple[Wait, ...], ranges: tuple[KeyRange, ...]
    ) -> None:
        """Say, and count, that the order of keys may break because a person wanted it so."""
        state, store = self._state, partition.store
        tenures = [TenureId(w.member, w.incarnation, w.number) for w in waits]
        tenures += [tenure.id for tenure in partition.all_tenures()]
        for tenure in sorted(set(tenures)):
            if forced := store.forced(tenure, ranges):
                state.counters.forced += 1
                state.report(
                    Level.WARNING,
                    f"{partition.tp} keys {' '.join(map(str, forced))}: begin here, though "
                    f"{tenure} has not released them: `coop-consumer release` said so. Where its "
                    "handler still runs, the order of these keys may break, and records repeat.",
                )

    def _warn_of_others(self, partition: Partition, ranges: tuple[KeyRange, ...]) -> None:
        """Without a group nobody keeps two processes apart: say whose hold the log still shows."""
        state, store = self._state, partition.store
        for tenure in store.tenures():
            shared = intersect(store.unreleased(tenure.id, tenure.ranges), ranges)
            ours = (tenure.id.member, tenure.id.incarnation) == (state.name, state.incarnation)
            if shared and not ours:
                state.report(
                    Level.WARNING,
                    f"{partition.tp} keys {' '.join(map(str, shared))}: assigned here, and held by "
                    f"{tenure.id.member}, which has not released them. It may have crashed; if it "
                    "runs, both process these keys. Assign each range to one process only.",
                )

    def _append_first(self, partition: Partition, tenure: Tenure) -> None:
        entries = next_entries(tenure, tenure.record(), self._state.record_max_bytes)
        were_ours = self._were_ours(tenure, tenure.ranges)
        leave = self._outbox.commit if were_ours else self._outbox.append
        self._beginning[leave(partition.view, entries, self)] = tenure

    def _were_ours(self, tenure: Tenure, ranges: tuple[KeyRange, ...]) -> bool:
        """Whether other tenures of ours had some of these ranges, and may not have told all yet."""
        return any(
            had.overlaps(key_range)
            for other in self._state.partition(tenure.tp).all_tenures()
            if other is not tenure
            for had in (*other.held, *other.released)
            for key_range in ranges
        )

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """A tenure's first record is acknowledged: from here on it may dispatch."""
        tenure = self._beginning.pop(token)
        tenure.begun = True
        tenure.logged.first_offset = offsets[0]
        tenure.logged.stable = tenure.tracker.stable
        self._tell_of_epoch(self._state.partition(tenure.tp))
        if tenure.ranges:
            # What the user's code loads is the last word only where no handler is at it any more.
            unnotified = tenure.blocked.unnotified = set(tenure.blocked.hashes)
            self._loading[self._tell(tenure, without(tenure.ranges, unnotified))] = tenure

    def _tell_of_epoch(self, partition: Partition) -> None:
        """Members that noticed nothing go on in the old epoch until they are assigned anew.

        Who noticed may have lost its ranges since: so whoever begins in the new one looks for them.
        """
        state, store, epoch = self._state, partition.store, partition.epoch
        if epoch <= partition.told_epoch:
            return
        partition.told_epoch = epoch
        # Where the log has lost records, it need not tell who is there.
        if epoch == partition.loss_epoch or any(
            tenure.record.epoch < epoch and tenure.id.member != state.name
            for tenure in store.tenures()
            if store.unreleased(tenure.id, tenure.ranges)
        ):
            state.nonce += 1
            state.actions.append(Rejoin(f"{partition.tp} is in epoch {epoch}, and not all know"))

    def _tell(self, tenure: Tenure, ranges: tuple[KeyRange, ...]) -> int:
        token = self._state.token()
        after = self._outbox.effects() if self._were_ours(tenure, ranges) else None
        self._state.actions.append(RangesAssigned(tenure.tp, ranges, token, after))
        return token

    def is_loading(self, tenure: Tenure) -> bool:
        """Whether the user's code has not yet said that it is ready for its ranges."""
        return any(loading is tenure for loading in self._loading.values())

    def ready(self, token: int) -> None:
        """The user's code has loaded what some ranges need: let their records come."""
        if token in self._freeing:
            tenure, hashes = self._freeing.pop(token)
            hashes = hashes & tenure.blocked.hashes - set(tenure.blocked.lingering)
            self._unhold(self._state.partition(tenure.tp), tenure, hashes)
            return
        tenure = self._loading.pop(token)
        if tenure.ranges:
            self._intake.feed(self._state.partition(tenure.tp), tenure)

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """A tenure's first record may or may not be in the log: send it again, it is the same."""
        del error
        self._resend.append((self._state.now_ms + _RESEND_MS, token))

    @property
    def resending(self) -> bool:
        """Whether a first record waits to be sent again."""
        return bool(self._resend)

    def resend_due(self) -> None:
        """Send first records again whose pause is over."""
        now_ms = self._state.now_ms
        for _, refused in [item for item in self._resend if item[0] <= now_ms]:
            tenure = self._beginning.pop(refused)
            # Its answer speaks of what is built now: it may be in smaller parts than before.
            self._append_first(self._state.partition(tenure.tp), tenure)
        self._resend = [item for item in self._resend if item[0] > now_ms]

    # ---- the user pauses, resumes, seeks -------------------------------------------------------

    def begin_anew(self, partition: Partition, offset: int | None) -> tuple[KeyRange, ...]:
        """Stop fetching a partition and forget what is queued of it; `feed` goes on.

        Args:
            partition: Which one.
            offset: None: go on with what is not done; else with everything from there on.

        Returns:
            The ranges that this concerns: those that have begun here.
        """
        self._intake.unfeed(partition)
        begun = [tenure for tenure in partition.tenures if tenure.begun]
        for tenure in begun:
            self._intake.begin_anew(partition, tenure, offset)
        return union(r for tenure in begun for r in tenure.ranges)

    def unfeed(self, partition: Partition) -> None:
        """Stop fetching a partition; what is queued of it goes on. `feed` fetches it again."""
        self._intake.unfeed(partition)

    def feed(self, partition: Partition) -> None:
        """Fetch again what was stopped; ranges that the user still loads come later."""
        loading = list(self._loading.values())
        for tenure in partition.tenures:
            if tenure.begun and tenure not in loading:
                self._intake.feed(partition, tenure)

    def _unblock(self, partition: Partition, tenure: Tenure) -> None:
        """Free the hashes whose handler elsewhere has ended, and learn what it finished."""
        blocked = tenure.blocked
        claimed = self._claimed(partition, blocked.waits, tenure.ranges)
        here = self._at_work_here(partition)
        here |= {h for t, hashes in self._freeing.values() if t is tenure for h in hashes}
        freed = {h for h in blocked.hashes if h not in here and not any(h in r for r in claimed)}
        waits = blocked.waits
        blocked.waits = self._open(partition, waits, singles(blocked.hashes - freed))
        if not freed:
            return
        self._warn_of_force(partition, waits, singles(freed))
        progress = self._progress(partition, tenure.epoch)
        facts = [fact for h in sorted(freed) for fact in progress.clip(KeyRange(h, h))]
        self._free(partition, tenure, freed, facts)

    def _free(
        self,
        partition: Partition,
        tenure: Tenure,
        freed: set[int],
        facts: Iterable[RangeProgress],
        *,
        is_ours: bool = False,
    ) -> None:
        """No handler is at these hashes any more: tell the user of those not told, run the rest.

        `is_ours`: the handler was this tenure's own, which knows more of its failures than the log.
        """
        tenure.blocked.foreign -= freed
        tenure.learn(facts)
        if not is_ours:
            tenure.attempts |= self._attempts_at(partition, tenure, freed)
        unnotified = freed & tenure.blocked.unnotified
        if unnotified:
            tenure.blocked.unnotified -= unnotified
            self._freeing[self._tell(tenure, singles(unnotified))] = tenure, unnotified
        self._unhold(partition, tenure, freed - unnotified)

    def _attempts_at(
        self, partition: Partition, tenure: Tenure, hashes: set[int]
    ) -> dict[int, Attempt]:
        """What has failed of these hashes, by who was at them: in the log, or here."""
        told = partition.store.attempts() if partition.store.epoch == tenure.epoch else {}
        for other in partition.all_tenures():
            if other is not tenure and other.shares_history(tenure):
                told |= other.attempts
        found = {offset: it for offset, it in told.items() if it.key_hash in hashes}
        if not found:
            return {}
        progress = self._progress(partition, tenure.epoch)
        return {o: it for o, it in found.items() if not progress.is_done(it.key_hash, o)}

    def _unhold(self, partition: Partition, tenure: Tenure, hashes: set[int]) -> None:
        tenure.blocked.free(hashes)
        self._intake.free(partition, tenure, hashes)

    def ask_for_unknown_tenures(self) -> bool:
        """Ask for a new assignment where we wait for a tenure that the log does not know.

        A static member that comes back gets its old assignment with an old wait list: what it
        names may be gone from the log, or of a run that is over. Only a new list of claims tells.
        """
        state = self._state
        for partition in state.partitions.values():
            if not partition.view.current:
                continue  # it is read again, as who leads does every 2 s: no news yet
            if not self._waits_for_unknown(partition):
                partition.unknown_since_ms = 0
            elif not partition.unknown_since_ms:
                partition.unknown_since_ms = state.now_ms
            elif state.now_ms - partition.unknown_since_ms > _UNKNOWN_TENURE_REJOIN_MS:
                partition.unknown_since_ms = state.now_ms
                state.nonce += 1
                state.actions.append(Rejoin(f"{partition.tp}: the wait list is out of date"))
                return True
        return False

    def _waits_for_unknown(self, partition: Partition) -> bool:
        waits = [(item.waits, item.ranges) for item in partition.waiting]
        waits += [
            (t.blocked.waits, singles(t.blocked.hashes))
            for t in partition.tenures
            if t.blocked.hashes
        ]
        if not any(others for others, _ in waits):
            return False
        known = {tenure.id for tenure in partition.store.tenures()}
        announced = partition.view.store.announced
        return any(
            (
                TenureId(wait.member, wait.incarnation, wait.number) not in known
                or ((run := announced(wait.member)) and run.incarnation != wait.incarnation)
            )
            and self._claimed(partition, (wait,), ranges)
            for others, ranges in waits
            for wait in others
        )

    # ---- the old owner -------------------------------------------------------------------------

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
        state = self._state
        running = self._intake.give_up(tenure, ranges)
        tenure.give_up(ranges, map(hash_of, running))
        partition.view.urgent = True
        state.counters.releases += 1
        blocked = tenure.blocked
        told = without(ranges, blocked.unnotified)
        if tenure.begun and told:
            state.actions.append((RangesLost if lost else RangesRevoked)(tenure.tp, told))
        blocked.unnotified = {h for h in blocked.unnotified if any(h in r for r in tenure.ranges)}
        if running:
            state.report(
                Level.INFO,
                f"{tenure.tp}: handlers of {len(running)} keys still run, of ranges that move: "
                + " ".join(map(str, ranges)),
            )
        self._settle(partition, tenure)

    def drained(self, tenure: Tenure, key_hash: int) -> None:
        """A handler whose lane was given up has ended: free its hash, here or for others."""
        partition = self._state.partition(tenure.tp)
        if key_hash in tenure.blocked.lingering:
            if tenure.blocked.lingered(key_hash):
                self._free_unclaimed(partition, tenure, key_hash, (), is_ours=True)
            return
        facts = tenure.drained(key_hash)
        partition.view.urgent = True
        if facts:
            for other in partition.tenures:
                shared = facts if other.shares_history(tenure) else ()
                self._free_unclaimed(partition, other, key_hash, shared)
        self._settle(partition, tenure)

    def _free_unclaimed(
        self,
        partition: Partition,
        tenure: Tenure,
        key_hash: int,
        facts: Iterable[RangeProgress],
        *,
        is_ours: bool = False,
    ) -> None:
        hash_alone = KeyRange(key_hash, key_hash)
        if key_hash not in tenure.blocked.hashes or partition.is_lost:
            return
        if not self._claimed(partition, tenure.blocked.waits, (hash_alone,)):
            # Others may have been at it while our handler ran, and released it since.
            told = self._progress(partition, tenure.epoch).clip(hash_alone)
            self._free(partition, tenure, {key_hash}, [*told, *facts], is_ours=is_ours)

    def _settle(self, partition: Partition, tenure: Tenure) -> None:
        """Put a tenure on the list where it belongs."""
        if not tenure.ranges and tenure in partition.tenures:
            partition.tenures.remove(tenure)
            partition.draining.append(tenure)
        self._intake.rearrange(partition)

    def rename_told(self, partition: Partition) -> None:
        """Tenures whose releases the log has go on under new names, see `Tenure.rename`.

        Not between a JoinGroup and its assignment: others wait for the names that it listed.
        """
        state = self._state
        if state.joining or state.closing:
            return
        for tenure in partition.tenures:
            told = tenure.released and tenure.released == tenure.logged.released
            if told and tenure.begun and not tenure.draining and tenure.logged.retired is None:
                tenure.rename(self._new_key(partition))

    def _new_key(self, partition: Partition) -> TenureKey:
        state = self._state
        tenure = TenureId(state.name, state.incarnation, state.tenure_number())
        return TenureKey(state.group, partition.topic_id, partition.tp.partition, tenure)

    def forget_ended(self, partition: Partition) -> None:
        """Drop tenures whose last record, with everything released, is in the log."""
        partition.draining = [
            tenure
            for tenure in partition.draining
            if tenure.draining or tenure.dirty or not tenure.begun
        ]
