"""The bytes of keys and values: sizes, splitting, and what becomes of bytes that are none."""

import pickle
from dataclasses import replace
from itertools import chain

import pytest

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
    UnknownRecordVersionError,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    split_facts,
    split_record,
)
from offsets.offset_range import OFFSET_MAX, offset_ranges
from offsets.wire import put_numbers

TOPIC_ID = bytes(range(16))
TENURE = TenureKey("billing", TOPIC_ID, 3, TenureId("worker-1", 2**64 - 1, 7))
LOW, HIGH = WHOLE.parts(2)
DOINGS = (Doing(43, 5, Act.RUNS, 1_700_000_000_000),)
RECORD = TenureRecord(
    epoch=2,
    first_offset=-1,
    facts=(
        RangeProgress(LOW, 43, (OffsetRange(45, 47), OffsetRange(50, 50))),
        RangeProgress(HIGH, 40, (OffsetRange(42, 900), OffsetRange(2**40, OFFSET_MAX))),
    ),
    released=(KeyRange(0, 9),),
    attempts=(Attempt(48, 5, 3, parked=True, error="no such file: b\udcff", since_ms=-1),),
)
FALLEN = (Attempt(44, 5, 3, parked=False, error="no outcome", since_ms=5, fell=True),)
PAIRS: list[tuple[Key, Value]] = [
    (TENURE, RECORD),
    (
        TENURE,
        replace(RECORD, attempts=FALLEN, fallen=2, suspects=((LOW, 50), (HIGH, 70)), begun_to=60),
    ),
    (TENURE, replace(RECORD, doings=DOINGS, fallen=1, begun_to=0)),
    (TENURE, replace(RECORD, fallen=2)),
    (BaseKey("billing", TOPIC_ID, 0, 1, "worker-1/2"), BaseRecord(1, 4_000_000_000)),
    (AnnounceKey("billing", "worker-1"), AnnounceRecord(77, 12, "billing-worker-1-77", "host é")),
    (DecisionKey("billing", TOPIC_ID, 0, 48), DecisionRecord("skip", 1_700_000_000_000)),
    (
        ReleaseKey("billing", TOPIC_ID, 0, TenureId("worker-1", 77, 3)),
        ReleaseRecord((KeyRange(0, 9), WHOLE), 1_700_000_000_000),
    ),
    (StopKey("billing", TOPIC_ID, 0), StopRecord(48, 5, "ValueError: 3", "worker-1")),
    (PolicyKey("topic", "orders"), PolicyRecord({"accept.range.fetch": "false"})),
    (
        LoadKey("billing", "worker-1"),
        LoadRecord(
            incarnation=2**64 - 1,
            at_ms=1_700_000_000_000,
            workers=16,
            busy=873,
            handler_us=5_012,
            finished=2_700,
            partitions=(PartitionLoad(TOPIC_ID, 3, 5 * 10**9, 3_000),),
            heavy=(
                HeavyKey(TOPIC_ID, 3, KEY_HASH_MAX, 611, b"N14228\xff"),
                HeavyKey(TOPIC_ID, 3, 0, 40, None, is_busy=True),
                HeavyKey(TOPIC_ID, 3, 1, 40, b""),
            ),
            p50_us=4_000,
            p99_us=48_000,
            memory_bytes=70 * 2**20,
            capacity=48,
            ops_address="[2001:db8::7]:9464",
        ),
    ),
]


def spaced(count: int, distance: int, length: int) -> tuple[OffsetRange, ...]:
    firsts = range(10, 10 + count * (distance + length), distance + length)
    return offset_ranges(firsts, [first + length - 1 for first in firsts])


@pytest.mark.parametrize(("key", "value"), PAIRS, ids=lambda side: type(side).__name__)
def test_what_is_written_is_read(key: Key, value: Value) -> None:
    assert decode_key(encode_key(key)) == key
    assert decode_value(key, encode_value(value)) == value


@pytest.mark.parametrize(
    ("distance", "length", "bytes_a_gap"),
    [(1, 1, 2), (40, 200, 2), (1_000, 3_000, 4), (100_000, 5, 8), (2**46, 2**46, 16)],
)
def test_a_gap_range_takes_two_bytes_or_four_and_never_above_sixteen(
    distance: int, length: int, bytes_a_gap: int
) -> None:
    fact = RangeProgress(WHOLE, 0, spaced(60_000, distance, length))
    size = len(encode_value(TenureRecord(0, -1, (fact,))))
    assert size / 60_000 == pytest.approx(bytes_a_gap, abs=0.01)
    assert size < 1_000_000


