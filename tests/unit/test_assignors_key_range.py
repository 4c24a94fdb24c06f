"""Key hashes and ranges: the printed examples, and the edges of the set functions."""

from __future__ import annotations

import mmh3
import pytest

from assignors import (
    KEY_HASH_MAX,
    WHOLE,
    KeyRange,
    block_hash,
    covers,
    intersect,
    key_hash,
    null_key_hash,
    subtract,
    union,
)

N = 9223372036854775807


def test_the_hash_space_is_that_of_a_signed_long():
    assert KEY_HASH_MAX == N
    assert KeyRange(0, N) == WHOLE
    assert WHOLE.size == 2**63


@pytest.mark.parametrize("key", [b"", b"a", b"N14228", bytes(1000)])
def test_a_key_hashes_to_the_second_long_of_murmur3_without_its_lowest_bit(key):
    second_long = int.from_bytes(mmh3.mmh3_x64_128_digest(key)[8:], "little")
    assert key_hash(key) == second_long >> 1


def test_key_hashes_never_change():
    assert key_hash(b"N14228") == 5180315114096248098
    assert null_key_hash(3, 42) == 234997658018670489


def test_null_keys_spread_by_partition_and_offset():
    assert len({null_key_hash(p, offset) for p in range(10) for offset in range(100)}) == 1000


def test_offsets_of_one_block_hash_alike_and_blocks_differ():
    assert {block_hash(0, offset, 100) for offset in range(100)} == {block_hash(0, 0, 100)}
    assert len({block_hash(p, offset, 100) for p in (0, 1) for offset in (0, 100, 200)}) == 6


def test_two_parts_of_the_whole_are_as_the_kip_prints_them():
    assert WHOLE.parts(2) == (KeyRange(0, N // 2 - 1), KeyRange(N // 2, N))


@pytest.mark.parametrize("k", [1, 2, 3, 7, 1000])
def test_parts_join_to_the_whole_and_begin_at_the_printed_cuts(k):
    parts = WHOLE.parts(k)
    assert [part.lo for part in parts] == [N * i // k for i in range(k)]
    assert union(parts) == (WHOLE,)
    assert sum(part.size for part in parts) == WHOLE.size


@pytest.mark.parametrize(("key_range", "k"), [(WHOLE, 0), (WHOLE, -1), (KeyRange(5, 8), 4)])
def test_a_range_is_not_cut_into_no_parts_or_empty_ones(key_range, k):
    with pytest.raises(ValueError, match=f"cannot be cut into {k} parts"):
        key_range.parts(k)


def test_a_single_hash_is_one_part():
    assert KeyRange(5, 5).parts(1) == (KeyRange(5, 5),)


@pytest.mark.parametrize(("lo", "hi"), [(-1, 5), (5, 4), (0, N + 1)])
def test_a_range_outside_the_space_or_upside_down_is_refused(lo, hi):
    with pytest.raises(ValueError, match="is no key range"):
        KeyRange(lo, hi)


def test_a_range_prints_as_a_closed_interval():
    assert str(KeyRange(0, N // 2 - 1)) == "[0, 4611686018427387902]"


def test_both_ends_belong_to_a_range():
    key_range = KeyRange(5, 9)
    assert [hash_ for hash_ in range(12) if hash_ in key_range] == [5, 6, 7, 8, 9]


def test_ranges_that_share_one_hash_overlap_and_neighbours_do_not():
    assert KeyRange(0, 5).overlaps(KeyRange(5, 9))
    assert not KeyRange(0, 4).overlaps(KeyRange(5, 9))
    assert KeyRange(0, 4).intersection(KeyRange(5, 9)) is None


def test_union_joins_what_touches_and_leaves_what_does_not():
    assert union([KeyRange(6, 9), KeyRange(0, 5), KeyRange(11, 12)]) == (
        KeyRange(0, 9),
        KeyRange(11, 12),
    )


def test_empty_sets_are_neutral():
    some = (KeyRange(3, 5),)
    assert union([]) == intersect(some, ()) == subtract((), some) == ()
    assert subtract(some, ()) == some
    assert covers(some, ())
    assert not covers((), some)


def test_neighbours_together_cover_what_spans_them():
    assert covers((KeyRange(0, 4), KeyRange(5, 9)), (KeyRange(3, 7),))
