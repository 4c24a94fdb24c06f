"""The offset store over commit logs, on partitions in memory: what a broker is not needed for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from assignors import TopicPartition
from coop_consumer.core.placement import partition_of
from coop_consumer.errors import MisuseError, OffsetUnknownError
from coop_consumer.logs.memory_log import MemoryPartition
from coop_consumer.logs.records import NewRecord
from coop_consumer.offset_stores import LogOffsetStore, MemoryOffsetStore, OffsetEntry
from coop_consumer.offset_stores.machine import records_of
from offsets import OffsetCommit, OffsetConflict
from tests.support.journal import WAIT_S

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def partitions_of(count: int) -> list[MemoryPartition]:
    return [MemoryPartition(number=number, lock=threading.Lock()) for number in range(count)]


@pytest.fixture
def stores() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_topic_that_has_grown_is_refused_as_groups_would_not_be_found(stores: ExitStack) -> None:
    partitions = partitions_of(3)
    small = stores.enter_context(LogOffsetStore.in_memory(partitions[:2], "small"))
    group = next(it for it in map(str, range(99)) if partition_of(it.encode(), 2) == 1)
    moved = next(it for it in map(str, range(99)) if partition_of(it.encode(), 3) == 1)
    small.commit(group, {A: OffsetEntry(1)})
    grown = stores.enter_context(LogOffsetStore.in_memory(partitions, "grown"))

    message = "had 2 partitions when it was first used, and has 3 now"
    with pytest.raises(MisuseError, match=message):
        grown.fetch(moved, [A])
    with pytest.raises(MisuseError, match=message):
        grown.commit(moved, {A: OffsetEntry(1)})


def test_all_commits_of_a_group_are_in_the_partition_that_its_name_says(stores: ExitStack) -> None:
    partitions = partitions_of(4)
    store = stores.enter_context(LogOffsetStore.in_memory(partitions, "one"))
    for number in range(20):
        store.commit(f"group-{number}", {A: OffsetEntry(number)})
    for partition in partitions:
        partition.write_markers()
    for number in range(20):
        key = records_of(OffsetCommit(f"group-{number}", {A: OffsetEntry(number)}, {}))[0].key
        holders = [
            at for at, it in enumerate(partitions) if any(key == r.key for _, r in it.visible())
        ]
        assert holders == [partition_of(f"group-{number}".encode(), 4)]


def test_a_corrupt_record_is_named_and_the_last_sound_entry_counts(
    stores: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    partitions = partitions_of(1)
    one = stores.enter_context(LogOffsetStore.in_memory(partitions, "one"))
    one.commit("billing", {A: OffsetEntry(41), B: OffsetEntry(7)})
    one.commit("billing", {A: OffsetEntry(42)})
    key = records_of(OffsetCommit("billing", {A: OffsetEntry(0)}, {}))[0].key
    offset = partitions[0].append_plainly(NewRecord(key, b"\x01 torn"))
    other = stores.enter_context(LogOffsetStore.in_memory(partitions, "other"))

    for store in (one, other):
        assert store.fetch("billing", [A, B]) == {A: OffsetEntry(42), B: OffsetEntry(7)}
    assert f"memory-0, offset {offset}: corrupt record, byte 0: a value of 6 bytes" in caplog.text
    assert one.commit("billing", {A: OffsetEntry(43)}, expected={A: 42}) is None
    assert other.fetch("billing", [A]) == {A: OffsetEntry(43)}


def test_what_compaction_has_left_of_a_damaged_place_is_no_absent_entry(
    stores: ExitStack,
) -> None:
    """The log has the newest record of each key. Others share the appends, and go on."""
    before, after = partitions_of(1), partitions_of(1)
    with LogOffsetStore.in_memory(before, "one") as one:
        one.commit("billing", {A: OffsetEntry(42), B: OffsetEntry(7)})
        key = records_of(OffsetCommit("billing", {A: OffsetEntry(0)}, {}))[0].key
        before[0].append_plainly(NewRecord(key, b"\x01 torn"))
        assert one.fetch("billing", [A]) == {A: OffsetEntry(42)}
    for record in {it.key: it for _, it in before[0].visible()}.values():
        after[0].append_plainly(record)
    store = stores.enter_context(LogOffsetStore.in_memory(after, "two"))

    with pytest.raises(OffsetUnknownError, match=r"group billing, orders-0: .* no sound one"):
        store.fetch("billing", [A, B])
    assert store.fetch("billing", [B]) == {B: OffsetEntry(7)}
    with after[0].lock:  # the first append waits, and the other commits share the next one
        asked = [
            store.commit_later("others", {A: OffsetEntry(1)}),
            store.commit_later("billing", {A: OffsetEntry(1)}, {A: None}),
            store.commit_later("billing", {B: OffsetEntry(8)}, {B: 7}),
            store.commit_later("billing", {B: OffsetEntry(9)}, {A: 42}),
        ]
    for refused in (1, 3):
        with pytest.raises(OffsetUnknownError, match="Nothing was committed"):
            asked[refused].result(WAIT_S)
    assert [asked[it].result(WAIT_S) for it in (0, 2)] == [None, None]
    assert store.fetch("billing", [B]) == {B: OffsetEntry(8)}

    assert store.commit("billing", {A: OffsetEntry(42)}) is None
    assert store.commit("billing", {A: OffsetEntry(43)}, {A: 42}) is None
    assert store.fetch("billing", [A, B]) == {A: OffsetEntry(43), B: OffsetEntry(8)}


def test_what_callers_commit_while_an_append_is_under_way_shares_the_next_one(
    stores: ExitStack,
) -> None:
    partitions = partitions_of(1)
    store = stores.enter_context(LogOffsetStore.in_memory(partitions, "one"))
    store.commit("billing", {A: OffsetEntry(0)})
    with partitions[0].lock:  # the first append waits
        asked = [store.commit_later(f"g{n}", {A: OffsetEntry(n)}, {A: None}) for n in range(500)]
    assert [it.result(WAIT_S) for it in asked] == [None] * 500
    markers = sum(it.record is None for it in partitions[0].stored)
    assert markers <= 5, "the size, the first commit, the first of them, and the others"


def test_a_commit_that_another_one_of_its_batch_contradicts_is_answered_by_what_is_there(
    stores: ExitStack,
) -> None:
    partitions = partitions_of(1)
    store = stores.enter_context(LogOffsetStore.in_memory(partitions, "one"))
    store.commit("billing", {A: OffsetEntry(0)})
    with partitions[0].lock:  # the first append waits, and the other two share the next one
        asked = [
            store.commit_later("others", {A: OffsetEntry(7)}),
            store.commit_later("billing", {A: OffsetEntry(1)}, {A: 0}),
            store.commit_later("billing", {A: OffsetEntry(2)}, {A: 0}),
        ]
    found = [it.result(WAIT_S) for it in asked]
    assert found == [None, None, OffsetConflict("billing", {A: OffsetEntry(1)})]


def test_a_commit_that_is_not_answered_in_time_says_so_and_may_still_be_made(
    stores: ExitStack,
) -> None:
    partitions = partitions_of(1)
    store = stores.enter_context(LogOffsetStore.in_memory(partitions, "one"))
    store.commit("billing", {A: OffsetEntry(0)})
    late = "group billing: no answer within 0.01 s. It may still be made: a later fetch tells"
    with partitions[0].lock, pytest.raises(TimeoutError, match=late):
        store.commit("billing", {A: OffsetEntry(1)}, timeout_s=0.01)
    store.commit("others", {A: OffsetEntry(2)})  # behind it; a fetch might overtake it
    assert store.fetch("billing", [A]) == {A: OffsetEntry(1)}


def test_a_closed_store_makes_no_snapshot() -> None:
    store = LogOffsetStore.in_memory(partitions_of(1), "one")
    store.close()
    with pytest.raises(MisuseError, match="the store is closed"):
        store.snapshot()


_PLACE = TopicPartition("orders", 3)


@pytest.mark.parametrize(
    "wrong",
    [
        5,
        (5, "", ()),
        OffsetEntry(5.5),  # type: ignore[arg-type]
        OffsetEntry(True),
        OffsetEntry("5"),  # type: ignore[arg-type]
        OffsetEntry(5, None),  # type: ignore[arg-type]
        OffsetEntry(5, "", None),  # type: ignore[arg-type]
        OffsetEntry(5, "", ((7, 8),)),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_entry_commits_nothing_of_the_others(wrong: Any) -> None:
    store = MemoryOffsetStore()
    other = TopicPartition("orders", 1)
    with pytest.raises(MisuseError, match="orders-3"):
        store.commit("g", {other: OffsetEntry(1), _PLACE: wrong})
    assert store.fetch("g", [other, _PLACE]) == {}


def test_wrong_arguments_are_named() -> None:
    store: Any = MemoryOffsetStore()
    entry = OffsetEntry(1)
    for call in (
        lambda: store.commit(None, {_PLACE: entry}),
        lambda: store.commit("g", [_PLACE]),
        lambda: store.commit("g", {_PLACE: entry}, 5),
        lambda: store.commit("g", {_PLACE: entry}, {_PLACE: "5"}),
        lambda: store.commit("g", {("orders", 3): entry}),
        lambda: store.commit("g", {TopicPartition("orders", "3"): entry}),  # type: ignore[arg-type]
        lambda: store.fetch("g", _PLACE),
        lambda: store.fetch("g", ["orders"]),
        lambda: store.fetch("g", None),
    ):
        with pytest.raises(MisuseError, match="Correct the call"):
            call()
