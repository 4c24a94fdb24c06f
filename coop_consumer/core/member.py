"""One member of a group as a state machine: events in, actions out. Pure.

`MemberCore` is the one door: it puts each event before the part that decides about it, then lets
every part do what has become due. No thread, clock, chance or Kafka in here: time and chance are
arguments, and the shells (`coop_consumer.member.member`, the simulation) carry out the actions.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from coop_consumer.core import events
from coop_consumer.core.actions import Action, Level
from coop_consumer.core.announcing import Announcing
from coop_consumer.core.assignments import Assignments
from coop_consumer.core.beginning import Beginnings
from coop_consumer.core.busy_keys import BusyKeys
from coop_consumer.core.circuit import Circuit
from coop_consumer.core.claims import Claims
from coop_consumer.core.clearing import Clearing
from coop_consumer.core.closing import Closing
from coop_consumer.core.commits import Commits
from coop_consumer.core.condition import Condition, condition_of
from coop_consumer.core.data_loss import DataLoss
from coop_consumer.core.decisions import Decisions
from coop_consumer.core.doings import Doings
from coop_consumer.core.effects import Effects
from coop_consumer.core.ending import Endings
from coop_consumer.core.failures import Failures
from coop_consumer.core.freeing import Freeing
from coop_consumer.core.glimpse import Glimpse
from coop_consumer.core.glimpses import Glimpses
from coop_consumer.core.handover import Handover
from coop_consumer.core.hot import HotHashes
from coop_consumer.core.intake import Intake
from coop_consumer.core.lead import Lead
from coop_consumer.core.load_watch import LoadWatch
from coop_consumer.core.loads import Loads
from coop_consumer.core.log_reading import LogReading
from coop_consumer.core.metrics import MemberMetrics, metrics_now
from coop_consumer.core.mirror import Mirror
from coop_consumer.core.notices import Notices
from coop_consumer.core.orders import Orders
from coop_consumer.core.outbox import Outbox
from coop_consumer.core.outcomes import Outcomes
from coop_consumer.core.output_bound import OutputBound
from coop_consumer.core.overdue import Overdue
from coop_consumer.core.pressure import Pressure
from coop_consumer.core.record_size import split_smaller
from coop_consumer.core.refused_outputs import RefusedOutputs
from coop_consumer.core.requests import Requests
from coop_consumer.core.retry import Rng
from coop_consumer.core.settling import Settling
from coop_consumer.core.snapshot import Snapshot, is_caught_up, snapshot_of
from coop_consumer.core.standstill import Standstill
from coop_consumer.core.state import MemberState
from coop_consumer.core.subscription import claims_of, subscription_of
from coop_consumer.core.suspicion import Suspects
from coop_consumer.core.topic_starts import TopicStarts
from coop_consumer.core.waits import Waits
from coop_consumer.core.withdrawal import Withdrawal
from coop_consumer.errors import ProgressLogLostError, RecordTooLargeError, reason_of
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from assignors import Claim
    from coop_consumer.config import Config
    from coop_consumer.errors import CoopConsumerError

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
            lock or nullcontext(),
            breathe,
        )
        self.lanes = self.state.lanes
        self._contract = contract
        self._static = static
        self._refusal_due_ms = 0
        state = self.state
        effects = Effects(config.output_max_records, config.output_max_bytes)
        self.outbox = Outbox(state, effects)
        self.intake = Intake(state, effects)
        self.reading = LogReading(state)
        self.claims = Claims(state)
        self.notices = Notices(state, self.outbox)
        self.freeing = Freeing(state, self.intake, self.claims, self.notices)
        self.beginnings = Beginnings(state, self.outbox, self.claims, self.notices)
        self.endings = Endings(state, self.intake, self.notices, self.freeing)
        self.handover = Handover(
            state,
            self.intake,
            self.reading,
            self.claims,
            self.notices,
            self.freeing,
            self.beginnings,
            self.endings,
        )
        self.waits = Waits(state, self.notices)
        self.announcing = Announcing(state, self.outbox, static)
        self.pressure = Pressure(state, self.handover)
        self.hot = HotHashes(state, self.handover, self.intake.streams)
        self.loads = Loads(state, self.outbox)
        self.busy_keys = BusyKeys(state)
        self.commits = Commits(state, self.outbox, self.reading)
        self.mirror = Mirror(state)
        self.clearing = Clearing(state, self.outbox, self.reading)
        self.starts = TopicStarts(state, self.outbox, self.reading)
        self.withdrawal = Withdrawal(state, self.reading, self.endings, self.commits, self.mirror)
        self.closing = Closing(state, self.withdrawal, self.commits)
        self.lead = Lead(
            state,
            self.outbox,
            self.reading,
            self.handover,
            self.mirror,
            self.starts,
            self.closing,
        )
        self.circuit = Circuit(state)
        self.output_bound = OutputBound(state, effects)
        self.failures = Failures(state, self.outbox, rng, self.circuit)
        self.refused_outputs = RefusedOutputs(state, effects, self.handover, self.failures)
        self.decisions = Decisions(state, self.outbox, self.failures)
        self.suspects = Suspects(state, self.intake, self.failures, self.decisions)
        self.standstill = Standstill(state, self.intake.streams, self.reading, self.pressure)
        self.overdue = Overdue(state, self.failures, self.commits)
        self.glimpses = Glimpses(state, self.claims)
        self.doings = Doings(state)
        self.requests = Requests(state, self.reading, self.handover, self.commits)
        self.orders = Orders(state, self.closing, self.failures, contract, static)
        self.load_watch = LoadWatch(state)
        self.assignments = Assignments(
            state,
            self.reading,
            self.announcing,
            self.orders,
            self.handover,
            self.withdrawal,
            self.load_watch,
        )
        self.data_loss = DataLoss(state, self.intake.streams, self.handover, self.closing)
        self.outcomes = Outcomes(
            state, self.intake, self.endings, self.commits, self.circuit, self.failures
        )
        self.settling = Settling(
            state,
            self.reading,
            self.announcing,
            self.lead,
            self.handover,
            self.claims,
            self.decisions,
            self.orders,
            self.closing,
        )
        self._timed = (
            *(self.commits, self.failures, self.circuit, self.overdue, self.doings),
            self.suspects,
        )

    # ---- the door ------------------------------------------------------------------------------

    def handle(self, event: events.Event, now_ms: int) -> list[Action]:
        """Take in what happened; returns what is to be done, in order."""
        self.take(event, now_ms)
        return self.decide()

    def take(self, event: events.Event, now_ms: int) -> bool:
        """Take in what happened; returns whether `decide` may wait until others are taken in."""
        state = self.state
        state.now_ms = now_ms
        state.count_anew()
        if self.outcomes.collect() or not isinstance(event, events.Fetched | events.Tick):
            self.settling.moved()
        match event:
            case events.Fetched():
                self._fetched(event)
            case events.Tick():
                self._tick()
            case events.LogRead():
                self._log_read(event)
            case events.Appended() | events.CommitDone():
                self._appended(event)
            case events.AppendFailed():
                self._append_failed(event, is_final=event.is_final)
            case events.CommitRefused() | events.OutputRefused():
                self._commit_refused(event)
            case events.CommitInDoubt():
                self.commits.in_doubt(event.token, event.offsets)
            case events.Joining():
                self.assignments.joining()
            case events.Assigned():
                self.assignments.assigned(event)
                self.settling.advance_all()
            case events.Lost():
                self.assignments.lost(event.reason)
            case _:
                self._handle_rare(event)
        return self.pressure.has_room(event)

    def decide(self) -> list[Action]:
        """What is to be done now, in order; of one event, or of all that were taken in together.

        What is due is looked for in all partitions. So for a thousand of them, which bring
        thousands of events when they begin, it is looked for once for many.
        """
        state = self.state
        state.count_anew()
        self._do_due()
        state.count_anew()
        done, state.actions = state.actions, []
        return done

    def _fetched(self, event: events.Fetched) -> None:
        cut_at = self.intake.fetched(event)
        if cut_at is not None:
            self.settling.moved()
            self.data_loss.cut_off(event.tp, cut_at)
        partition = self.state.partitions.get(event.tp)
        if partition is not None and any(tenure.attempts for tenure in partition.tenures):
            self.settling.moved()
            self.decisions.apply(partition)  # of a record that was parked before it came to us

    def _handle_rare(self, event: events.Event) -> None:
        match event:
            case events.TopicsKnown():
                self.data_loss.topics_known(event)
                if self._static:
                    self.announcing.announce_everywhere()
            case events.CommittedRead():
                self.lead.committed(event.offsets)
                self.settling.advance_all()
            case events.CommittedUnknown():
                self.lead.committed_unknown(event.partitions)
            case events.OffsetsCommitted():
                self.mirror.answered(event.token, event.error)
                self.settling.advance_all()
            case events.OffsetResolved():
                self.lead.resolved(event.tp, event.offset)
            case events.OutOfRange():
                self.data_loss.out_of_range(event)
            case events.DeadLettered():
                self.failures.dead_lettered(event.record, event.error)
            case events.AssignAlone():
                self.assignments.assigned_alone(event)
                self.settling.advance_all()
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
                self._handle_own(event)

    def _tick(self) -> None:
        self.orders.ask_due()
        self.announcing.retry()
        if self.settling.is_due:
            self.settling.advance_all()
            self.waits.report_due()

    def _handle_own(self, event: events.Event) -> None:
        """Handle what the process itself brings about, or is told about its clients."""
        match event:
            case events.RangesReady():
                self.handover.ready(event.token)
                if event.error is not None:
                    self.closing.begin(event.error)
            case events.CapacityChanged():
                self.state.membership.capacity = event.capacity
            case events.Fatal():
                self.assignments.lose_all()
                self.closing.begin(event.error)
            case events.Close():
                self.closing.begin(None)
            case events.LogLost():
                self.closing.lose_log(event.error)
            case events.ReadBlocked():
                self.reading.blocked(event.blocked)
                self.standstill.read_blocked(event.blocked.log_partition)
            case events.FetchBlocked():
                self.standstill.fetch_blocked(event.waits)
            case events.Fenced():
                self.reading.fenced(event)
            case events.EndsTold():
                self.standstill.ends_told(event)
            case events.MembershipConfirmed():
                self.announcing.confirmed(event)
                self.settling.advance_all()
            case _:
                self._handle_figures(event)

    def _handle_figures(self, event: events.Event) -> None:
        """Take in what only the shell can measure."""
        match event:
            case events.BrokersAway():
                self.closing.brokers_away(is_away=event.is_away)
            case events.Flushed():
                self.state.tally.flush.observe(event.seconds)
            case events.ClientFigures():
                self.state.tally.clients[event.role] = event.figures
            case _:
                raise AssertionError(f"{event!r} has no handler")

    def _do_due(self) -> None:
        state = self.state
        self.settling.advance_wanted()
        self.overdue.look_due()
        # The release of a range carries what fails while the range is given up.
        if self.outcomes.collect():
            self.settling.moved()
        self.failures.resume_due()
        self.intake.file_held_back()
        while self.intake.parked:
            self.decisions.apply(state.partition(self.intake.parked.pop()))
        self.output_bound.look()
        self.circuit.look_due()
        self.doings.look_due()
        self.standstill.look_due()
        self.beginnings.resend_due()
        self.suspects.look_due()
        if not self.closing.log_lost:
            self.commits.commit_due(now=state.membership.closing)
        self._look_after_led()
        self.load_watch.look_due()
        self.requests.answer_due()
        self.hot.look()
        self.busy_keys.look_due()
        if not self.closing.log_lost:
            self.loads.look_due()
        self.pressure.hold_or_resume()
        self.settling.follow_due()
        self.withdrawal.answer_due()
        membership = state.membership
        if membership.stop is not None and membership.alone and not membership.closing:
            self.orders.stop(membership.stop)
        if membership.closing and not membership.left:
            self.closing.step()

    def _look_after_led(self) -> None:
        """Mirror what we lead; at the interval, note topics and clear the log as well."""
        if not self.state.membership.is_member:
            return
        led = self.mirror.mirror_due()
        if led is not None:
            self.starts.note(led)
            self.clearing.clear_due(led)

    def next_wake_ms(self) -> int:
        """When `Tick` is wanted at the latest, if nothing else happens before."""
        state = self.state
        due_ms = state.now_ms + _IDLE_MS
        if state.membership.is_member:  # else nothing is mirrored, however long it is due
            due_ms = min(due_ms, self.mirror.next_due_ms())
        if state.pending():  # executors notify of few records only: what they finish is found then
            due_ms = min(due_ms, state.now_ms + state.config.commit_interval_ms)
        for part in self._timed:
            part_ms = part.next_due_ms()
            if part_ms and part_ms < due_ms:
                due_ms = part_ms
        if (
            state.membership.closing
            or self.withdrawal.awaited
            or not self.settling.is_over
            or self.beginnings.resending
        ):
            due_ms = min(due_ms, state.now_ms + _UNSETTLED_MS)
        return max(due_ms, state.now_ms + 1)

    # ---- membership ----------------------------------------------------------------------------

    def subscription(self) -> bytes:
        """The user data of our next JoinGroup. Call it after `Joining`."""
        return subscription_of(self.state, self._contract, self.claims_held())

    def claims_held(self) -> tuple[Claim, ...]:
        """What that says of the ranges that we hold or drain."""
        return claims_of(self.state, self.loads, log_lost=self.closing.log_lost)

    # ---- the progress log ----------------------------------------------------------------------

    def _log_read(self, event: events.LogRead) -> None:
        view = self.reading.take(event)
        if view is None:
            return
        if event.restart and self.state.config.exactly_once:
            problem = f"partition {event.log_partition} has lost records"
            self.closing.lose_log(ProgressLogLostError(self.state.config.progress_log, problem))
        for partition in self.state.partitions.values() if event.records else ():
            if partition.view is view:
                self.claims.drop_finished_waits(partition)
                self.handover.fence_fallen(partition)
        if event.complete and event.records:
            self.mirror.progressed()
        if event.complete:
            match self.commits.decided():
                case events.CommitDone() as done:
                    self._appended(done)
                case events.CommitRefused() as refused:
                    self._commit_refused(refused)
                case None:
                    pass
            self.settling.advance(view)

    def _appended(self, event: events.Appended | events.CommitDone) -> None:
        if isinstance(event, events.CommitDone) and self.state.config.exactly_once:
            self.commits.timed(event)
        owner = self.outbox.appended(event.token, event.offsets)
        if owner is self.announcing:
            self.settling.advance_all()
        elif owner is self.commits:
            self.mirror.progressed()
            for partition in self.state.partitions.values():
                if not partition.view.schedule.appending:
                    self.endings.committed(partition)

    def _commit_refused(self, event: events.CommitRefused | events.OutputRefused) -> None:
        if isinstance(event, events.OutputRefused):
            self.outbox.forget(event.token)
            self.commits.taken_back(event.token)
            self.refused_outputs.refused(event)
            return
        if event.why is events.Refusal.STALE:
            self.commits.refused_by_group(event.token)
        again = (events.Refusal.RETRY, events.Refusal.STALE)
        self._append_failed(event, is_final=event.why not in again)

    def _append_failed(
        self, event: events.AppendFailed | events.CommitRefused, *, is_final: bool
    ) -> None:
        if is_final:
            self.closing.lose_log(event.error)
            return
        if isinstance(event.error, RecordTooLargeError):
            split_smaller(self.state, event.token)
        owner = self.outbox.append_failed(event.token, event.error)
        if owner is None:
            self._report_append(
                Level.ERROR,
                LogEvent.PROGRESS_LOG_APPEND_FAILED,
                event.error,
                "It is not sent again. If this member stops by on.failure=stop, the others do not "
                "hear of it: end them, too. Else a decision only stays in the topic for longer.",
            )
        elif owner is not self.commits and self.state.now_ms >= self._refusal_due_ms:
            self._refusal_due_ms = self.state.now_ms + _REFUSAL_AGAIN_MS
            self._report_append(
                Level.WARNING,
                LogEvent.PROGRESS_LOG_APPEND_REFUSED,
                event.error,
                "It is sent again; ranges may begin later.",
            )

    def _report_append(
        self, level: Level, event: LogEvent, error: CoopConsumerError, now: str
    ) -> None:
        config = self.state.config
        check = config.command("doctor", "--group", self.state.group)
        told = (
            f"progress topic {config.progress_log}: it has not taken a record "
            f"({reason_of(error)}). {now} Nothing is lost. `{check}` checks topic, brokers and "
            "rights"
        )
        self.state.report(level, event, told, error=error)

    # ---- what others ask -----------------------------------------------------------------------

    @property
    def caught_up(self) -> bool:
        """Whether everything assigned (if anything is) is processed up to its end as last seen."""
        return is_caught_up(self.state)

    def snapshot(self) -> Snapshot:
        """How it stands now, for others than its thread."""
        return snapshot_of(self.state, self.loads.record())

    def metrics(self) -> MemberMetrics:
        """What it counts, and how it stands now, for others than its thread. O(lanes)."""
        self.lanes.work.look(self.state.now_ms, self.state.tally)
        with self.state.lock:
            census = self.lanes.census()
        return metrics_now(
            self.state,
            census,
            bound=self.pressure.bound,
            held_ms=self.pressure.held_ms(),
            backing_off=self.failures.backing_off,
            overdue=self.overdue.count,
            commit_age_ms=self.commits.age_ms(),
            waiting=self.waits.count(),
        )

    def glimpse(self) -> Glimpse:
        """What runs, what failed, what it holds, for a person who looks. O(lanes)."""
        return self.glimpses.now(self.overdue.since)

    def condition(self) -> Condition:
        """The same, as far as probes need it."""
        return condition_of(self.state, self.waits.present())

    def check(self) -> None:
        """Assert the invariants of every part (I1, I2, I4, I8, I10)."""
        with self.state.lock:
            self.lanes.check()
        for partition in self.state.partitions.values():
            partition.check()
