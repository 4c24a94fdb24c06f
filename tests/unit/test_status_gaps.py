"""What `gaps` shows of a partition."""

from __future__ import annotations

from assignors import WHOLE
from coop_consumer.status.gaps import has_gaps, left_ranges, lines, partition_as_json
from coop_consumer.status.model import PartitionStatus, group_status
from offsets import Committed, OffsetRange, RangeProgress, TenureRecord
from tests.support.written_log import OLD, TOPIC_ID, WrittenLog, facts, seen

LOW, HIGH = WHOLE.parts(2)


def partition(*told: RangeProgress, end: int = 60) -> PartitionStatus:
    log = WrittenLog()
    if told:
        log.base(1, 40).tenure(OLD, TenureRecord(1, -1, told))
    committed = Committed.mirror(40, 1, TOPIC_ID) if told else None
    [found] = group_status(seen(log, end=end, committed=committed)).partitions
    return found


def test_what_is_done_above_the_stable_offset_is_listed_and_what_is_left() -> None:
    found = partition(facts(WHOLE, 43, (45, 47), (50, 50)))
    assert has_gaps(found)
    assert list(lines(found)) == [
        "orders-0: stable 43, end 60, epoch 1",
        "  done above it  [45-47] [50-50]",
        "  left           [43-44] [48-49] [51-59]",
    ]


def test_key_ranges_that_differ_have_lines_of_their_own() -> None:
    found = partition(facts(LOW, 43, (45, 47)), facts(HIGH, 60))
    assert list(lines(found))[1:] == [
        "  done above it  [45-47]",
        "  left           [43-44] [48-59]",
        f"  keys {LOW}: stable 43, done above it [45-47]",
        f"  keys {HIGH}: stable 60",
    ]
    told = partition_as_json(found)
    assert (told["stable"], told["gap_ranges"]) == (43, [[45, 47]])
    assert told["left_ranges"] == [[43, 44], [48, 59]]
    assert [(it["stable"], it["gap_ranges"]) for it in told["ranges"]] == [
        (43, [[45, 47]]),
        (60, []),
    ]


def test_a_partition_that_is_done_has_neither() -> None:
    found = partition(facts(WHOLE, 60))
    assert not has_gaps(found)
    assert list(lines(found))[1:] == ["  done above it  nothing", "  left           nothing"]


def test_a_partition_that_nobody_has_begun_says_so() -> None:
    found = partition()
    assert not has_gaps(found)
    assert list(lines(found)) == ["orders-0: nothing is known of it yet"]
    assert left_ranges(found) == ()
    assert partition_as_json(found)["stable"] is None


def test_thousands_of_gap_ranges_are_counted_and_json_has_all() -> None:
    many = tuple(OffsetRange(at, at) for at in range(45, 245, 2))
    found = partition(RangeProgress(WHOLE, 43, many), end=1_000)
    assert "[83-83] and 80 more (--json has all)" in list(lines(found))[1]
    assert len(partition_as_json(found)["gap_ranges"]) == 100
