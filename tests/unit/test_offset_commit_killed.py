"""A commit of an offset store whose process is killed at any step: all of its offsets, or none.

The step is any call of the append, and any record of it: four of five offsets may lie in the log.
A log in memory stands for the broker, with markers that come at once or late.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from assignors import TopicPartition
from coop_consumer.core.transaction import Said
from coop_consumer.logs.conditional import AppendCall, ConditionalAppend
from coop_consumer.logs.memory_log import MemoryClient, MemoryPartition
from coop_consumer.logs.port import Landed
from coop_consumer.logs.records import NewRecord
from coop_consumer.offset_stores.machine import OffsetMachine, records_of
from offsets import OffsetCommit, OffsetEntry

GROUP = "billing"
PLACES = [TopicPartition("orders", number) for number in range(100)]


def commit_of(count: int, offset: int) -> list[NewRecord]:
    entries = dict.fromkeys(PLACES[:count], OffsetEntry(offset))
    return records_of(OffsetCommit(GROUP, entries, {}))


def steps(
    append: ConditionalAppend, client: MemoryClient, records: list[NewRecord]
) -> Iterator[str]:
    """Append, one step at a time; a record that is produced is a step."""
    at = client.partition
    while append.next is not None:
        match append.next:
            case AppendCall.RENEW:
                append.renewed(client.renew())
            case AppendCall.READ:
                append.read(client.read(append.expected))
            case AppendCall.PRODUCE:
                firsts = []
                for record in records:
                    at.write_markers()
                    firsts.append(at.add(client.writer, client.epoch, [record]))
                    yield "a record"
                assert firsts[0] is not None
                append.produced(Landed(Said.DONE, firsts[0], at.end - 1))
            case AppendCall.COMMIT:
                append.committed(client.commit())
            case AppendCall.FENCE:
                append.fenced(client.end_blocker(append.blocked_at))
            case AppendCall.PAUSE:
                append.paused()
            case call:
                raise AssertionError(call)
        yield call_name(append)


def call_name(append: ConditionalAppend) -> str:
    return "its end" if append.next is None else f"before {append.next.name}"


def appending(partition: MemoryPartition, name: str, records: list[NewRecord]) -> Iterator[str]:
    """A store of this name appends after whatever is visible."""
    client = MemoryClient(partition, name)
    append = ConditionalAppend(lambda: 0.0)
    seen = client.read(-1).records
    append.begin(seen[-1].offset if seen else -1, len(records), name.encode())
    return steps(append, client, records)


def begun(count: int) -> MemoryPartition:
    """A log with a whole commit."""
    partition = MemoryPartition()
    for _ in appending(partition, "first", commit_of(count, 7)):
        pass
    partition.write_markers()
    return partition


def offsets_in(partition: MemoryPartition) -> list[int]:
    """What a store that starts now finds: the offset of each of the group's entries."""
    machine = OffsetMachine("offsets-0")
    machine.apply(MemoryClient(partition, "reader").read(-1).records)
    return [entry.offset for entry in machine.table.found(GROUP, PLACES).values()]


@pytest.mark.parametrize("count", [5, 100])
@pytest.mark.parametrize("late_markers", [False, True])
def test_a_store_that_is_killed_at_any_step_leaves_a_whole_commit_or_nothing(
    count: int, late_markers: bool
) -> None:
    step_names = [*appending(begun(count), "killed", commit_of(count, 8))]
    ends: set[tuple[int, int]] = set()
    for killed_at in range(len(step_names) + 1):
        partition = begun(count)
        end_before = partition.end
        partition.late_markers = late_markers
        for _ in islice(appending(partition, "killed", commit_of(count, 8)), killed_at):
            pass
        records = partition.end - end_before
        found = offsets_in(partition)
        assert found in ([7] * count, [8] * count), f"killed after {step_names[:killed_at][-1:]}"
        ends.add((found[0], records))

        partition.late_markers = False
        for _ in appending(partition, "next", commit_of(count, 9)):
            pass
        assert offsets_in(partition) == [9] * count

    assert (7, count - 1) in ends, "all records of the commit but one were in the log"
    assert (7, count) in ends, "all were, and it was not decided"
    assert {offset for offset, _ in ends} == ({7} if late_markers else {7, 8})
