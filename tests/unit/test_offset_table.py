"""The table of an offset store: what is put is found, in few bytes, and comes back from bytes."""

from __future__ import annotations

import tracemalloc

import pytest

from assignors import TopicPartition
from offsets import CorruptRecordError, OffsetEntry, OffsetRange, OffsetTable
from offsets import offset_table as module
from offsets.offset_codec import encode_entry, encode_place

ORDERS = [TopicPartition("orders", number) for number in range(50)]
PLAIN = encode_entry(OffsetEntry(10**9))
RICH = OffsetEntry(43, "in file 7", (OffsetRange(45, 47), OffsetRange(50, 50)))


def filled(groups: int = 20) -> OffsetTable:
    table = OffsetTable()
    for number in range(groups):
        for place in ORDERS:
            table.put(f"group-{number}", place, OffsetEntry(1_000 * number + place.partition))
    return table


def test_an_entry_that_was_never_put_is_not_there() -> None:
    table = filled(1)

    assert table.get("group-0", TopicPartition("orders", 50)) is None
    assert table.get("group-0", TopicPartition("totals", 0)) is None
    assert table.get("group-1", ORDERS[0]) is None
    assert len(table) == 50


def test_metadata_and_gap_ranges_last_until_an_entry_without_them() -> None:
    table = filled(1)
    table.put("group-0", ORDERS[3], RICH)
    assert table.get("group-0", ORDERS[3]) == RICH

    table.put("group-0", ORDERS[3], OffsetEntry(51))
    assert table.get("group-0", ORDERS[3]) == OffsetEntry(51)
    assert len(table) == 50


def test_a_record_without_metadata_ends_those_of_the_record_before() -> None:
    table, key = OffsetTable(), encode_place(b"g", b"t", 3)
    table.apply(key, encode_entry(RICH))
    assert table.get("g", TopicPartition("t", 3)) == RICH

    table.apply(key, encode_entry(OffsetEntry(51)))
    assert table.get("g", TopicPartition("t", 3)) == OffsetEntry(51)


def test_a_table_is_what_its_records_say_and_what_its_snapshot_says() -> None:
    table = filled()
    table.put("group-7", ORDERS[3], RICH)
    replayed = OffsetTable()
    for group, place, entry in table.entries():
        key = encode_place(group.encode(), place.topic.encode(), place.partition)
        replayed.apply(key, encode_entry(entry))
    restored = OffsetTable.restored(table.snapshot())

    for other in (replayed, restored):
        other.check()
        assert sorted(other.entries()) == sorted(table.entries())
    restored.put("group-new", TopicPartition("new", 1), OffsetEntry(1))
    assert len(restored) == len(table) + 1
    assert restored.get("group-7", ORDERS[3]) == RICH


def test_a_snapshot_of_nothing_is_a_table_of_nothing() -> None:
    assert list(OffsetTable.restored(OffsetTable().snapshot()).entries()) == []


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_snapshot_that_is_cut_off_is_refused(share: float) -> None:
    data = filled().snapshot()

    with pytest.raises(CorruptRecordError):
        OffsetTable.restored(data[: int(share * len(data))])


def test_a_snapshot_with_one_wrong_bit_is_refused() -> None:
    data = bytearray(filled().snapshot())
    data[len(data) // 2] ^= 1

    with pytest.raises(CorruptRecordError, match="checksum"):
        OffsetTable.restored(bytes(data))


def test_a_snapshot_of_a_newer_version_says_so() -> None:
    with pytest.raises(CorruptRecordError, match="version 9 is unknown, 1 is known"):
        OffsetTable.restored(b"\x09" + filled(1).snapshot()[1:])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", encode_entry(RICH)),
        (b"\x02" + encode_place(b"group-0", b"orders", 3)[1:], encode_entry(RICH)),
        (encode_place(b"group-0", b"orders", 3)[:-1], encode_entry(RICH)),
        (encode_place(b"group-0", b"orders", 2**20), encode_entry(RICH)),
        (encode_place(b"\xff", b"orders", 3), encode_entry(RICH)),
        (encode_place(b"group-0", b"", 3), encode_entry(RICH)),
        (encode_place(b"group-0", b"orders", 3), b""),
        (encode_place(b"group-0", b"orders", 3), b"\x02" + encode_entry(RICH)[1:]),
        (encode_place(b"group-0", b"orders", 3), b"\x02" + encode_entry(OffsetEntry(1))[1:]),
        (encode_place(b"group-0", b"orders", 3), encode_entry(RICH)[:-1]),
        (encode_place(b"group-0", b"orders", 3), encode_entry(RICH) + b"\0"),
        (encode_place(b"group-0", b"orders", 3), b"\x01" + b"\xff" * 8),
    ],
)
def test_a_record_that_is_none_changes_nothing(key: bytes, value: bytes) -> None:
    table = filled(1)
    before = list(table.entries())

    with pytest.raises(CorruptRecordError):
        table.apply(key, value)

    table.check()
    assert list(table.entries()) == before


def test_names_without_end_are_refused_before_they_are_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "GROUPS_MAX", 2)
    monkeypatch.setattr(module, "TOPICS_MAX", 1)
    table = filled(2)

    table.check_room("group-1", ["orders"])
    with pytest.raises(ValueError, match="2 groups are known"):
        table.check_room("group-2", ["orders"])
    with pytest.raises(ValueError, match="1 topics are known"):
        table.check_room("group-1", ["orders", "totals"])
    with pytest.raises(CorruptRecordError, match="no room for another"):
        table.apply(encode_place(b"group-2", b"orders", 0), encode_entry(RICH))


@pytest.mark.parametrize(("groups", "topics", "partitions"), [(50, 20, 50), (2_500, 20, 1)])
def test_an_entry_takes_no_more_than_64_bytes_whatever_the_shape(
    groups: int, topics: int, partitions: int
) -> None:
    """50,000 of them: the arrays have just grown, so they are as empty as they ever are."""
    records = [
        (0, encode_place(b"consumer-group-%05d" % g, b"topic-%02d" % t, p), PLAIN)
        for g in range(groups)
        for t in range(topics)
        for p in range(partitions)
    ]
    tracemalloc.start()
    try:
        table = OffsetTable()
        table.apply_all(records)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(table) == 50_000
    assert 32 < taken / len(table) <= 64