def test_a_few_far_gap_ranges_do_not_widen_the_others() -> None:
    near = spaced(1_000, 3, 3)
    far = OffsetRange(2**40, 2**40 + 2**20)
    record = TenureRecord(0, -1, (RangeProgress(WHOLE, 0, (*near, far)),))
    assert len(encode_value(record)) < 2 * 1_001 + 60
    assert decode_value(TENURE, encode_value(record)) == record


def test_facts_with_the_same_last_gap_ranges_share_their_bytes() -> None:
    shared = spaced(10_000, 3, 3)
    facts = tuple(
        RangeProgress(part, i, shared if i % 2 else (OffsetRange(i + 2, i + 3), *shared[5:]))
        for i, part in enumerate(WHOLE.parts(8))
    )
    record = TenureRecord(0, -1, facts)
    assert len(encode_value(record)) < 20_000 + 8 * 60
    assert decode_value(TENURE, encode_value(record)) == record


def test_a_newer_version_is_told_apart_from_damage() -> None:
    with pytest.raises(UnknownRecordVersionError, match="version 9 is unknown, 1 is known"):
        decode_value(TENURE, b"\x09" + encode_value(RECORD)[1:])
    with pytest.raises(UnknownRecordVersionError):
        decode_key(b"\x09" + encode_key(TENURE)[1:])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "byte 0: 1 byte expected, 0 left"),
        (encode_value(RECORD)[:-1], "bytes? expected|items expected"),
        (encode_value(RECORD) + b"!", "33 items expected, 0 bytes left"),
        (encode_value(replace(RECORD, doings=DOINGS)) + b"!", "1 byte expected, 0 left"),
        (encode_value(replace(RECORD, doings=DOINGS, begun_to=9)) + b"!", "1 bytes too many"),
        (encode_value(BaseRecord(1, 2)), "a value of kind 2 under a key of kind 1"),
    ],
)
def test_damage_is_told_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(CorruptRecordError, match=message) as caught:
        decode_value(TENURE, data)
    assert 0 <= caught.value.position <= len(data)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


def test_a_key_has_one_form_only() -> None:
    data = encode_key(StopKey("g", TOPIC_ID, 0))
    assert data.endswith(b"\x00")
    with pytest.raises(CorruptRecordError, match="canonical"):
        decode_key(data[:-1] + b"\x80\x00")


@pytest.mark.parametrize(
    "key", [StopKey("g", b"short", 0), StopKey("g", TOPIC_ID, -1), StopKey("g", TOPIC_ID, 2**64)]
)
def test_a_key_that_could_not_be_read_is_not_written(key: Key) -> None:
    with pytest.raises(ValueError, match=r"topic id|whole number"):
        encode_key(key)


def test_a_large_record_is_split_and_its_parts_united_tell_the_same() -> None:
    facts = tuple(RangeProgress(part, 5, spaced(3_000, 300, 2)) for part in (LOW, HIGH))
    record = TenureRecord(1, 9, facts, (LOW,), RECORD.attempts)
    parts = split_record(record, max_bytes=2_000)
    assert all(len(encode_value(part)) <= 2_000 for part in parts)
    assert {part.parts for part in parts} == {len(parts)}
    assert parts[0].released == (LOW,)
    assert not any(part.released or part.attempts for part in parts[1:])
    whole, united = PartitionProgress(), PartitionProgress()
    for fact in facts:
        whole.merge(fact)
    for part in parts:
        for fact in part.facts:
            united.merge(fact)
    assert united.clip(WHOLE) == whole.clip(WHOLE)


def test_many_attempts_are_split_as_well() -> None:
    attempts = tuple(
        Attempt(at, at, 1, parked=False, error="e" * 40, since_ms=0) for at in range(99)
    )
    record = TenureRecord(1, 9, (RangeProgress(WHOLE, 5),), (LOW,), attempts)
    parts = split_record(record, max_bytes=1_000)
    assert all(len(encode_value(part)) <= 1_000 for part in parts)
    assert tuple(chain.from_iterable(part.attempts for part in parts)) == attempts
    assert [part.released for part in parts] == [(LOW,)] + [()] * (len(parts) - 1)
    assert parts[0].facts == record.facts


