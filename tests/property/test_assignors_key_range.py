"""The set functions over ranges, against plain sets of hashes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from assignors import KEY_HASH_MAX, KeyRange, covers, intersect, key_hash, subtract, union

SPACE = 40


def as_range(ends):
    return KeyRange(min(ends), max(ends))


ends = st.integers(0, SPACE)
ranges = st.lists(st.tuples(ends, ends).map(as_range), max_size=8)


def hashes(ranges):
    return {hash_ for key_range in ranges for hash_ in range(key_range.lo, key_range.hi + 1)}


def is_tidy(ranges):
    return all(one.hi + 1 < other.lo for one, other in pairwise(ranges))


@given(ranges)
def test_union_is_the_set_of_all_hashes_and_tidy(some):
    joined = union(some)
    assert hashes(joined) == hashes(some)
    assert is_tidy(joined)


@given(ranges, ranges)
def test_subtract_intersect_and_covers_are_those_of_plain_sets(some, others):
    one, other = union(some), union(others)
    assert hashes(subtract(one, other)) == hashes(one) - hashes(other)
    assert hashes(intersect(one, other)) == hashes(one) & hashes(other)
    assert covers(one, other) == (hashes(one) >= hashes(other))
    assert is_tidy(subtract(one, other))
    assert is_tidy(intersect(one, other))


@given(ranges, ranges, st.integers(1, 5))
def test_sets_with_touching_ranges_count_like_tidy_ones(some, others, k):
    one, other = union(some), union(others)
    cut = tuple(part for r in one for part in (r.parts(k) if r.hi - r.lo >= k else (r,)))
    assert hashes(subtract(cut, other)) == hashes(one) - hashes(other)
    assert hashes(subtract(other, cut)) == hashes(other) - hashes(one)
    assert covers(cut, other) == covers(one, other)


@given(st.tuples(ends, ends).map(as_range), st.tuples(ends, ends).map(as_range))
def test_two_ranges_compare_like_plain_sets(one, other):
    both = hashes([one]) & hashes([other])
    assert one.overlaps(other) == bool(both)
    assert hashes(filter(None, [one.intersection(other)])) == both
    assert one.size == len(hashes([one]))


@given(st.integers(0, KEY_HASH_MAX), st.integers(0, KEY_HASH_MAX), st.integers(1, 50))
def test_parts_are_consecutive_and_of_one_size(lo, hi, k):
    key_range = as_range((lo, hi))
    if key_range.hi - key_range.lo < k:
        k = 1
    parts = key_range.parts(k)
    assert len(parts) == k
    assert union(parts) == (key_range,)
    assert sum(part.size for part in parts) == key_range.size
    assert max(part.size for part in parts) - min(part.size for part in parts) <= 2


@given(st.binary())
def test_every_key_has_a_place_in_the_space(key):
    assert 0 <= key_hash(key) <= KEY_HASH_MAX
