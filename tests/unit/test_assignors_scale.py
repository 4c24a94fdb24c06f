"""The map from hashes to load: the identity without loads, its own inverse, never inside a hash."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from assignors import WHOLE
from assignors.claims import LINE, Piece
from assignors.merged_load import LineLoad
from assignors.scale import EVEN, in_units, scale_of


def some_line(seed: int) -> LineLoad:
    """Twenty parts of any load, and five hashes that are heavier than most of them."""
    rng = random.Random(seed)
    cuts = sorted({0, LINE, *(rng.randrange(LINE) for _ in range(20))})
    parts = [(begin, end, rng.randrange(10**12)) for begin, end in pairwise(cuts)]
    return LineLoad(parts, {rng.randrange(LINE): 10**12 for _ in range(5)})


@pytest.mark.parametrize("k", [1, 2, 3, 5, 48])
def test_without_loads_parts_are_as_the_kip_prints_them(k: int) -> None:
    assert EVEN.parts(k) == WHOLE.parts(k)


def test_the_identity_is_exact() -> None:
    for at in (0, 1, LINE // 3, LINE - 1, LINE):
        assert EVEN.load_below(at) == EVEN.hash_at(at) == at


@pytest.mark.parametrize("seed", range(20))
def test_every_border_comes_back_as_the_same_hash(seed: int) -> None:
    line = some_line(seed)
    scale = scale_of(in_units(line, (line.total, 1)))
    rng = random.Random(seed)
    places = [begin for begin, _, _ in line.parts] + [rng.randrange(LINE) for _ in range(200)]
    for key_hash in line.heavy:
        places += [key_hash, key_hash + 1]
    for at in (*places, LINE):
        assert scale.hash_at(scale.load_below(at)) == at


@pytest.mark.parametrize("seed", range(20))
def test_more_load_lies_below_a_higher_hash(seed: int) -> None:
    line = some_line(seed)
    scale = scale_of(in_units(line, (line.total, 1)))
    rng = random.Random(seed)
    places = sorted(rng.randrange(LINE) for _ in range(200))
    for one, other in pairwise(places):
        assert scale.load_below(one) < scale.load_below(other) or one == other
        assert scale.load_below(one) < scale.load_below(one + 1)


def test_a_cut_inside_of_a_hash_falls_on_its_nearer_side() -> None:
    line = some_line(1)
    scale = scale_of(in_units(line, (line.total, 1)))
    key_hash = min(line.heavy)
    begin, end = scale.load_below(key_hash), scale.load_below(key_hash + 1)
    assert scale.hash_at(begin + (end - begin) // 4) == key_hash
    assert scale.hash_at(end - (end - begin) // 4) == key_hash + 1


def test_what_is_cold_counts_two_percent_of_the_mean() -> None:
    half = LINE // 2
    line = in_units(LineLoad([(0, half, 0), (half, LINE, 10**12)], {}), (10**12, 1))
    cold, warm = (load for _, _, load in line.parts)
    assert cold / (cold + warm) == pytest.approx(0.01, rel=0.01)


def test_a_hash_that_is_left_out_weighs_nothing_more_than_what_is_around_it() -> None:
    line = in_units(some_line(3), (10**13, 1))
    key_hash, load = max(line.heavy.items())
    with_it, without = scale_of(line), scale_of(line, {key_hash})
    assert with_it.length - without.length == load


def test_pieces_that_touch_still_touch_on_the_way_back() -> None:
    line = some_line(4)
    scale = scale_of(in_units(line, (line.total, 1)))
    cuts = [scale.length * i // 9 for i in range(10)]
    pieces = [Piece(begin, end, i) for i, (begin, end) in enumerate(pairwise(cuts))]
    back = scale.to_hashes(pieces)
    assert [back[0].begin, back[-1].end] == [0, LINE]
    assert all(one.end == other.begin for one, other in pairwise(back))


def test_parts_of_a_line_with_one_hash_of_all_load_are_none_of_them_empty() -> None:
    line = LineLoad([(0, LINE, 0)], {LINE // 3: 10**12})
    parts = scale_of(in_units(line, (line.total, 1))).parts(8)
    assert len(parts) == 8
    assert all(one.hi + 1 == other.lo for one, other in pairwise(parts))
    assert [parts[0].lo, parts[-1].hi] == [0, WHOLE.hi]
