"""Loads: what a member tells of its work is of records that it runs, and of what it holds.

In: batches that a member has taken in, its claims when it joins, the records that it appends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.actions import Append
from coop_consumer.core.events import Fetched
from offsets import LoadKey, LoadRecord
from tests.simulation.decoded import decode_key, decode_value

if TYPE_CHECKING:
    from assignors import Claim, KeyRange
    from coop_consumer.core.actions import Action
    from coop_consumer.core.events import Event
    from coop_consumer.core.state import Partition
    from coop_consumer.core.tenure import Tenure
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World

_ROUNDED = 16
"""Each weight of a claim is rounded."""


class LoadCheck:
    """Checks loads."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._last: dict[Tenure, tuple[int, int, int]] = {}

    def taken(self, shell: MemberShell, event: Event) -> None:
        """Check what a member has measured of what it has taken in."""
        if isinstance(event, Fetched):
            partition = shell.core.state.partitions.get(event.tp)
            for tenure in partition.tenures if partition else ():
                if tenure.load.last != self._last.get(tenure, (0, 0, 0)):
                    self._last[tenure] = tenure.load.last
                    self._check_sample(shell, tenure, event)

    def decided(self, shell: MemberShell, done: list[Action]) -> None:
        """Check what it tells."""
        for action in done:
            for data, value in action.entries if isinstance(action, Append) else ():
                key = decode_key(data)
                if isinstance(key, LoadKey) and value is not None:
                    record = decode_value(key, value)
                    assert isinstance(record, LoadRecord)
                    self._world.happened("load")
                    self._check_record(shell, record)

    @staticmethod
    def _check_sample(shell: MemberShell, tenure: Tenure, event: Fetched) -> None:
        """Each record of a slice that lies in the tenure's ranges is counted once, and no other."""
        tenure.load.check()
        first, end, count = tenure.load.last
        partition = shell.core.state.partitions[event.tp]
        ours = {
            offset
            for message in event.messages
            if first <= (offset := message.offset() or 0) < end
            and any(
                shell.core.intake._place(partition, offset, message.key())[1] in r
                for r in tenure.load.ranges
            )
        }
        assert count == len(ours), (
            f"load: {tenure} counts {count} records in offsets {first} to {end}, it has {len(ours)}"
        )

    def joins(self, shell: MemberShell, claims: tuple[Claim, ...]) -> None:
        """Check the loads that a JoinGroup tells."""
        state = shell.core.state
        for claim in claims:
            if claim.load is None:
                continue
            self._world.happened("load of a claim")
            assert not claim.draining, f"load: {shell.title} has one of what it gives up: {claim}"
            bins, heavy, pace = claim.load
            hashes = [it.key_hash for it in heavy]
            assert len(bins) == 8, f"load: {claim}"
            assert min(bins) >= 0 <= pace, f"load: {claim}"
            assert len(set(hashes)) == len(hashes) <= 4, f"load: {claim}"
            assert all(any(it in r for r in claim.ranges) for it in hashes), f"load: {claim}"
            tenures = state.partitions[claim.partition].tenures
            tenure = next(it for it in tenures if it.id.number == claim.number)
            whole = tenure.load.rate * state.lanes.work.cost_ps
            told = sum(bins) + sum(it.weight for it in heavy)
            assert told <= whole + _ROUNDED, f"load: {claim} weighs {told} of {whole}"

    @staticmethod
    def _check_record(shell: MemberShell, record: LoadRecord) -> None:
        """It tells of nothing but what the member holds now."""
        held: dict[tuple[bytes, int], list[KeyRange]] = {}
        for partition in shell.core.state.partitions.values():
            if ranges := _held(partition):
                held[partition.topic_id, partition.tp.partition] = ranges
        for told in record.partitions:
            place = told.topic_id, told.partition
            assert place in held, f"load: {shell.title} tells of {place}, and holds {list(held)}"
        for heavy in record.heavy:
            ranges = held.get((heavy.topic_id, heavy.partition), [])
            is_ours = any(heavy.key_hash in r for r in ranges)
            assert is_ours, f"load: {shell.title} tells of {heavy}, and holds {ranges}"
        assert max(record.busy, *(it.share for it in record.heavy), 0) <= 1_000, f"load: {record}"


def _held(partition: Partition) -> list[KeyRange]:
    return [r for tenure in partition.tenures if tenure.begun for r in tenure.ranges]
