"""One member of a group as a state machine: events in, actions out. Pure.

`MemberCore` is the one door: it puts each event before the part that decides about it, then lets
every part do what has become due. No thread, clock, chance or Kafka in here: time and chance are
arguments, and the shells (`coop_consumer.member.member`, the simulation) carry out the actions.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING

from assignors import (
    WHOLE,
    AssignmentData,
    KeyRange,
    Subscription,
    encode_subscription,
    subtract,
    union,
)
from coop_consumer.core import actions, events
from coop_consumer.core.actions import Action, Level
from coop_consumer.core.announcing import Announcing
from coop_consumer.core.circuit import Circuit
from coop_consumer.core.closing import Closing
from coop_consumer.core.commits import Commits
from coop_consumer.core.data_loss import DataLoss
from coop_consumer.core.decisions import Decisions
from coop_consumer.core.doings import Doings
from coop_consumer.core.effects import Effects
from coop_consumer.core.failures import Failures
from coop_consumer.core.handover import Handover
from coop_consumer.core.intake import Intake
from coop_consumer.core.lanes import Lane, hash_of
from coop_consumer.core.lead import Lead
from coop_consumer.core.orders import Orders
from coop_consumer.core.outbox import Outbox
from coop_consumer.core.overdue import Overdue
from coop_consumer.core.pressure import Pressure
from coop_consumer.core.requests import Requests
from coop_consumer.core.retry import Rng
from coop_consumer.core.snapshot import Snapshot, snapshot_of
from coop_consumer.core.standstill import Standstill
from coop_consumer.core.state import Announcement, LogView, MemberState, Partition
from coop_consumer.core.stop import Stop
from coop_consumer.core.suspicion import Suspects
from coop_consumer.core.waits import Waits
from coop_consumer.core.withdrawal import Withdrawal
from coop_consumer.errors import RecordTooLargeError
from offsets import ProgressStore

if TYPE_CHECKING:
    from coop_consumer.config import Config

_IDLE_MS = 1_000
_UNSETTLED_MS = 100
_REFUSAL_AGAIN_MS = 10_000


class MemberCore:
    """Decides everything that one member does.

    Args:
        config: The member's configuration.
        name: Unique in the group; a static member's `group.instance.id`.
        incarnation: Names this run of it: 64 bits.
        log_partitions: How many partitions the progress topic has.
        contract: What all members must agree on.
        rng: Chance, for back-off.
        lock: Guards the lanes where executors are threads.
        breathe: Lets other threads run; called between steps of long work.
        static: Whether an earlier run of the same name may have left tenures behind.
    """

    def __init__(
        self,
        config: Config,
        *,
        name: str,
        incarnation: int,
        log_partitions: int,
        contract: str,
        rng: Rng,
        lock: AbstractContextManager[object] | None = None,
        breathe: Callable[[], None] = lambda: None,
        static: bool = False,
    ) -> None:
        self.state = MemberState(
            config,
            name,
            incarnation,
            log_partitions,
            lock=lock or nullcontext(),
            breathe=breathe,
        )
        self.lanes = self.state.lanes
        self._contract = contract
        self._static = static
        self._is_unsettled = False
        self._refusal_due_ms = 0
        effects = Effects()
        self.outbox = Outbox(self.state, effects)
        self.intake = Intake(self.state, effects)
        self.handover = Handover(self.state, self.outbox, self.intake)
        self.waits = Waits(self.state, self.handover)
        self.announcing = Announcing(self.state, self.outbox, static=static)
        self.pressure = Pressure(self.state, self.handover)
        self.commits = Commits(self.state, self.outbox)
        self.lead = Lead(self.state, self.outbox, self.handover)
        self.circuit = Circuit(self.state)
        self.failures = Failures(self.state, self.outbox, rng, self.circuit)
        self.decisions = Decisions(self.state, self.outbox, self.failures)
        self.suspects = Suspects(self.state, self.intake, self.failures, self.decisions)
        self.standstill = Standstill(self.state, self.intake, self.handover, self.pressure)
        self.overdue = Overdue(self.state, self.failures, self.commits)
        self.doings = Doings(self.state)
        self.requests = Requests(self.state, self.handover, self.commits)
        self.withdrawal = Withdrawal(self.state, self.handover, self.commits, self.lead)
        self.closing = Closing(self.state, self.withdrawal)
        self.orders = Orders(self.state, self.closing, contract=contract, static=static)
        self.data_loss = DataLoss(self.state, self.intake, self.handover, self.closing)
        self._timed = (
            *(self.commits, self.failures, self.circuit, self.overdue, self.doings),
            self.suspects,
        )

    # ---- the door ------------------------------------------------------------------------------

    def handle(self, event: events.Event, now_ms: int) -> list[Action]:
        """Take in what happened; returns what is to be done, in order."""
        state = self.state
        state.now_ms = now_ms
        state.count_anew()
        self._collect()
        match event:
            case events.Fetched():
                self._fetched(event)
            case (
                events.Tick()
                | events.RangesReady()
                | events.CapacityChanged()
                | events.Close()
                | events.Fatal()
                | events.LogLost()
                | events.EndsTold()
                | events.MembershipConfirmed()
            ):
                self._handle_own(event)
            case events.LogRead():
                self._log_read(event)
            case events.Appended() | events.CommitDone():
                self._appended(event)
            case events.AppendFailed():
                self._append_failed(event, is_final=event.is_final)
            case events.CommitRefused():
                self._append_failed(event, is_final=event.why is not events.Refusal.RETRY)
            case events.Joining():
                state.joining = True
                self.announcing.joining()
            case events.Assigned():
                self._assigned(event)
            case events.Lost():
                self._lost(event)
            case _:
                self._handle_rare(event)
        state.count_anew()
        self._do_due()
        state.count_anew()
        done, state.actions = state.actions, []
        return done

    def _fetched(self, event: events.Fetched) -> None:
        cut_at = self.intake.fetched(event)
        if cut_at is not None:
            self.data_loss.cut_off(event.tp, cut_at)
        partition = self.state.partitions.get(event.tp)
        if partition is not None and any(tenure.attempts for tenure in partition.tenures):
            self.decisions.apply(partition)  # of a record that was parked before it came to us

    def _handle_rare(self, event: events.Event) -> None:
        match event:
            case events.TopicsKnown():
                self.data_loss.topics_known(event.topics)
                if self._static:
                    self.announcing.announce_everywhere()
            case events.CommittedRead():
                self.lead.committed(event.offsets)
                self._advance_all()
            case events.CommittedUnknown():
                self.lead.committed_unknown(event.partitions)
            case events.OffsetsCommitted():
                self.lead.offsets_committed(event.token, event.error)
                self._advance_all()
            case events.OffsetResolved():
                self.lead.resolved(event.tp, event.offset)
            case events.OutOfRange():
                self.data_loss.out_of_range(event)
            case events.DeadLettered():
                self.failures.dead_lettered(event.record, event.error)
            case events.AssignAlone():
                self._assigned_alone(event)
            case events.Withdraw():
                self.withdrawal.ask(event.token)
            case (
                events.CommitNow()
                | events.TellProgress()
                | events.Pause()
                | events.Resume()
                | events.Seek()
            ):
                self.requests.handle(event)
            case _:
                raise AssertionError(f"{event!r} has no handler")

    def _handle_own(
        self,
        event: (
            events.Tick
            | events.RangesReady
            | events.CapacityChanged
            | events.Close
            | events.Fatal
            | events.LogLost
            | events.EndsTold
            | events.MembershipConfirmed
        ),
    ) -> None:
        match event:
            case events.Tick():
                self.orders.ask_due()
                self.announcing.retry()
                self._advance_all()
                self.waits.tell_due()
            case events.RangesReady():
                self.handover.ready(event.token)
                if event.error is not None:
                    self.closing.begin(event.error)
            case events.CapacityChanged():
                self.state.capacity = event.capacity
            case events.Fatal():
                self.state.metadata = events.NO_MEMBER
                self.handover.lose_all()
                self.closing.begin(event.error)
            case events.Close():
                self.closing.begin(None)
            case events.LogLost():
                self.closing.lose_log(event.error)
            case events.EndsTold():
                self.standstill.ends_told(event)
            case events.MembershipConfirmed():
                self.announcing.confirmed(event)
                self._advance_all()

    def _collect(self) -> None:
        """Take in what executors have finished, failed and drained."""
        lanes = self.lanes
        if lanes.ended:
            with self.state.lock:
                lanes.settle()
        if not (lanes.finished or lanes.drained or lanes.failed):
            return
        # Executors settle, too: what has drained only now may have finished a record only now.
        drained = [lanes.drained.popleft() for _ in range(len(lanes.drained))]
        self._collect_finished()
        if not (drained or lanes.failed):
            return
        if lanes.failed:
            self.failures.collect()
        for entry in drained:
            if isinstance(entry, Lane) and entry.failure is not None:
                self.failures.drained(*entry.failure)
        self._collect_finished()  # what was skipped, while its hash is ours
        for entry in drained:
            self.handover.drained(entry.tenure, hash_of(entry))

    def _collect_finished(self) -> None:
        if self.lanes.finished:
            if self.circuit.is_open:
                self.circuit.look_at(list(self.lanes.finished))
            count = self.intake.collect()
            self.commits.finished(count)
            self.circuit.finished(count)

    def _do_due(self) -> None:
        state = self.state
        self.overdue.look_due()
        self._collect()  # what fails while its range is given up is told with the release
        self.failures.resume_due()
        self.circuit.look_due()
        self.doings.look_due()
        self.standstill.look_due()
        self.handover.resend_due()
        self.suspects.look_due()
        if not self.closing.log_lost:
            self.commits.commit_due(now=state.closing)
        self.lead.look_after()
        self.requests.answer_due()
        self.pressure.hold_or_resume()
        self._follow()
        self.withdrawal.answer_due()
        if state.closing and not state.left:
            self.closing.step()

    def next_wake_ms(self) -> int:
        """When `Tick` is wanted at the latest, if nothing else happens before."""
        state = self.state
        due_ms = state.now_ms + _IDLE_MS
        if state.generation >= 0:  # without one the lead does nothing, so it is never done either
            due_ms = min(due_ms, self.lead.next_due_ms())
        if state.pending():  # executors tell of few records only: what they finish is found then
            due_ms = min(due_ms, state.now_ms + state.config.commit_interval_ms)
        for part in self._timed:
            part_ms = part.next_due_ms()
            if part_ms and part_ms < due_ms:
                due_ms = part_ms
        if (
            state.closing
            or self.withdrawal.awaited
            or self._is_unsettled
            or self.handover.resending
        ):
            due_ms = min(due_ms, state.now_ms + _UNSETTLED_MS)
        return max(due_ms, state.now_ms + 1)

    # ---- membership ----------------------------------------------------------------------------

    def subscription(self) -> bytes:
        """The user data of our next JoinGroup. Call it after `Joining`."""
        state, config = self.state, self.state.config
        claims = [
            claim
            for tp in sorted(state.partitions)
            for tenure in state.partitions[tp].all_tenures()
            if tenure.key.topic_id == state.partitions[tp].topic_id  # else of a deleted topic
            for claim in tenure.claims(log_lost=self.closing.log_lost)
        ]
        return encode_subscription(
            Subscription(
                name=state.name,
                incarnation=state.incarnation,
                host=config.host_name,
                capacity=state.capacity,
                allow_sharing=config.allow_individual_commit and config.ordering != "partition",
                contract=self._contract,
                nonce=state.nonce,
                stop=state.stop.text() if state.stop else "",
                leaving=state.closing,
                claims=tuple(claims),
            )
        )

    def _assigned(self, event: events.Assigned) -> None:
        state, data = self.state, event.data
        state.metadata, state.joining = event.metadata, False
        self.announcing.assigned()
        state.members, state.live = max(data.members, 1), data.live
        self.orders.heed(event)
        ranges = {} if state.closing else dict(data.ranges)
        led = set(data.split) if data.lead == state.name else set()
        led |= {tp for tp, own in ranges.items() if own == (WHOLE,)}
        for tp in sorted(led | set(state.partitions)):
            self._set_leading(state.partition(tp), leading=tp in led)
        kept = self.withdrawal.kept()
        self.handover.assign(ranges, data.waits, data.epochs)
        self.orders.miss_partitions(data)
        if event.plain and any(tp not in ranges for tp in kept):
            state.actions.append(actions.Rejoin("what a plain leader took away is nobody's yet"))
        self._advance_all()

    def _assigned_alone(self, event: events.AssignAlone) -> None:
        """Without a group everybody leads the partitions it has, as generation 0 of itself.

        Two leads of one partition agree: the first base record of an epoch counts for both.
        """
        state = self.state
        state.alone = True
        data = AssignmentData(
            ranges=event.ranges,
            lead=state.name,
            split=tuple(sorted(tp for tp, ranges in event.ranges.items() if ranges != (WHOLE,))),
        )
        self._assigned(events.Assigned(events.GroupMetadata(0), data))

    def _set_leading(self, partition: Partition, *, leading: bool) -> None:
        if leading and not partition.leading:
            partition.epoch, partition.committed_known = 0, False
            self.handover.read(partition.view)
        partition.leading = leading
        partition.view.uncleared |= leading
        partition.view.cleared_to = 0

    def _lost(self, event: events.Lost) -> None:
        state = self.state
        state.metadata = events.NO_MEMBER
        state.report(Level.WARNING, f"not a member any more: {event.reason}; joining again")
        self.handover.lose_all()

    # ---- the progress log ----------------------------------------------------------------------

    def _log_read(self, event: events.LogRead) -> None:
        view = self.state.views.get(event.log_partition)
        if view is None:
            return
        if event.restart:
            self._forget(view)
        for record in event.records:
            view.store.apply(record)
        for partition in self.state.partitions.values():
            if event.records and partition.view is view:
                self.handover.strike_off(partition)
        view.end_offset = event.end_offset
        if not event.complete:
            return
        view.complete = max(view.complete, event.complete)
        if event.records:
            self.lead.news()
        for partition in list(self.state.partitions.values()):
            # Another partition's view may hold the start of the topic, which it waits for.
            if partition.view is view or (partition.leading and not partition.epoch):
                self._advance(partition)

    def _forget(self, view: LogView) -> None:
        """Records of the log are gone, also of ours: what it holds is read and ours told anew."""
        view.store, view.complete = ProgressStore(self.state.group), 0
        view.unreadable, view.told_offset = 0, -1
        if view.announcement in (Announcement.IN_LOG, Announcement.CONTESTED):
            view.announcement = Announcement.NOT
        for partition in self.state.partitions.values():
            if partition.view is view:
                partition.committed_known, partition.doubted = False, None
                for tenure in partition.all_tenures():
                    tenure.dirty = True

    def _advance_all(self) -> None:
        for partition in list(self.state.partitions.values()):
            if self._unsettled(partition):
                self._advance(partition)
        self.handover.ask_for_unknown_tenures()

    @staticmethod
    def _unsettled(partition: Partition) -> bool:
        """Whether something here waits for the log, a tag, or another member."""
        return bool(
            partition.waiting
            or (partition.leading and not partition.epoch)
            or (partition.is_lost and not partition.idle)
            or any(tenure.blocked.hashes for tenure in partition.tenures)
        )

    def _advance(self, partition: Partition) -> None:
        """Do the next step of whatever waits in this partition."""
        if not self.closing.log_lost:
            self.announcing.announce(partition.view)
        self.lead.agree(partition)
        self.handover.begin_what_is_free(partition)
        self.decisions.apply(partition)
        self._heed_stop(partition)
        self._tell_unreadable(partition.view)

    def _tell_unreadable(self, view: LogView) -> None:
        """Say once what the log holds that we cannot read, and so pass over."""
        reasons = view.store.unreadable
        news = sum(reasons.values()) - view.unreadable
        if news <= 0:
            return
        view.unreadable += news
        self.state.counters.unreadable += news
        told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        self.state.report(
            Level.WARNING,
            f"progress log, partition {view.log_partition}: cannot read {told}. Passed over: what "
            "they tell is done again, nothing is lost. If members of a newer version run, upgrade "
            "this one; else look for a stranger who writes to the progress topic.",
        )

    def _heed_stop(self, partition: Partition) -> None:
        """A stop that lies after our announcement is meant for us as well."""
        state, view = self.state, partition.view
        if (
            state.stop
            or state.closing
            or view.announcement < Announcement.IN_LOG
            or not view.current
        ):
            return
        stop = view.store.stop(after_offset=view.announce_offset)
        if stop is not None:
            told, topic_id = stop.record, stop.key.topic_id
            topic = next((t for t, (id_, _) in state.topics.items() if id_ == topic_id), "?")
            state.stop = Stop(
                topic,
                stop.key.partition,
                told.offset,
                told.reason,
                told.member,
                state.newest_generation,
            )
            self.failures.tell_all_to_stop()

    def _appended(self, event: events.Appended | events.CommitDone) -> None:
        owner = self.outbox.appended(event.token, event.offsets)
        if owner is self.announcing:
            self._advance_all()
        elif owner is self.commits:
            self.lead.news()
            for partition in self.state.partitions.values():
                if not partition.view.appending:
                    self.handover.forget_ended(partition)
                    self.handover.rename_told(partition)

    def _append_failed(
        self, event: events.AppendFailed | events.CommitRefused, *, is_final: bool
    ) -> None:
        if is_final:
            self.closing.lose_log(event.error)
            return
        if isinstance(event.error, RecordTooLargeError):
            self.state.split_smaller(event.token)
        owner = self.outbox.append_failed(event.token, event.error)
        if owner is None:
            self.state.report(Level.ERROR, f"progress log: {event.error}")
        elif owner is not self.commits and self.state.now_ms >= self._refusal_due_ms:
            self._refusal_due_ms = self.state.now_ms + _REFUSAL_AGAIN_MS
            self.state.report(
                Level.WARNING, f"progress log: a record is not taken, and sent again: {event.error}"
            )

    def _follow(self) -> None:
        """Follow the log where we wait or lead; a settled member reads nothing."""
        state = self.state
        unsettled = [p for p in state.partitions.values() if self._unsettled(p)]
        self._is_unsettled = bool(unsettled)
        wanted = {
            id(p.view)
            for p in state.partitions.values()
            if p in unsettled
            or (p.leading and p.assigned != (WHOLE,))
            or any(a.parked for t in p.tenures if t.attempts for a in t.attempts.values())
        }
        for view in state.views.values():
            follow = id(view) in wanted
            if follow != view.following:
                view.following = follow
                state.actions.append(actions.FollowLog(view.log_partition, follow))

    # ---- what others ask -----------------------------------------------------------------------

    @property
    def caught_up(self) -> bool:
        """Whether everything assigned (if anything is) is processed up to its end as last seen."""
        state = self.state
        assigned = [p for p in state.partitions.values() if p.assigned]
        return state.generation >= 0 and all(
            not p.waiting
            and (p.main is not None or p.tp in state.paused)  # else its end is not looked at
            and p.end_offset >= 0
            and all(t.begun and t.tracker.stable >= p.end_offset for t in p.tenures)
            for p in assigned
        )

    def snapshot(self) -> Snapshot:
        """How it stands now, for others than its thread."""
        return snapshot_of(self.state)

    def check(self) -> None:
        """Assert the invariants of every part (I1, I2, I4, I8, I10)."""
        with self.state.lock:
            self.lanes.check()
        for partition in self.state.partitions.values():
            self.check_partition(partition)

    @staticmethod
    def check_partition(partition: Partition) -> None:
        """Assert the invariants of what is held of a partition (I1, I2, I4, I10)."""
        # A hash may be blocked in one tenure while an older one drains it.
        held = sorted(
            r
            for tenure in partition.all_tenures()
            for r in subtract(
                subtract(tenure.held, union(KeyRange(h, h) for h in tenure.blocked.hashes)),
                partition.store.forced(tenure.id, tenure.held),
            )
        )
        for one, other in pairwise(held):
            assert one.hi < other.lo, f"I1: {partition.tp}: {one} and {other} are held twice"
        for tenure in partition.all_tenures():
            tenure.check()
