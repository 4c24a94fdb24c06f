"""The table of an offset store is equal to a dict, for any entries, records and bytes."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from assignors import TopicPartition
from offsets import CorruptRecordError, OffsetEntry, OffsetRange, OffsetTable
from offsets.offset_codec import (
    decode_entry,
    decode_place,
    encode_entry,
    encode_place,
)
from offsets.offset_entry import PARTITION_MAX
from offsets.offset_range import OFFSET_MAX, union

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
few_names = st.sampled_from(["a", "b", "ä", "orders", "orders-3"])
partitions = st.integers(0, PARTITION_MAX) | st.integers(0, 40)
offsets = st.integers(0, OFFSET_MAX)


@st.composite
def entries(draw: st.DrawFn) -> OffsetEntry:
    """Mostly an offset alone."""
    offset = draw(st.integers(0, OFFSET_MAX - 1_000))
    metadata = draw(st.just("") | names)
    bounds = draw(st.lists(st.tuples(st.integers(1, 900), st.integers(0, 50)), max_size=4))
    gaps = [OffsetRange(offset + first, offset + first + more) for first, more in bounds]
    return OffsetEntry(offset, metadata, union(gaps))


commits = st.lists(st.tuples(few_names, few_names, partitions, entries()), max_size=120)


@given(commits)
def test_a_table_is_equal_to_a_dict_however_it_was_filled(
    told: list[tuple[str, str, int, OffsetEntry]],
) -> None:
    model: dict[tuple[str, TopicPartition], OffsetEntry] = {}
    table, at_once, one_by_one = OffsetTable(), OffsetTable(), OffsetTable()
    records = []
    for group, topic, partition, entry in told:
        place = TopicPartition(topic, partition)
        model[group, place] = entry
        table.put(group, place, entry)
        key = encode_place(group.encode(), topic.encode(), partition)
        records.append((len(records), key, encode_entry(entry)))
        one_by_one.apply(*records[-1][1:])

    assert at_once.apply_all(records) == []
    for filled in (table, at_once, one_by_one, OffsetTable.restored(table.snapshot())):
        filled.check()
        assert len(filled) == len(model)
        found = {(group, place): entry for group, place, entry in filled.entries()}
        assert found == model
        assert all(filled.get(group, place) == entry for (group, place), entry in model.items())


@given(names, names, partitions, entries())
def test_a_record_comes_back_from_its_bytes(
    group: str, topic: str, partition: int, entry: OffsetEntry
) -> None:
    place = group.encode(), topic.encode(), partition
    assert decode_place(encode_place(*place)) == place
    assert decode_entry(encode_entry(entry)) == entry


@given(st.binary(max_size=40), st.binary(max_size=40), commits)
def test_any_other_bytes_are_an_error_of_one_kind_and_change_nothing(
    key: bytes, value: bytes, told: list[tuple[str, str, int, OffsetEntry]]
) -> None:
    table = OffsetTable()
    for group, topic, partition, entry in told:
        table.put(group, TopicPartition(topic, partition), entry)
    before = sorted(table.entries())
    sound = encode_place(b"orders", b"a", 3)

    for record in ((0, key, encode_entry(OffsetEntry(1))), (1, sound, value), (2, None, value)):
        if table.apply_all([record]):
            assert sorted(table.entries()) == before
        else:  # these bytes are sound by chance
            before = sorted(table.entries())
    with contextlib.suppress(CorruptRecordError):
        decode_place(key)
    with contextlib.suppress(CorruptRecordError):
        decode_entry(value)
    with contextlib.suppress(CorruptRecordError):
        OffsetTable.restored(value)
    table.check()


@given(commits, st.data())
def test_a_snapshot_with_any_byte_changed_is_refused(
    told: list[tuple[str, str, int, OffsetEntry]], data: st.DataObject
) -> None:
    table = OffsetTable()
    for group, topic, partition, entry in told:
        table.put(group, TopicPartition(topic, partition), entry)
    sound = table.snapshot()
    changed = bytearray(sound)
    changed[data.draw(st.integers(0, len(sound) - 1))] ^= data.draw(st.integers(1, 255))

    with contextlib.suppress(CorruptRecordError):
        OffsetTable.restored(bytes(changed))
        raise AssertionError("it was taken for sound")
