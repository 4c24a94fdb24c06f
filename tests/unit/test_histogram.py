"""Durations in fixed buckets, and when a tenure's records were fetched."""

from __future__ import annotations

import pytest

from coop_consumer.core.fetch_times import FetchTimes
from coop_consumer.core.histogram import (
    AGE_S,
    HANDLER_S,
    STEP_S,
    WAIT_S,
    Durations,
    Histogram,
    added_up,
)


def test_an_observation_lies_in_the_bucket_that_its_bound_closes() -> None:
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.11, 1.0, 1.1):
        histogram.observe(seconds)

    assert histogram.now() == Durations((0.1, 1.0), (2, 2, 1), pytest.approx(2.36))
    assert histogram.now().count == 5


def test_quantiles_lie_in_their_buckets_and_nothing_lies_above_the_highest_bound() -> None:
    histogram = Histogram((0.1, 1.0, 5.0))
    assert histogram.now().quantile(0.99) == 0.0
    histogram.observe(0.5, 98)
    histogram.observe(3.0, 1)
    histogram.observe(60.0, 1)

    found = histogram.now()
    assert 0.1 < found.quantile(0.5) <= 1.0
    assert found.quantile(0.98) == 1.0
    assert 1.0 < found.quantile(0.99) <= 5.0
    assert found.quantile(1.0) == 5.0


def test_what_came_since_a_moment_is_what_is_more_and_histograms_add_up() -> None:
    histogram = Histogram((0.1, 1.0))
    histogram.observe(0.05)
    before = histogram.now()
    histogram.observe(0.5, 2)

    assert histogram.now().since(before).counts == (0, 2, 0)
    assert histogram.now().since(None) == histogram.now()
    both = added_up([before, histogram.now()])
    assert both is not None
    assert both.counts == (2, 2, 0)
    assert added_up([]) is None


def test_an_observation_stands_for_as_many_as_it_says() -> None:
    histogram = Histogram((0.1, 1.0))
    histogram.observe(0.5, 1_000)

    assert histogram.now() == Durations((0.1, 1.0), (0, 1_000, 0), 500.0)


def test_two_clocks_make_no_negative_duration() -> None:
    histogram = Histogram((0.1, 1.0))
    histogram.observe(-3_600.0, 2)

    assert histogram.now() == Durations((0.1, 1.0), (2, 0, 0), 0.0)


def test_a_value_at_one_moment_stays_as_it_is() -> None:
    histogram = Histogram((0.1,))
    before = histogram.now()
    histogram.observe(0.01)

    assert before.count == 0


@pytest.mark.parametrize("bounds", [AGE_S, HANDLER_S, STEP_S, WAIT_S])
def test_bounds_ascend(bounds: tuple[float, ...]) -> None:
    assert list(bounds) == sorted(set(bounds))


class TestFetchTimes:
    def test_a_record_came_with_the_batch_that_has_its_offset(self) -> None:
        times = FetchTimes()
        times.note(10, 1_000)
        times.note(20, 2_000)

        assert [times.of(it) for it in (0, 9, 10, 19)] == [1_000, 1_000, 2_000, 2_000]
        assert times.of(20) is None

    def test_after_a_step_back_the_records_come_anew(self) -> None:
        times = FetchTimes()
        times.note(10, 1_000)
        times.note(20, 2_000)
        times.note(15, 3_000)

        assert [times.of(it) for it in (9, 10, 14)] == [1_000, 3_000, 3_000]
        assert times.of(19) is None

    def test_there_are_never_many_notes_and_each_offset_has_one(self) -> None:
        times = FetchTimes()
        for number in range(1, 10_001):
            times.note(number * 5, number * 10)

        assert len(times._ends) <= 256
        assert times.of(0) is not None
        for offset in range(0, 50_000, 977):
            came_ms = times.of(offset)
            assert came_ms is not None
            assert came_ms >= (offset // 5 + 1) * 10, "it came no sooner than its batch"
        assert times.of(49_999) == 100_000

    def test_what_came_in_one_moment_is_one_note(self) -> None:
        times = FetchTimes()
        for end in range(1, 1_000):
            times.note(end, 7)

        assert len(times._ends) == 1
        assert times.of(0) == times.of(998) == 7
