"""What a claim costs, as bytes: small, about right, and never an error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import (
    KEY_HASH_MAX,
    WHOLE,
    Claim,
    ClaimLoad,
    HeavyHash,
    KeyRange,
    Subscription,
    TopicPartition,
    decode_subscription,
    encode_subscription,
)
from assignors.load import (
    BINS,
    LOAD_BYTES_MAX,
    decode_load,
    eighths,
    encode_load,
    level_of,
    value_of,
)

T0 = TopicPartition("t", 0)
LOW, HIGH = WHOLE.parts(2)
LOAD = ClaimLoad(
    tuple(10**9 * (i + 1) for i in range(BINS)),
    (HeavyHash(LOW.hi, 5 * 10**9), HeavyHash(7, 10**9)),
    pace=1_200,
)
SUBSCRIPTION = Subscription(
    name="worker-7",
    incarnation=1,
    host="h1",
    capacity=16,
    allow_sharing=True,
    contract="c",
    nonce=5,
    claims=(
        Claim(1, T0, (LOW,), draining=False, load=LOAD),
        Claim(2, TopicPartition("t", 1), (HIGH,), draining=True),
    ),
)


def test_a_weight_comes_back_within_eight_percent() -> None:
    assert value_of(level_of(0)) == 0
    for value in [*range(10, 3_000), *(10**power for power in range(4, 13))]:
        assert abs(value_of(level_of(value)) - value) <= 0.08 * value


def test_a_weight_that_is_not_nothing_does_not_become_nothing() -> None:
    assert value_of(level_of(1)) == 1


def test_weights_beyond_the_scale_are_its_end() -> None:
    assert value_of(level_of(10**30)) == value_of(255) > 5 * 10**12


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 is no weight or pace: it is negative"):
        level_of(-1)


def test_bins_go_on_over_the_holes_between_ranges() -> None:
    found = list(eighths([KeyRange(0, 9), KeyRange(20, 25)]))
    assert found[4:6] == [(8, 10, 4), (20, 22, 5)]
    assert len(found) == BINS


def test_a_claim_of_fewer_hashes_than_bins_leaves_some_bins_empty() -> None:
    assert list(eighths([KeyRange(5, 5), KeyRange(9, 10)])) == [(5, 6, 2), (9, 10, 5), (10, 11, 7)]


def test_a_load_takes_no_more_than_46_bytes_on_the_wire() -> None:
    heavy = tuple(HeavyHash(i, 10**12) for i in range(4))
    load = ClaimLoad((10**12,) * BINS, heavy, 10**12)
    claims = [Claim(n, T0, (LOW,), draining=False, load=load) for n in range(200)]
    loaded = replace(SUBSCRIPTION, claims=tuple(claims))
    bare = replace(SUBSCRIPTION, claims=tuple(replace(claim, load=None) for claim in claims))
    size = len(encode_subscription(loaded)) - len(encode_subscription(bare))
    assert len(encode_load(load)) == LOAD_BYTES_MAX
    assert size / 200 <= 46.1, "46 bytes each, and one number for all"


def test_what_was_written_once_survives_the_wire() -> None:
    read = decode_subscription(encode_subscription(SUBSCRIPTION))
    assert read.claims[1] == SUBSCRIPTION.claims[1]
    load = read.claims[0].load
    assert load is not None
    assert load.heavy[0].key_hash == LOW.hi
    assert load.weight == pytest.approx(LOAD.weight, rel=0.05)
    assert decode_subscription(encode_subscription(read)) == read


def test_without_loads_the_message_is_the_one_that_it_was_before_there_were_any() -> None:
    bare = replace(SUBSCRIPTION, claims=(replace(SUBSCRIPTION.claims[0], load=None),))
    with_load = replace(SUBSCRIPTION, claims=SUBSCRIPTION.claims[:1])
    old, new = (encode_subscription(it) for it in (bare, with_load))
    head = 3 if len(new) - 3 < 128 else 4
    assert new[head:].startswith(old[3:]), "an older reader finds all it knows, and skips the rest"


@pytest.mark.parametrize(
    "load",
    [
        ClaimLoad((1,) * 7, (), 1),
        ClaimLoad((1,) * BINS, tuple(HeavyHash(i, 1) for i in range(5)), 1),
        ClaimLoad((-1,) * BINS, (), 1),
    ],
    ids=["bins", "heavy", "negative"],
)
def test_a_load_that_is_none_is_not_written(load: ClaimLoad) -> None:
    with pytest.raises(ValueError, match=r"cannot be written|no weight"):
        encode_load(load)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        b"\xff" * 10,
        encode_load(LOAD) + b"\x00",
        b"\x01" * (LOAD_BYTES_MAX + 9),
        bytes(9) + (2**64 - 1).to_bytes(8, "big") + b"\x01",
        bytes(9) + HIGH.lo.to_bytes(8, "big") + b"\x01",
        bytes(9) + 2 * (bytes(8) + b"\x01"),
    ],
    ids=["empty", "short", "long", "rest", "too many", "no hash", "not held", "twice"],
)
def test_bytes_that_say_no_load_count_as_none(data: bytes) -> None:
    assert decode_load(data, (LOW,)) is None


@pytest.mark.parametrize(
    "tail",
    [b"\xff", b"\x01\x63", b"\x7f" * 40, bytes(60), b"\x01\x09" + bytes(9)],
    ids=["endless", "cut", "many", "zeros", "all zero"],
)
def test_a_tail_that_cannot_be_read_leaves_the_claims_as_they_are(tail: bytes) -> None:
    bare = replace(SUBSCRIPTION, claims=tuple(replace(it, load=None) for it in SUBSCRIPTION.claims))
    data = encode_subscription(bare)
    assert len(data) - 3 + len(tail) < 2**14
    length = len(data) - 3 + len(tail)
    head = bytes((length,)) if length < 128 else bytes((length & 0x7F | 0x80, length >> 7))
    read = decode_subscription(data[:2] + head + data[3:] + tail)
    assert [replace(claim, load=None) for claim in read.claims] == list(bare.claims)
    assert all(claim.load is None or not claim.load.weight for claim in read.claims)
    assert bool(read.loads_unreadable) == (tail not in {bytes(60), b"\x01\x09" + bytes(9)})
    assert decode_subscription(data).loads_unreadable == 0


def test_a_heavy_hash_may_be_the_last_one_of_all() -> None:
    load = ClaimLoad((0,) * BINS, (HeavyHash(KEY_HASH_MAX, 2**20),), 2)
    assert decode_load(encode_load(load), (HIGH,)) == load
