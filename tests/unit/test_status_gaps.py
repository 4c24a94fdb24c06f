"""What `gaps` shows of a partition, and which partitions it shows."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Self

import pytest
from click.testing import CliRunner, Result

from assignors import WHOLE, TopicPartition
from coop_consumer.cli.app import app
from coop_consumer.cli.log import StderrHandler
from coop_consumer.errors import ExitCode
from coop_consumer.status.gaps import has_gaps, left_ranges, lines, partition_as_json
from coop_consumer.status.model import PartitionStatus, group_status
from coop_consumer.status.seen import GroupSeen
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


# ---- the command ---------------------------------------------------------------------------------

Command = Callable[..., Result]


class Visitor:
    """Sees a group of three partitions without asking a broker: orders-0 alone has a gap."""

    asked: Sequence[str] = ()

    def __init__(self, _: object) -> None:
        """It has no clients."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def see(self, topics: Sequence[str], *, records: bool, waits: bool) -> GroupSeen:
        assert not records
        assert not waits
        type(self).asked = topics
        log = WrittenLog().base(1, 40)
        log.tenure(OLD, TenureRecord(1, -1, (facts(WHOLE, 43, (45, 47), (50, 50)),)))
        found = seen(log, end=60, committed=Committed.mirror(40, 1, TOPIC_ID))
        [first] = found.partitions
        [unread] = seen(WrittenLog(), end=60).partitions
        others = [replace(unread, tp=TopicPartition("orders", number)) for number in (1, 2)]
        return replace(found, partitions=(first, *others))


@pytest.fixture
def gaps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Calls the command; logging is as it was behind it."""
    monkeypatch.setattr("coop_consumer.cli.gaps.Inspector", Visitor)
    root = logging.getLogger()
    level = root.level

    def called(*words: str) -> Result:
        return CliRunner().invoke(app, ["gaps", "--bootstrap", "nowhere:9092", *words])

    yield called
    for handler in [it for it in root.handlers if isinstance(it, StderrHandler)]:
        root.removeHandler(handler)
    root.setLevel(level)


OF_THE_FIRST = [
    "orders-0: stable 43, end 60, epoch 1",
    "  done above it  [45-47] [50-50]",
    "  left           [43-44] [48-49] [51-59]",
]


def test_partitions_without_gaps_are_counted(gaps: Command) -> None:
    told = gaps("g")
    assert told.exit_code == ExitCode.OK, told.output
    counted = "2 partitions have nothing done above the stable offset"
    assert told.stdout.splitlines() == [*OF_THE_FIRST, counted]
    assert Visitor.asked == []


def test_a_partition_that_is_named_is_shown_alone_whatever_it_has(gaps: Command) -> None:
    assert gaps("g", "orders-0").stdout.splitlines() == OF_THE_FIRST
    assert Visitor.asked == ["orders"]
    assert gaps("g", "orders-2").stdout == "orders-2: nothing is known of it yet\n"
    told = json.loads(gaps("g", "orders-0", "--json").stdout)
    assert [(it["partition"], it["gap_ranges"]) for it in told["partitions"]] == [
        (0, [[45, 47], [50, 50]])
    ]


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_a_partition_that_is_not_there_is_named(gaps: Command, more: list[str]) -> None:
    told = gaps("g", "orders-3", *more)
    assert told.exit_code == ExitCode.MISSING
    assert "orders-3: does not exist, the topic has 0 to 2." in told.stderr
    assert told.stdout == ""
    assert gaps("g", "orders").exit_code == ExitCode.USAGE
