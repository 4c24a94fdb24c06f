"""What a tenure's records cost is measured well enough; neither saturation nor time hides it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from random import Random

import pytest

from assignors import WHOLE, ClaimLoad, HeavyHash, KeyRange, intersect, key_hash, null_key_hash
from assignors.load import BINS
from coop_consumer.core.load import (
    HALF_LIFE_MS,
    HeaviestHashes,
    Sampler,
    TenureLoad,
    cuts_of,
)
from coop_consumer.core.pace import PartitionPace
from coop_consumer.core.work_time import WorkTime

LOW, HIGH = WHOLE.parts(2)
COST_PS = 5 * 10**9  # 5 ms
SLICE = 64
Hashes = Callable[[], int]


def zipf(keys: int, exponent: float, rng: Random) -> Hashes:
    """Hashes of keys of a Zipf distribution."""
    hashes = [key_hash(b"N%d" % number) for number in range(keys)]
    weights = list(accumulate((number + 1) ** -exponent for number in range(keys)))
    return lambda: hashes[bisect_left(weights, rng.random() * weights[-1])]


def slices(draw: Hashes, records: int, rate: float = 1_000.0) -> Iterator[tuple[int, list[int]]]:
    """Slices of a stream with so many records a second, each with its time."""
    for first in range(0, records, SLICE):
        yield int(first / rate * 1_000), [draw() for _ in range(SLICE)]


def feed(
    load: TenureLoad,
    draw: Hashes,
    records: int,
    *,
    ranges: tuple[KeyRange, ...] = (WHOLE,),
    begin_ms: int = 0,
    rate: float = 1_000.0,
) -> Counter[int]:
    """Feed a tenure as intake does; returns the true counts."""
    truth, sampler, offset = Counter[int](), Sampler(), 0
    for at_ms, hashes in slices(draw, records, rate):
        held = [it for it in hashes if any(it in r for r in ranges)]
        truth.update(held)
        if sampler.is_due(begin_ms + at_ms):
            load.sample(ranges, offset, offset + SLICE, held, begin_ms + at_ms)
            load.check()
        offset += SLICE
    return truth


def told(load: TenureLoad, *ranges: KeyRange, pace: int = 0) -> ClaimLoad:
    found = load.told(ranges or (WHOLE,), COST_PS, pace)
    assert found is not None
    return found


def test_the_top_key_of_a_skewed_topic_is_told_to_a_few_percent() -> None:
    load = TenureLoad()
    truth = feed(load, zipf(4_000, 1.0, Random(7)), 400_000)
    (top, count), *_ = truth.most_common(1)
    claim = told(load)
    assert claim.heavy[0].key_hash == top
    share, true_share = claim.heavy[0].weight / COST_PS, count / truth.total()
    assert share == pytest.approx(true_share, rel=0.08)
    second = truth.most_common(2)[1]
    assert claim.heavy[1].key_hash == second[0]
    assert claim.heavy[1].weight / COST_PS == pytest.approx(second[1] / truth.total(), rel=0.12)


def test_bins_and_heavy_hashes_together_are_all_of_the_work_and_overlap_nowhere() -> None:
    load = TenureLoad()
    truth = feed(load, zipf(500, 1.1, Random(3)), 200_000)
    claim = told(load)
    assert len(claim.heavy) == 4
    total = sum(claim.bins) + sum(it.weight for it in claim.heavy)
    assert total == pytest.approx(COST_PS, abs=BINS + 4)
    heavy = {it.key_hash for it in claim.heavy}
    cuts = cuts_of((WHOLE,))
    for number, part in enumerate(zip([0, *cuts], [*cuts, WHOLE.hi + 1], strict=True)):
        rest = sum(n for it, n in truth.items() if part[0] <= it < part[1] and it not in heavy)
        assert claim.bins[number] / COST_PS == pytest.approx(rest / truth.total(), abs=0.01)


def test_keys_that_come_in_turn_are_all_sampled() -> None:
    """With one slice in 16 at even distances, only 64 of 1,024 keys would ever be seen."""
    turn, load = iter(range(10**9)), TenureLoad()
    hashes = [key_hash(b"k%d" % number) for number in range(1_024)]
    feed(load, lambda: hashes[next(turn) % 1_024], 600_000, rate=100_000.0)
    claim = told(load)
    assert claim.heavy == ()
    keys = Counter(it >> 60 for it in hashes)
    for number, weight in enumerate(claim.bins):
        assert weight / COST_PS == pytest.approx(keys[number] / 1_024, rel=0.05)


def test_many_equal_keys_have_no_heavy_one() -> None:
    load, rng = TenureLoad(), Random(5)
    hashes = [key_hash(b"k%d" % number) for number in range(20_000)]
    feed(load, lambda: rng.choice(hashes), 300_000)
    assert told(load).heavy == ()


def test_all_keys_null_is_an_even_load() -> None:
    offsets, load = iter(range(10**9)), TenureLoad()
    feed(load, lambda: null_key_hash(0, next(offsets)), 200_000)
    claim = told(load)
    assert claim.heavy == ()
    assert min(claim.bins) > 0.8 * max(claim.bins)


def test_one_key_is_all_of_the_work_however_fast_its_records_come() -> None:
    """That it has one worker only is for the plan to count: it knows how much others have to do."""
    load, only = TenureLoad(), key_hash(b"only")
    feed(load, lambda: only, 20_000)
    assert told(load) == ClaimLoad((0,) * BINS, (HeavyHash(only, COST_PS),), 0)
    busy = told(load, pace=1_000)  # five workers' work, if keys could be shared
    assert busy == ClaimLoad((0,) * BINS, (HeavyHash(only, COST_PS),), 1_000)
    assert busy.bins == (0,) * BINS


def test_what_is_old_counts_half_after_a_minute() -> None:
    load, old, new = TenureLoad(), key_hash(b"old"), key_hash(b"new")
    load.sample((WHOLE,), 0, 1_000, [old] * 1_000, 0)
    load.sample((WHOLE,), 1_000, 2_000, [new] * 1_000, HALF_LIFE_MS)
    (first, weight), (second, faded) = told(load).heavy
    assert (first, second) == (new, old)
    assert faded * 2 == pytest.approx(weight, abs=2)
    assert weight + faded == pytest.approx(COST_PS, abs=2)


def test_a_stream_that_is_held_for_long_does_not_look_light() -> None:
    steady, held = TenureLoad(), TenureLoad()
    draw = zipf(100, 1.0, Random(2))
    feed(steady, draw, 100_000)
    feed(held, zipf(100, 1.0, Random(2)), 100_000)
    before = told(held)
    assert before == told(steady)
    feed(held, draw, SLICE, begin_ms=10**9)  # 11 days later one slice comes
    after = told(held)
    total = sum(after.bins) + sum(it.weight for it in after.heavy)
    assert total == pytest.approx(COST_PS, abs=BINS + 4)
    assert held.rate == 1.0


def test_a_member_that_does_a_tenth_of_what_comes_measures_the_same_load() -> None:
    """Weights are for each offset, so how fast the member is does not enter."""
    quick, slow = TenureLoad(), TenureLoad()
    feed(quick, zipf(300, 1.0, Random(4)), 200_000, rate=10_000)
    feed(slow, zipf(300, 1.0, Random(4)), 200_000, rate=1_000)
    assert sum(told(slow).bins) == pytest.approx(sum(told(quick).bins), rel=0.05)
    assert told(slow).heavy[0].weight == pytest.approx(told(quick).heavy[0].weight, rel=0.1)


def test_clocks_that_are_apart_tell_the_same() -> None:
    one, other = TenureLoad(), TenureLoad()
    feed(one, zipf(300, 1.0, Random(6)), 50_000)
    feed(other, zipf(300, 1.0, Random(6)), 50_000, begin_ms=1_700_000_000_000)
    assert told(one) == told(other)
    before, after = PartitionPace(), PartitionPace()
    for second in range(30):
        before.told(1_000 * second, 1_000 * second)
        after.told(1_000 * second, 9 * 10**12 + 1_000 * second)
    assert before.offsets_a_second(600) == after.offsets_a_second(600) == 1_010


def test_a_clock_that_goes_back_breaks_nothing() -> None:
    load = TenureLoad()
    load.sample((WHOLE,), 0, 100, [1] * 100, 10**9)
    load.sample((WHOLE,), 100, 200, [1] * 100, 0)
    load.check()
    assert load.rate == 1.0


def test_years_of_samples_do_not_outgrow_a_float() -> None:
    load = TenureLoad()
    for minute in range(0, 100_000, 9):
        load.sample((WHOLE,), minute, minute + 64, [key_hash(b"k")] * 32, minute * 60_000)
    load.check()
    assert load.rate == pytest.approx(0.5)
    assert told(load).heavy[0].weight == COST_PS // 2


def test_little_is_known_of_nothing() -> None:
    load = TenureLoad()
    assert load.told((WHOLE,), COST_PS, 5) is None
    load.sample((WHOLE,), 0, 63, [1] * 63, 0)
    assert load.told((WHOLE,), COST_PS, 5) is None
    load.sample((WHOLE,), 63, 127, [1] * 64, 0)
    assert load.told((WHOLE,), 0, 5) is None, "no handler has ended yet"
    assert load.told((), COST_PS, 5) is None
    assert load.told((WHOLE,), COST_PS, 5) is not None


def test_eighths_are_of_the_ranges_laid_end_to_end() -> None:
    assert cuts_of((WHOLE,)) == [2**60 * number for number in range(1, 8)]
    ranges = (KeyRange(10, 13), KeyRange(100, 103))
    assert cuts_of(ranges) == [11, 12, 13, 100, 101, 102, 103]
    assert cuts_of((KeyRange(5, 5),)) == [5] * 7
    assert cuts_of((KeyRange(5, 6),)) == [5, 5, 5, 6, 6, 6, 6]


def test_what_is_given_up_takes_its_load_along() -> None:
    load, rng = TenureLoad(), Random(9)
    hot = [key_hash(b"hot%d" % number) for number in range(20)]
    inside, outside = next(it for it in hot if it in LOW), next(it for it in hot if it in HIGH)
    feed(load, lambda: rng.choice((inside, outside, outside, rng.randrange(2**63))), 100_000)
    before = told(load)
    assert {it.key_hash for it in before.heavy} == {inside, outside}
    after = told(load, LOW)
    load.check()
    assert [it.key_hash for it in after.heavy] == [inside]
    assert sum(after.bins) == pytest.approx(sum(before.bins[:4]), rel=0.05)
    for number in range(4):
        halves = after.bins[2 * number : 2 * number + 2]
        assert sum(halves) == pytest.approx(before.bins[number], rel=0.02)
        assert halves[0] == pytest.approx(halves[1], rel=0.1)
    assert after.heavy[0].weight == next(it.weight for it in before.heavy if it.key_hash == inside)
    alone = KeyRange(inside, inside)
    assert told(load, alone).heavy == after.heavy
    assert max(told(load, alone).bins) <= 1


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.3])
def test_a_sketch_never_says_too_much_and_little_too_little(exponent: float) -> None:
    rng, sketch, truth = Random(1), HeaviestHashes(), Counter[int]()
    draw = zipf(20_000, exponent, rng)
    for _ in range(2_000):
        some = [draw() for _ in range(SLICE)]
        sketch.add(some, 1.0)
        truth.update(some)
        assert len(sketch._weights) <= 512, "it is bounded"
    for key_hash_, sure in sketch.at_least():
        assert sure <= truth[key_hash_]
    (top, sure), *_ = sketch.at_least()
    assert top == truth.most_common(1)[0][0]
    assert sure == pytest.approx(truth[top], rel=0.01)


def test_one_slice_in_sixteen_is_looked_at_and_one_a_second_at_least() -> None:
    quick, slow = Sampler(), Sampler()
    taken = sum(quick.is_due(0) for _ in range(16_000))
    assert taken == pytest.approx(1_000, abs=30)
    assert sum(slow.is_due(1_000 * second) for second in range(100)) == 100


class TestPace:
    def test_it_is_what_arrives_and_a_sixtieth_of_what_is_left(self) -> None:
        pace = PartitionPace()
        for second in range(60):
            pace.told(300 * second, 1_000 * second)
        assert pace.offsets_a_second(0) == 300
        assert pace.offsets_a_second(6_000) == 400

    def test_nothing_is_known_before_a_second_has_passed(self) -> None:
        pace = PartitionPace()
        pace.told(10**9, 0)
        pace.told(10**9 + 5_000, 999)
        assert pace.offsets_a_second(0) == 0
        assert pace.offsets_a_second(60) == 1

    def test_it_follows_a_step_with_a_half_life_of_a_minute(self) -> None:
        pace, end = PartitionPace(), 0
        for second in range(600):
            pace.told(end, 1_000 * second)
            end += 100
        for second in range(600, 660):
            pace.told(end, 1_000 * second)
            end += 300
        assert pace.offsets_a_second(0) == pytest.approx(200, rel=0.03)

    def test_a_partition_that_was_cut_off_or_made_again_begins_anew(self) -> None:
        pace = PartitionPace()
        pace.told(5_000, 0)
        pace.told(6_000, 1_000)
        pace.told(10, 2_000)
        pace.told(20, 3_000)
        assert 0 < pace.offsets_a_second(0) < 1_000
        assert pace.end == 20


class TestWorkTime:
    def test_the_mean_is_of_the_last_minutes(self) -> None:
        work = WorkTime()
        assert work.cost_ps == 0
        work.spent.extend([(0.5, 100, "t"), (1.5, 300, "t")])
        work.look(0)
        assert work.cost_ps == COST_PS
        work.spent.append((40.0, 400, "t"))
        work.look(HALF_LIFE_MS)
        assert work.cost_ps == round((1.0 + 40.0) / 600 * 10**12)
        assert work.total_s == 42.0

    def test_a_rest_changes_nothing(self) -> None:
        work = WorkTime()
        work.spent.append((0.005, 1, "t"))
        work.look(0)
        work.look(10**12)
        assert work.cost_ps == COST_PS


def test_the_parts_of_a_load_are_those_of_its_ranges() -> None:
    ranges = (KeyRange(3, 40), KeyRange(50, 77))
    cuts = [3, *cuts_of(ranges), 78]
    sizes = [
        sum(r.size for r in intersect(ranges, (KeyRange(lo, hi - 1),))) for lo, hi in pairwise(cuts)
    ]
    assert sum(sizes) == 66
    assert max(sizes) - min(sizes) <= 1
