"""Decisions of people about parked records, `retry` and `skip`, which wait in the log. Pure.

In: the log's view of a partition. Out: lanes that run again, records that count as done, tombstones
for decisions that were applied. A decision may be older than the record's arrival here. Upholds I2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coop_consumer.core.lane import HELD, Lane
from coop_consumer.core.record import count_attempt
from coop_consumer.core.tally import SkipReason
from offsets import DecisionKey, encode_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignors import TopicPartition
    from coop_consumer.core.failures import Failures
    from coop_consumer.core.outbox import Entries, Outbox
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.core.tenure import Tenure
    from offsets import DecisionRecord


@dataclass(slots=True, eq=False)
class Decisions:
    """Applies decisions to records that are parked here.

    Args:
        state: The member.
        outbox: Appends tombstones.
        failures: Counts records as done.
    """

    state: MemberState
    outbox: Outbox
    failures: Failures
    _applied: dict[tuple[TopicPartition, int], DecisionRecord] = field(default_factory=dict)

    def apply(self, partition: Partition) -> None:
        """Apply the decisions that the log holds about records parked here, and clear them."""
        if self.failures.owed:
            self._give_up_owed(partition)
        decisions = partition.store.decisions
        if not decisions:
            return
        decided = [
            (tenure, offset, decision)
            for tenure in partition.tenures
            for offset, attempt in tenure.attempts.items()
            if attempt.parked
            and (decision := decisions.get(offset)) is not None
            # The log holds an applied decision until our tombstone is read: apply it once.
            and self._applied.get((partition.tp, offset)) != decision
        ]
        if decided:
            self._apply_all(partition, decided)

    def _apply_all(
        self, partition: Partition, decided: Iterable[tuple[Tenure, int, DecisionRecord]]
    ) -> None:
        """Apply many decisions at once. O(lanes + decisions)."""
        state, tp = self.state, partition.tp
        lanes = {lane.records[0]._offset: lane for lane in self._held(tp)}
        cleared: Entries = []
        for tenure, offset, decision in decided:
            lane = lanes.get(offset)
            # A tenure that has released a key knows of its attempts until it gets another number.
            if lane is None or lane.tenure is not tenure:
                continue
            if lane.key_hash in tenure.blocked.hashes:
                continue
            self._applied[tp, offset] = decision
            self._apply_one(tenure, lane, decision.action)
            key = DecisionKey(state.group, partition.topic_id, tp.partition, offset)
            cleared.append((encode_key(key), None))
        if cleared:
            self.outbox.append(partition.view, cleared)

    def _held(self, tp: TopicPartition) -> list[Lane]:
        """The lanes of a partition that wait for something."""
        with self.state.lock:  # executors end other lanes meanwhile
            entries = self.state.lanes.tables.of(tp).values()
            return [x for x in entries if isinstance(x, Lane) and x.state is HELD and x.records]

    def _give_up_owed(self, partition: Partition) -> None:
        """Give up what is parked here for its output only."""
        for lane in self._held(partition.tp):
            attempt = lane.tenure.attempts.get(lane.records[0]._offset)
            is_parked = attempt is not None and attempt.parked
            if is_parked and lane.key_hash not in lane.tenure.blocked.hashes:
                self.failures.give_up_owed(lane, partition.tp)

    def _apply_one(self, tenure: Tenure, lane: Lane, action: str) -> None:
        state, record = self.state, lane.records[0]
        tenure.attempts.pop(record._offset)
        tenure.dirty = True
        self.failures.report_decision(record, action)
        if action == "skip":
            state.counters.skipped += 1
            state.tally.of(record.tenure.tp.topic).skipped[SkipReason.DECISION] += 1
            self.failures.count_as_done(lane)
        else:
            count_attempt(record, 1)
            with state.lock:
                state.lanes.release_hold(lane)
