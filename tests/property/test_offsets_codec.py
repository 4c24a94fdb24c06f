"""Every value comes back from its bytes; any other bytes are an error of one kind."""

import contextlib
from dataclasses import replace
from typing import Literal

from hypothesis import assume, example, given
from hypothesis import strategies as st

from assignors.key_hash import KEY_HASH_MAX
from assignors.key_range import WHOLE, KeyRange
from offsets import (
    Act,
    AnnounceKey,
    AnnounceRecord,
    Attempt,
    BaseKey,
    BaseRecord,
    CorruptRecordError,
    DecisionKey,
    DecisionRecord,
    Doing,
    HeavyKey,
    Key,
    LoadKey,
    LoadRecord,
    OffsetRange,
    PartitionLoad,
    PartitionProgress,
    PolicyKey,
    PolicyRecord,
    RangeProgress,
    ReleaseKey,
    ReleaseRecord,
    StopKey,
    StopRecord,
    TenureId,
    TenureKey,
    TenureRecord,
    TopicStartKey,
    TopicStartRecord,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    range_progress,
    split_record,
)
from offsets.offset_range import OFFSET_MAX

# Distances around every width, so that blocks of each width, with and without others, are met.
edges = st.sampled_from([0, 1, 2, 253, 254, 255, 256, 65_534, 65_535, 65_536, 2**32 - 1, 2**32])
offsets = st.integers(0, OFFSET_MAX) | edges
numbers = st.integers(0, 2**64 - 1)
signed = st.integers(-(2**63), 2**63 - 1)
hashes = st.integers(0, KEY_HASH_MAX)
texts = st.text(st.characters(), max_size=8)
key_ranges = st.tuples(hashes, hashes).map(lambda ends: KeyRange(min(ends), max(ends)))
topic_ids = st.binary(min_size=16, max_size=16)
scopes: st.SearchStrategy[Literal["topic", "group"]] = st.sampled_from(["topic", "group"])
actions: st.SearchStrategy[Literal["retry", "skip"]] = st.sampled_from(["retry", "skip"])


@st.composite
def facts(draw: st.DrawFn) -> RangeProgress:
    stable = offset = draw(st.integers(0, 2**40))
    gaps = []
    for skip, length in draw(st.lists(st.tuples(edges, edges), max_size=12)):
        gaps.append(OffsetRange(offset + skip, offset + skip + length))
        offset = gaps[-1].last + 2
    return range_progress(draw(key_ranges), stable, gaps)


places = (st.text(max_size=8), topic_ids, numbers)
keys: st.SearchStrategy[Key] = st.one_of(
    st.builds(TenureKey, *places, st.builds(TenureId, texts, numbers, numbers), numbers),
    st.builds(BaseKey, *places, numbers, texts),
    st.builds(AnnounceKey, texts, texts),
    st.builds(DecisionKey, *places, offsets),
    st.builds(ReleaseKey, *places, st.builds(TenureId, texts, numbers, numbers)),
    st.builds(StopKey, *places),
    st.builds(TopicStartKey, texts, texts, texts),
    st.builds(PolicyKey, scopes, texts),
    st.builds(LoadKey, texts, texts),
)
doings = st.builds(Doing, offsets, hashes, st.sampled_from(Act), signed)
attempts = st.builds(Attempt, offsets, hashes, numbers, st.booleans(), texts, signed)
tenure_records = st.builds(
    TenureRecord,
    numbers,
    signed,
    st.lists(facts(), max_size=6).map(tuple),
    st.lists(key_ranges, max_size=3).map(tuple),
    st.lists(attempts, max_size=3).map(tuple),
    numbers,
    signed,
    numbers,
    numbers,
    st.lists(doings, max_size=3).map(tuple),
)
# As large as is believed: see `offsets.load_codec`.
per_mille, a_second = st.integers(0, 1_000), st.integers(0, 10**9)
day_us, day_ps = st.integers(0, 86_400 * 10**6), st.integers(0, 86_400 * 10**12)
partition_loads = st.builds(PartitionLoad, topic_ids, numbers, day_ps, a_second)
heavy_keys = st.builds(
    HeavyKey,
    topic_ids,
    numbers,
    hashes,
    per_mille,
    st.none() | st.binary(max_size=64),
    st.booleans(),
)
values: st.SearchStrategy[Value] = st.one_of(
    tenure_records,
    st.builds(BaseRecord, numbers, offsets),
    st.builds(AnnounceRecord, numbers, offsets, texts, texts),
    st.builds(DecisionRecord, actions, signed),
    st.builds(ReleaseRecord, st.lists(key_ranges, max_size=3).map(tuple), signed),
    st.builds(StopRecord, offsets, hashes, texts, texts),
    st.builds(TopicStartRecord, topic_ids, numbers),
    st.builds(PolicyRecord, st.dictionaries(texts, texts, max_size=3)),
    st.builds(
        LoadRecord,
        numbers,
        signed,
        st.integers(0, 10**6),
        per_mille,
        day_us,
        a_second,
        st.lists(partition_loads, max_size=3).map(tuple),
        st.lists(heavy_keys, max_size=4).map(tuple),
        ops_address=st.text(max_size=64),
    ),
)


