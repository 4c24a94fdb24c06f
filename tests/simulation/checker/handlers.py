"""I4, I5, plain: the order in which handlers begin, and the records that begin again.

In: every start and end of a handler. Out: an `Execution` for each.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from assignors import TopicPartition
from coop_consumer.core.record import Record
from tests.simulation.checker.history import Buffered, Execution, Failure, History

if TYPE_CHECKING:
    from tests.simulation.checker.attempts import AttemptCheck
    from tests.simulation.checker.circuit import CircuitCheck
    from tests.simulation.checker.states import StateCheck
    from tests.simulation.checker.truth import Truth
    from tests.simulation.data_log import SimMessage
    from tests.simulation.flusher import SimEffect
    from tests.simulation.plain import PlainShell
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


class HandlerCheck:
    """Follows handlers."""

    def __init__(
        self,
        world: World,
        truth: Truth,
        attempts: AttemptCheck,
        circuit: CircuitCheck,
        states: StateCheck,
    ) -> None:
        self._world, self._truth, self._states = world, truth, states
        self._attempts, self._circuit = attempts, circuit

    def started(self, shell: MemberShell, record: Record) -> Execution:
        """Check a handler that starts."""
        tenure = record.tenure
        watched, lane = self._truth.watched[tenure.tp], self._truth.lane(record.key, record.offset)
        history = self._truth.history(tenure)
        self._circuit.begins(record)
        assert not shell.is_crowded, (
            f"I8: {record} starts in {shell.title}, where too many outputs wait"
        )
        mine = Execution(shell, shell.seat, tenure, lane, watched, history)
        assert any(record.key_hash in r for r in tenure.ranges), (
            f"I4: {record} starts in {shell.title}, which has given its key up: {tenure}"
        )
        assert record.key_hash not in tenure.blocked.hashes, (
            f"I4: {record} starts in {shell.title}, which waits for whoever is at its key"
        )
        if history is None:  # it works for a topic that is no more, and will hear of it
            return mine
        for other in watched.running.setdefault(lane, []):
            self._check_alone(mine, other, record)
        if watched.holds(record):  # else another was written there, of any key
            offsets = watched.by_lane.get(lane, [])
            earlier = offsets[: bisect_left(offsets, record.offset)]
            sought = 0 if tenure.sought is None else tenure.sought._offset
            skipped = [o for o in earlier if o in history.undone and o >= sought]
            assert not skipped, f"I4: {record} starts in {shell.title} before {skipped} of its key"
            self._check_repeat(mine, history, record)
            self._attempts.begins(mine, history, record)
        assert tenure.tp not in shell.core.state.load.paused, (
            f"pause: {record} starts in {shell.title}, where its partition is paused"
        )
        watched.running[lane].append(mine)
        beside = watched.plain
        assert beside is None or not beside.is_at(tenure.tp) or mine.orphaned, (
            f"plain: {record} starts in {shell.title} while {beside.name} has {tenure.tp}"
        )
        return mine

    def plain_begins(self, plain: PlainShell, tp: TopicPartition, message: SimMessage) -> None:
        """Check a plain member that begins a record: none of ours may run its partition."""
        watched = self._truth.watched[tp]
        watched.plain = plain
        if plain.seat is None or plain.seat.lost:
            return  # a zombie
        at_work = [it for lane in watched.running.values() for it in lane if not it.orphaned]
        assert not at_work, (
            f"plain: {plain.name} begins {message} of {tp} while {at_work[0].shell.title} is at "
            "work"
        )

    def _check_alone(self, mine: Execution, other: Execution, record: Record) -> None:
        assert mine.shell is not other.shell, f"I4: {record} runs twice in {mine.shell.title}"
        if mine.orphaned or self._truth.is_superseded(mine.shell, mine.tenure.tp):
            return  # a zombie that does not know it yet
        if self._truth.is_superseded(other.shell, other.tenure.tp):
            return
        if other.orphaned:
            seat = other.shell.seat
            came_back = seat is not None and not seat.gone and seat.first_generation
            if not came_back or self._truth.known[mine.tenure][0] < came_back:
                return
        raise AssertionError(
            f"I4: {record} starts in {mine.shell.title} while {other.shell.title} is at its key"
        )

    def _check_repeat(self, mine: Execution, history: History, record: Record) -> None:
        before = history.finished.get(record.offset)
        if before is None or mine.orphaned or mine.tenure.sought is not None:
            return
        if self._truth.is_superseded(mine.shell, mine.tenure.tp):
            return
        if before.tenure in self._truth.went_back:
            return
        superseded = self._truth.is_superseded(before.shell, before.tenure.tp)
        assert before.may_be_repeated or superseded or before.tenure.sought is not None, (
            f"I5: {record} is repeated by {mine.shell.title}; {before.shell.title} had finished it "
            "and handed over in good order"
        )
        epoch, known = self._truth.known[mine.tenure][1]
        told = epoch == record.tenure.epoch and known.is_done(record.key_hash, record.offset)
        assert not told or record.offset in history.dropped, (
            f"I5: {record} is repeated by {mine.shell.title}, though the log had it as done when "
            "its ranges were assigned"
        )

    def failed(self, execution: Execution, record: Record, attempt: int) -> None:
        """Note a handler that has raised, or was abandoned."""
        self._end(execution)
        self._circuit.failed(execution, record, attempt)
        if execution.history is not None and execution.watched.holds(record):
            failure = Failure(attempt, execution)
            execution.history.failed[record.offset] = failure
        if attempt >= self._world.config.max_attempts and self._world.skips:
            self._world.happened("skipped")
            if execution.history is not None:
                execution.history.may_be_skipped(record.offset)

    def output_refused(self, record: Record) -> None:
        """Note that a topic has refused what this record leaves behind: tenures go back."""
        history = self._truth.history(record.tenure)
        self._truth.went_back |= self._world.blocks.tied_to(record.tenure)
        if history is not None and self._truth.watched[record.tenure.tp].holds(record):
            history.refused.add(record.offset)
            if self._world.skips:
                self._world.happened("skipped")
                history.may_be_skipped(record.offset)

    def finished(self, execution: Execution, record: Record, effect: SimEffect) -> None:
        """Note a handler that has ended well."""
        self._end(execution)
        self._states.finished(effect)
        history = execution.history
        if history is not None and execution.watched.holds(record):
            message = history.undone.pop(record.offset, None)
            history.finished[record.offset] = execution
            if message is not None and (self._world.buffered or self._world.exactly_once):
                history.buffered[record.offset] = Buffered(message)
            if record.offset in history.buffered:
                history.buffered[record.offset].shells.add(execution.shell)

    def crashed(self, shell: MemberShell) -> None:
        """Note that this member has crashed with its handlers."""
        for watched in self._truth.watched.values():
            for lane, executions in watched.running.items():
                watched.running[lane] = [e for e in executions if e.shell is not shell]

    @staticmethod
    def _end(execution: Execution) -> None:
        running = execution.watched.running.get(execution.lane, [])
        if execution in running:  # one of a bygone epoch never was
            running.remove(execution)

    def dead_lettered(self, record: Record, error: str) -> None:
        """Note a record that is done without its handler."""
        history = self._given_up(record, error)
        if history is not None:
            self._attempts.is_last(history, record)
            history.settle(record.offset)
            history.without_output.add(record.offset)

    def leaves_letter(self, shell: MemberShell, record: Record, error: str) -> None:
        """Note a record that is done once its dead letter is committed."""
        history = self._given_up(record, error)
        message = None if history is None else history.undone.pop(record.offset, None)
        if history is not None and message is not None:
            history.buffered[record.offset] = Buffered(message)
        if history is not None and record.offset in history.buffered:
            history.buffered[record.offset].shells.add(shell)

    def _given_up(self, record: Record, error: str) -> History | None:
        """Check that it is no other record's fall; returns where it is noted, if anywhere."""
        self._attempts.given_up(record.tenure.tp, record.offset, error)
        self._world.happened("dead letter")
        history = self._truth.history(record.tenure)
        if history is None or not self._truth.watched[record.tenure.tp].holds(record):
            return None
        return history