def test_a_small_record_is_its_own_only_part() -> None:
    assert split_record(RECORD, max_bytes=1_000_000) == (RECORD,)
    assert split_facts((), max_bytes=64) == [()]


def test_released_ranges_that_take_all_room_leave_some_for_facts() -> None:
    released = tuple(KeyRange(10 * n, 10 * n + 5) for n in range(20))
    record = replace(RECORD, released=released)
    parts = split_record(record, max_bytes=100)
    assert parts[0].released == released
    assert [it for part in parts for it in part.attempts] == list(RECORD.attempts)
    assert {fact.range for part in parts for fact in part.facts} == {
        fact.range for fact in RECORD.facts
    }
    with pytest.raises(ValueError, match="max_bytes=63"):
        split_facts(RECORD.facts, max_bytes=63)


def test_where_records_are_short_what_is_for_people_gives_way() -> None:
    doings = tuple(Doing(2**40 + n, n, Act.RUNS, 2**41) for n in range(20))
    record = TenureRecord(1, -1, (RangeProgress(WHOLE, 43),), doings=doings)
    assert split_record(record, 900_000) == (record,)
    (short,) = split_record(record, 200)
    assert short.doings == ()
    assert short.facts == record.facts
    assert len(encode_value(short)) <= 200


@pytest.mark.parametrize(
    "later",
    [1, 2, 3, 6],
    ids=["address", "busy keys", "capacity", "quantiles and memory"],
)
def test_a_load_of_an_earlier_version_is_read_without_what_came_later(later: int) -> None:
    load = LoadRecord(1, 2, 3, 4, 5, 6)
    with_zeros = encode_value(load)
    assert with_zeros.endswith(bytes(later))
    assert decode_value(LoadKey("g", "m"), with_zeros[:-later]) == load


_TOLD = LoadRecord(
    101, 1, 102, 103, 104, 105,
    (PartitionLoad(bytes(16), 106, 107, 108),),
    (HeavyKey(bytes(16), 109, 110, 111, None),),
    112, 113, 114, 115,
)  # fmt: skip


@pytest.mark.parametrize(
    ("number", "most", "what"),
    [
        (102, 1_000_000, "workers"),
        (103, 1_000, "per mille of the time"),
        (104, 86_400_000_000, "us a record"),
        (105, 10**9, "records a second"),
        (107, 86_400_000_000_000_000, "ps an offset"),
        (108, 10**9, "offsets a second"),
        (111, 1_000, "per mille by a key"),
        (112, 86_400_000_000, "us at p50"),
        (113, 86_400_000_000, "us at p99"),
        (114, 2**50, "bytes of memory"),
        (115, 2**32, "of capacity"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_a_load_beyond_all_reason_is_no_load(number: int, most: int, what: str) -> None:
    def with_number(told: int) -> bytes:
        written = bytearray()
        put_numbers(written, told)
        assert sound.count(number) == 1
        return sound.replace(bytes([number]), written)

    sound, key = encode_value(_TOLD), LoadKey("g", "m")
    assert decode_value(key, sound) == _TOLD
    decode_value(key, with_number(most))
    told = f"a load of {most + 1} {what}, {most} are the most"
    with pytest.raises(CorruptRecordError, match=told):
        decode_value(key, with_number(most + 1))


def test_an_address_that_is_too_long_is_not_written_and_not_read() -> None:
    key, load = LoadKey("g", "m"), LoadRecord(1, 2, 3, 4, 5, 6, ops_address="a" * 64)
    assert decode_value(key, encode_value(load)) == load
    long = encode_value(replace(load, ops_address="a" * 65))
    assert decode_value(key, long) == replace(load, ops_address="")
    with pytest.raises(CorruptRecordError, match="an address of 65, 64 are the most"):
        decode_value(key, long[:-1] + b"\x41" + b"a" * 65)
    with pytest.raises(CorruptRecordError, match="not UTF-8"):
        decode_value(key, long[:-1] + b"\x01\xff")


def test_of_a_load_above_its_bound_the_bound_is_written() -> None:
    slow = LoadRecord(1, 2, 3, 4, 10**12, 6, (PartitionLoad(bytes(16), 0, 10**18, 1),))
    read = decode_value(LoadKey("g", "m"), encode_value(slow))
    assert isinstance(read, LoadRecord)
    assert read.handler_us == 86_400_000_000
    assert read.partitions[0].weight == 86_400_000_000_000_000
