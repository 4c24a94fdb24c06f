"""Attempts and falls: failures count over all members, and records wait after the last attempt.

In: attempts in the log, handlers that end their process, records that are given up or decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import TopicPartition
from coop_consumer.config import OnFailure
from coop_consumer.core.record import Record
from offsets import TenureId, TenureRecord, Value
from tests.simulation.checker.history import Execution, History

if TYPE_CHECKING:
    from tests.simulation.checker.truth import Truth
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


class AttemptCheck:
    """Counts attempts beside the members."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world, self._truth = world, truth
        self._fallen = self._crashed = 0
        self._in_turn: set[tuple[TopicPartition, int]] = set()  # when a member crashed
        self._noted_by: dict[tuple[str, int], set[tuple[TopicPartition, int]]] = {}
        self._ended = set[tuple[str, int]]()
        self._early = set[tuple[TopicPartition, int]]()  # decided about again, while it is tried

    def noted(self, tp: TopicPartition, tenure: TenureId, record: Value) -> None:
        """Note an attempt that is in the log before it begins: it may be the last one."""
        assert isinstance(record, TenureRecord)
        history = self._truth.watched[tp].history.get(record.epoch)
        for attempt in record.attempts:
            if history is not None and attempt.fell:
                history.noted.add(attempt.offset)
                run, place = (tenure.member, tenure.incarnation), (tp, attempt.offset)
                if run in self._ended:  # its word was under way
                    self._in_turn.add(place)
                self._noted_by.setdefault(run, set()).add(place)
                if attempt.attempts >= self._world.config.max_attempts and self._world.skips:
                    history.may_be_skipped(attempt.offset)

    def falls(self, record: Record) -> None:
        """Note that the handler of this record ends its process.

        After the first fall nobody knows which record it was. After the second it may be one of
        several. So it takes at least three falls, and no more than `max.attempts`. If an heir was
        careful with too few records, its successor takes more: that may cost some falls.
        """
        history = self._truth.history(record.tenure)
        if history is None or self._world.config.on_failure is OnFailure.STOP:
            return  # each start of a group that stops is an attempt of its own
        history.falls[record.offset] += 1
        self._fallen += 1
        fallen = history.falls[record.offset]
        allowed = max(3, self._world.config.max_attempts) + 3
        others = self._truth.disturbances - (self._fallen - 1)  # whatever else has happened by now
        assert fallen <= allowed * (1 + others), (
            f"falls: {record} has ended {fallen} processes, with max.attempts="
            f"{self._world.config.max_attempts}"
        )

    def given_up(self, tp: TopicPartition, offset: int, error: str) -> None:
        """Check that a record is given up after its last attempt, not after another one's fall."""
        place, beside = (tp, offset), self._truth.disturbances - self._crashed
        fell = "begun by itself" in error and place != self._world.killer
        unaware = any(shell.alive and shell.is_evicted for shell in self._world.shells)
        assert not fell or place in self._in_turn or beside or unaware, (
            f"falls: {tp}@{offset} is given up ({error}), and {self._world.killer} is the one"
        )

    def begins(self, mine: Execution, history: History, record: Record) -> None:
        """Check that failures count over orderly handovers, and parked records wait."""
        self._check_parked(mine, record)
        last = history.failed.get(record.offset)
        if last is None:
            return
        if not (self._truth.is_orderly or last.execution.tenure is mine.tenure):
            return  # what a member that is gone had counted may be in no record of the log
        if last.execution.shell.flusher.failed or last.execution.shell.is_evicted:
            return  # nor does it get there in time
        if last.execution.tenure in self._truth.went_back or self._was_early(record):
            return  # with what it had not committed; or somebody has decided so
        if mine.tenure.sought is not None or mine.orphaned or record.offset in history.noted:
            return
        config = self._world.config
        if config.circuit_share:  # while it is open no attempt counts
            assert record.attempt in {last.attempt, last.attempt + 1}, f"attempts: {record}"
            return
        assert record.attempt == last.attempt + 1, (
            f"attempts: {record} starts in {mine.shell.title} as attempt {record.attempt}, and "
            f"attempt {last.attempt} failed in {last.execution.shell.title}"
        )
        is_over = last.attempt >= config.max_attempts
        assert not is_over or config.on_failure not in (OnFailure.PARK, OnFailure.SKIP), (
            f"attempts: {record} starts in {mine.shell.title}, though attempt {last.attempt} in "
            f"{last.execution.shell.title} was its last one; nobody has decided anything"
        )

    def _was_early(self, record: Record) -> bool:
        """Whether it begins anew by a decision that was made before it was parked again."""
        place = record.tenure.tp, record.offset
        is_early = record.attempt == 1 and place in self._early
        if is_early:
            self._early.discard(place)
        return is_early

    def _check_parked(self, mine: Execution, record: Record) -> None:
        """Check that a record waits for a decision if the log had it parked at the assignment."""
        watched, parked = mine.watched, self._truth.parked.get(mine.tenure, ())
        if record.offset not in parked or record.offset in watched.decided:
            return
        assert self._truth.was_sought or mine.orphaned or watched.log.cuts, (
            f"attempts: {record} starts in {mine.shell.title}, though the log had it as parked "
            "when its ranges were assigned, and nobody has decided anything"
        )

    def is_last(self, history: History, record: Record) -> None:
        """Check that a record that is done without its handler has had all its attempts."""
        last, attempts = history.failed.get(record.offset), self._world.config.max_attempts
        is_known = record.offset in history.noted or record.offset in history.refused
        assert is_known or last is None or last.attempt >= attempts, (
            f"attempts: {record} is sent to the dead-letter topic after {last.attempt} "
            f"failures of {attempts}"
        )

    def crashed(self, shell: MemberShell) -> None:
        """Note a crash, for which a record that this member ran alone may be blamed."""
        self._crashed += 1
        turn = shell.core.suspects.turn
        if turn is not None:
            self._in_turn.add((turn.tenure.tp, turn.record.offset))
        # Or one whose turn is over, and the log has not heard of that.
        self._ended.add((shell.name, shell.incarnation))
        self._in_turn |= self._noted_by.pop((shell.name, shell.incarnation), set())

    def never_began(self, tp: TopicPartition, offset: int) -> None:
        """Note an attempt that counts as failed though its process stopped before it began."""
        for history in self._truth.watched[tp].history.values():
            history.failed.pop(offset, None)

    def decided(self, tp: TopicPartition, offset: int) -> None:
        """Note a decision about a parked record: its attempts count from 1.

        The log has a record as parked until the commit that tells of the first decision. A person
        who looks by then may decide once more. That counts once the record is parked again.
        """
        self._truth.watched[tp].decided.add(offset)
        histories = self._truth.watched[tp].history.values()
        failed = [history.failed.pop(offset, None) for history in histories]
        if not any(failed):
            self._early.add((tp, offset))
