"""Failures: a record whose handler raised waits, is tried again, and is given up at last. Pure.

In: lanes that failed, time, answers about dead letters. Out: lanes that may run again, and records
that count as done by policy. A failed record holds up its own key and no worker. Upholds I2, I4.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from coop_consumer.config import OnFailure
from coop_consumer.core.actions import DeadLetter, Level, LogLine
from coop_consumer.core.dead_letter import letter_of
from coop_consumer.core.effects import drop, file, new_attempt
from coop_consumer.core.failure import Failure
from coop_consumer.core.failure_lines import FailureLines, RefusedLines
from coop_consumer.core.lane import HELD, Lane
from coop_consumer.core.record import count_attempt, facts_of, place_of, where_of
from coop_consumer.core.retry import RetryPolicy, Rng
from coop_consumer.core.stop import Stop
from coop_consumer.core.tally import FailureReason, SkipReason, TopicTally, reason_of
from coop_consumer.core.trace import TraceOutcome, tell_end, tell_failure, trace_headers
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted
from offsets import Attempt, StopKey, StopRecord, encode_key, encode_value

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core.circuit import Circuit
    from coop_consumer.core.failure import Failure
    from coop_consumer.core.outbox import Outbox
    from coop_consumer.core.record import Record
    from coop_consumer.core.state import MemberState
    from coop_consumer.errors import CoopConsumerError
    from coop_consumer.log_events import Facts


class Failures:
    """Retries failed records and then applies `on.failure`.

    Args:
        state: The member.
        rng: Spreads the back-off.
        circuit: Tells which failures are no attempts.

    Attributes:
        owed: Parked records that are to be given up by `on.failure`, as a topic takes no such
            output as they have.
    """

    def __init__(self, state: MemberState, outbox: Outbox, rng: Rng, circuit: Circuit) -> None:
        config = state.config
        self._state = state
        self._outbox = outbox
        self._rng = rng
        self._circuit = circuit
        self._policy = RetryPolicy(
            config.max_attempts,
            config.tried_for_ms,
            config.attempt_backoff_ms,
            config.attempt_backoff_max_ms,
        )
        self._lines = FailureLines(state)
        self._refused = RefusedLines(state)
        self._backing_off: list[tuple[int, int, Lane]] = []
        self._count = 0
        self._dead: dict[int, Lane] = {}
        self.owed: dict[tuple[TopicPartition, int], Failure] = {}

    def collect(self) -> None:
        """Decide about every lane whose handler raised."""
        failed = self._state.lanes.failed
        while failed:
            self._failed(failed.popleft())

    def drained(self, record: Record, failure: Failure) -> None:
        """The handler of a hash that was given up has failed; the hash is not released yet.

        If the record has used up its attempts, it is parked, or `on.failure=skip` counts it as done
        (then it is in `finished` now). With the other two policies the next owner tries it once
        more: a dead letter would delay the handover until it is safe, and the group may be about to
        stop.
        """
        drop(record)
        is_attempt = self._circuit.failed(record, failure)
        tell_failure(record, failure, is_attempt=is_attempt)
        if not is_attempt:
            tell_end(record, TraceOutcome.MOVED)
            return
        is_skipped = self._is_used_up(record) and self._state.config.on_failure is OnFailure.SKIP
        self._note_given_up(record, failure)
        if is_skipped:
            self._report_skipped(record, failure)
            self._circuit.unprocessed()
            self._state.lanes.finished.append(record)
        tell_end(record, TraceOutcome.MOVED)

    def output_refused(self, record: Record, failure: Failure, *, is_letter: bool) -> None:
        """A topic takes no such output as a record has left behind; trying again does not help.

        It is parked, and its tenure goes back to what is committed. With another policy than `park`
        it is given up by that once its next tenure has it, see `give_up_owed`.

        Args:
            record: The record.
            failure: What the topic says.
            is_letter: The output is its dead letter.
        """
        self._state.counters.failures += 1
        self._tally(record).failed[FailureReason.OUTPUT_REFUSED] += 1
        self.note(record, failure, parked=True)
        record.tenure.refused[record._offset] = record.tenure.attempts[record._offset]
        if is_letter or self._state.config.on_failure is OnFailure.PARK:
            self._report_parked(record, failure)
        else:
            self.owed[record.tenure.tp, record._offset] = failure

    def give_up_owed(self, lane: Lane, tp: TopicPartition) -> None:
        """Give up the first record of a held lane, if it is parked for its output only."""
        record = lane.records[0]
        failure = self.owed.pop((tp, record._offset), None)
        if failure is not None:
            self._give_up(lane, record, failure)

    def _note_given_up(self, record: Record, failure: Failure) -> None:
        """Note it for the next owner, which holds the record if this was its last attempt."""
        parks = self._state.config.on_failure is OnFailure.PARK
        parked = parks and self._is_used_up(record)
        self.note(record, failure, parked=parked)
        if parked:
            self._report_parked(record, failure)

    def wait_after_fall_ms(self, lane: Lane) -> int | None:
        """How long the suspect at the head of a held lane waits; None: there is no need to try it.

        A record is given up after `max.attempts` attempts that ended with their processes.
        """
        record = lane.records[0]
        known = record.tenure.attempts.get(record._offset)
        if known is None or not known.fell:
            return None if known is not None and known.parked else 0
        if known.parked:
            return None
        wait_ms = self._policy.wait_ms(known.attempts, self._policy.for_ms, self._rng)
        if wait_ms is None:
            failure = Failure("ProcessEnded", f"{known.error}, and the process ended")
            count_attempt(record, known.attempts)
            parked = self._state.config.on_failure is OnFailure.PARK
            self.note(record, failure, parked=parked)
            self._give_up(lane, record, failure)
        return wait_ms

    def _failed(self, lane: Lane) -> None:
        assert lane.failure is not None, f"I4: {lane} failed without a failure"
        record, failure = lane.failure
        if lane.detached:
            drop(record)
            is_attempt = self._circuit.failed(record, failure)
            tell_failure(record, failure, is_attempt=is_attempt)
            if is_attempt:
                self._note_given_up(record, failure)
            tell_end(record, TraceOutcome.MOVED)
            return
        lane.failure = None  # it may wait for days
        state, where, tally = self._state, self._where(record), self._tally(record)
        state.counters.failures += 1
        is_attempt = self._circuit.failed(record, failure)
        tally.failed[reason_of(failure.kind) if is_attempt else FailureReason.OUTAGE] += 1
        record = lane.records[0] = new_attempt(record)
        if not is_attempt:
            state.counters.retries += 1
            tally.retried += 1
            backoff_ms = state.config.attempt_backoff_ms
            tell_failure(record, failure, backoff_ms, is_attempt=False)
            self._back_off(lane, backoff_ms)
            return
        wait_ms = self._policy.wait_ms(record._attempt, self._tried_ms(record), self._rng)
        tell_failure(record, failure, wait_ms)
        parked = wait_ms is None and state.config.on_failure is OnFailure.PARK
        self.note(record, failure, parked=parked)
        if wait_ms is not None:
            state.counters.retries += 1
            tally.retried += 1
            self._report(
                Level.WARNING,
                LogEvent.RECORD_FAILED,
                record,
                f"{where}: attempt {record._attempt} of {self._attempts_max()} failed "
                f"({failure.line}); again in {wait_ms} ms, its key waits, others go on",
                failure,
                with_traceback=record._attempt == 1,
            )
            count_attempt(record, record._attempt + 1)
            self._back_off(lane, wait_ms)
        else:
            self._give_up(lane, record, failure)

    def _attempts_max(self) -> str:
        """How often a record is tried, in words."""
        config = self._state.config
        for_ms = f" or more, for {config.tried_for_ms // 1_000} s" if config.tried_for_ms else ""
        return f"{config.max_attempts}{for_ms}"

    def _tried_ms(self, record: Record) -> int:
        """Milliseconds since its first failure, less those in which the circuit was open.

        Another member may have noted the first failure, by another clock. If that clock is ahead,
        the time begins at 0. If it is behind, only the number of attempts decides. Only the moment
        of giving up depends on this time.
        """
        known, now_ms = record.tenure.attempts.get(record._offset), self._state.now_ms
        if known is None or known.since_ms > now_ms:
            return 0
        return now_ms - known.since_ms - self._circuit.open_ms_since(known.since_ms)

    def _is_used_up(self, record: Record) -> bool:
        return self._policy.is_used_up(record._attempt, self._tried_ms(record))

    def note(
        self, record: Record, failure: Failure, *, parked: bool = False, fell: bool = False
    ) -> None:
        """Note an attempt of a record in its tenure, which drops the note when the record is done.

        Args:
            record: The record.
            failure: Why it failed, or what is wrong with its handler.
            parked: The attempt was the last one, and the record waits for a decision.
            fell: The attempt ends with its process.
        """
        tenure, known = record.tenure, record.tenure.attempts.get(record._offset)
        tenure.attempts[record._offset] = Attempt(
            offset=record._offset,
            key_hash=record._key_hash,
            attempts=record._attempt,
            parked=parked,
            error=failure.line,
            since_ms=min(known.since_ms, self._state.now_ms) if known else self._state.now_ms,
            fell=fell,
        )
        tenure.dirty = True

    def _back_off(self, lane: Lane, wait_ms: int) -> None:
        self._count += 1
        heapq.heappush(self._backing_off, (self._state.now_ms + wait_ms, self._count, lane))

    @property
    def backing_off(self) -> int:
        """How many keys wait for their next attempt, or until a topic takes their dead letter."""
        return sum(lane.state is HELD for _, _, lane in self._backing_off)

    def next_due_ms(self) -> int | None:
        """When the next back-off ends, or a line is due; None: neither."""
        of_lines = (self._lines.next_due_ms(), self._refused.next_due_ms())
        if not self._backing_off and of_lines == (None, None):
            return None
        dues = [due_ms for due_ms in of_lines if due_ms is not None]
        if self._backing_off:
            dues.append(self._backing_off[0][0])
        return min(dues)

    def resume_due(self) -> None:
        """Let lanes run, and send refused dead letters again, once their back-off is over."""
        state, has_closed = self._state, self._circuit.has_closed()
        self._lines.report_due()
        self._refused.report_due()
        if not self._backing_off:
            return
        if has_closed:  # do not wait longer for what an outage has failed
            dead = [it for it in self._backing_off if id(it[2]) in self._dead]
            due = [(0, n, lane) for _, n, lane in self._backing_off if id(lane) not in self._dead]
            self._backing_off = [*due, *dead]
            heapq.heapify(self._backing_off)
        while self._backing_off and self._backing_off[0][0] <= state.now_ms:
            lane = heapq.heappop(self._backing_off)[2]
            if lane.detached or lane.state is not HELD:
                self._dead.pop(id(lane), None)
                continue
            if id(lane) in self._dead:
                self._send_dead_letter(lane)
            else:
                with state.lock:
                    state.lanes.release_hold(lane)

    # ---- after the last attempt ----------------------------------------------------------------

    def _give_up(self, lane: Lane, record: Record, failure: Failure) -> None:
        state, tried = self._state, self._tried(record, failure)
        match state.config.on_failure:
            case OnFailure.PARK:
                self._report_parked(record, failure)
            case OnFailure.SKIP:
                self._report_skipped(record, failure)
                self.count_as_done(lane)
            case OnFailure.DEAD_LETTER:
                told = f"{tried}. It goes to the dead-letter topic"
                self._report(Level.WARNING, LogEvent.DEAD_LETTER_DUE, record, told, failure)
                if state.config.exactly_once:
                    self._leave_dead_letter(lane, record)
                    return
                self._dead[id(lane)] = lane
                self._send_dead_letter(lane)
            case OnFailure.STOP:
                told, facts = f"{tried}. The group stops by on.failure=stop", self._facts(record)
                facts["error"] = failure.kind
                state.report(Level.ERROR, LogEvent.GROUP_STOPS, told, failure, **facts)
                tell_end(record, TraceOutcome.STOPPED)
                self._stop_group(record, failure.line)

    def _tally(self, record: Record) -> TopicTally:
        return self._state.tally.of(record.tenure.tp.topic)

    def _where(self, record: Record) -> str:
        return where_of(record, self._state.config.log_keys)

    def _facts(self, record: Record) -> Facts:
        return facts_of(record, self._state.config.log_keys)

    def _tried(self, record: Record, failure: Failure) -> str:
        tried = counted(record._attempt, "time")
        return f"{self._where(record)}: failed {tried}, last with {failure.line}"

    def _report_parked(self, record: Record, failure: Failure) -> None:
        self._report(
            Level.ERROR,
            LogEvent.RECORD_PARKED,
            record,
            f"{self._tried(record, failure)}. Parked: its key waits, others go on. Try it again "
            f"with `{self._command('retry', record)}`; or count it as done, unprocessed, with "
            f"`{self._command('skip', record)}`.",
            failure,
        )
        tell_end(record, TraceOutcome.PARKED)

    def _report_skipped(self, record: Record, failure: Failure) -> None:
        self._state.counters.skipped += 1
        self._tally(record).skipped[SkipReason.POLICY] += 1
        told = f"{self._tried(record, failure)}. Skipped by on.failure=skip"
        self._report(Level.ERROR, LogEvent.RECORD_SKIPPED, record, told, failure)
        tell_end(record, TraceOutcome.SKIPPED)

    def _command(self, action: str, record: Record) -> str:
        state, tp = self._state, record.tenure.tp
        return state.config.command(action, state.group, tp, record._offset)

    def count_as_done(self, lane: Lane) -> None:
        """The first record of a held lane is done, unprocessed."""
        state = self._state
        self._circuit.unprocessed()
        with state.lock:
            state.lanes.finished.append(lane.records.pop(0))
            state.lanes.release_hold(lane)

    def _send_dead_letter(self, lane: Lane) -> None:
        record = lane.records[0]
        attempt = record.tenure.attempts[record._offset]
        trace = trace_headers(record)
        self._state.actions.append(DeadLetter(record, attempt.error, attempt.attempts, trace))

    def _leave_dead_letter(self, lane: Lane, record: Record) -> None:
        """The letter is all that the record leaves behind: it goes with its progress, once."""
        attempt, config = record.tenure.attempts[record._offset], self._state.config
        trace = trace_headers(record)
        letter = letter_of(record, attempt.error, attempt.attempts, config, trace)
        is_filed = file(record, letter)
        assert is_filed, f"I9: {place_of(record)} is over, and has a dead letter"
        self._state.counters.dead_lettered += 1
        self._tally(record).dead_lettered += 1
        tell_end(record, TraceOutcome.DEAD_LETTERED)
        self.count_as_done(lane)

    def dead_lettered(self, record: Record, error: CoopConsumerError | None) -> None:
        """A dead letter is safe: its record counts as done. With an error: send it again later."""
        state = self._state
        lane = next((x for x in self._dead.values() if x.records and x.records[0] is record), None)
        if lane is None:
            return
        if lane.detached:
            del self._dead[id(lane)]
            return
        if error is not None:
            self._refused.refused(record, error)
            self._back_off(lane, state.config.attempt_backoff_max_ms)
            return
        del self._dead[id(lane)]
        state.counters.dead_lettered += 1
        self._tally(record).dead_lettered += 1
        told = f"{self._where(record)}: sent to the dead-letter topic"
        self._report(Level.ERROR, LogEvent.DEAD_LETTER_SENT, record, told)
        tell_end(record, TraceOutcome.DEAD_LETTERED)
        self.count_as_done(lane)

    def _stop_group(self, record: Record, error: str) -> None:
        state = self._state
        partition = state.partition(record.tenure.tp)
        state.membership.stop = Stop(
            partition.tp.topic,
            partition.tp.partition,
            record._offset,
            error,
            state.name,
            state.membership.newest_generation,
        )
        key = StopKey(state.group, partition.topic_id, partition.tp.partition)
        value = StopRecord(record._offset, record._key_hash, error, state.name)
        self._outbox.append(partition.view, [(encode_key(key), encode_value(value))])
        self.stop_all()

    def stop_all(self) -> None:
        """Join again with the reason in our subscription, so that all members stop at once."""
        self._state.rejoin("the group stops")

    def report_decision(self, record: Record, action: str) -> None:
        """A person has decided about this record."""
        text = f"{self._where(record)}: {action} by decision in the log"
        self._report(Level.WARNING, LogEvent.RECORD_DECIDED, record, text)

    def _report(
        self,
        level: Level,
        event: LogEvent,
        record: Record,
        text: str,
        failure: Failure | None = None,
        *,
        with_traceback: bool = True,
    ) -> None:
        facts = self._facts(record)
        if failure is not None:
            facts["error"] = failure.kind
        self._lines.report(LogLine(level, event, text, facts, failure if with_traceback else None))