def key_for(value: Value) -> Key:
    """A key of the value's kind."""
    place, tenure = ("g", bytes(16), 0), TenureId("m", 0, 0)
    keys_by_kind: dict[type[Value], Key] = {
        TenureRecord: TenureKey(*place, tenure),
        BaseRecord: BaseKey(*place, 0, "w"),
        AnnounceRecord: AnnounceKey("g", "m"),
        DecisionRecord: DecisionKey(*place, 0),
        ReleaseRecord: ReleaseKey(*place, tenure),
        StopRecord: StopKey(*place),
        TopicStartRecord: TopicStartKey("g", "t", "w"),
        PolicyRecord: PolicyKey("group", "g"),
        LoadRecord: LoadKey("g", "m"),
    }
    return keys_by_kind[type(value)]


@given(keys, keys)
def test_keys_come_back_and_different_keys_have_different_bytes(key: Key, other: Key) -> None:
    assert decode_key(encode_key(key)) == key
    assert (encode_key(key) == encode_key(other)) == (key == other)


@given(values)
@example(TenureRecord(0, -1, (RangeProgress(WHOLE, 0, (OffsetRange(1, OFFSET_MAX),)),)))
@example(TenureRecord(0, -1, (RangeProgress(WHOLE, OFFSET_MAX + 1),)))
def test_values_come_back(value: Value) -> None:
    assert decode_value(key_for(value), encode_value(value)) == value


@given(tenure_records)
def test_a_gap_range_never_takes_more_than_16_bytes(record: TenureRecord) -> None:
    bare = replace(
        record, facts=tuple(RangeProgress(fact.range, fact.stable) for fact in record.facts)
    )
    gaps = sum(len(fact.gaps) for fact in record.facts)
    size = len(encode_value(record)) - len(encode_value(bare))
    assert size <= 16 * gaps + 2 * len(record.facts)  # width and number of others, once a fact


@given(st.binary(max_size=60))
def test_bytes_of_any_origin_raise_one_error(data: bytes) -> None:
    for prefix in (b"", b"\x01", b"\x01\x01", b"\x01\x06", b"\x01\x09"):
        with contextlib.suppress(CorruptRecordError):
            decode_key(prefix + data)
        for kind in (
            TenureRecord(0, 0, ()),
            PolicyRecord({}),
            LoadRecord(0, 0, 0, 0, 0, 0),
        ):
            with contextlib.suppress(CorruptRecordError):
                decode_value(key_for(kind), prefix + data)


@given(values, st.data())
def test_damaged_values_raise_one_error_or_are_values(value: Value, data: st.DataObject) -> None:
    damaged = bytearray(encode_value(value))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptRecordError):
        again = decode_value(key_for(value), bytes(damaged))
        assert decode_value(key_for(value), encode_value(again)) == again


@given(values, st.integers(0))
def test_a_value_cut_off_is_corrupt(value: Value, at: int) -> None:
    data = encode_value(value)
    cut = data[: at % len(data)]
    if isinstance(value, LoadRecord):
        # That is what earlier versions write.
        fourth = replace(value, ops_address="")
        third = replace(fourth, heavy=tuple(replace(it, is_busy=False) for it in fourth.heavy))
        second = replace(third, capacity=0)
        first = replace(second, p50_us=0, p99_us=0, memory_bytes=0)
        ends = (first, 6), (second, 3), (third, 2), (fourth, 1)
        assume(cut not in [encode_value(it)[:-missing] for it, missing in ends])
    try:
        decode_value(key_for(value), cut)
    except CorruptRecordError as error:
        assert error.position <= len(cut)  # noqa: PT017 -- the position is of the cut bytes
    else:
        raise AssertionError(f"{cut!r} was read as a value")


@given(st.lists(facts(), max_size=6), st.lists(attempts, max_size=9), st.integers(400, 800))
def test_a_split_record_fits_and_tells_the_same(
    all_facts: list[RangeProgress], failed: list[Attempt], max_bytes: int
) -> None:
    record = TenureRecord(0, -1, tuple(all_facts), (WHOLE,), tuple(failed))
    parts = split_record(record, max_bytes)
    assert all(len(encode_value(part)) <= max_bytes for part in parts)
    assert [attempt for part in parts for attempt in part.attempts] == failed
    whole, united = PartitionProgress(), PartitionProgress()
    for fact in all_facts:
        whole.merge(fact)
    for part in parts:
        for fact in part.facts:
            united.merge(fact)
    assert united.clip(WHOLE) == whole.clip(WHOLE)
