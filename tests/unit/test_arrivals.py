"""How fast records arrive, by the ends of partitions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assignors import TopicPartition
from coop_consumer.status.arrivals import Arrivals

ORDERS, OTHERS = TopicPartition("orders", 0), TopicPartition("orders", 1)


def seen(end: Callable[[int], int], until_s: int, every_s: int = 5) -> Arrivals:
    arrivals = Arrivals()
    for at_s in range(0, until_s + 1, every_s):
        arrivals.note(float(at_s), {ORDERS: end(at_s)})
    return arrivals


def test_one_look_tells_nothing() -> None:
    assert Arrivals().rates() == {}
    arrivals = seen(lambda _: 500, 0)
    assert arrivals.rates() == {ORDERS: 0.0}
    assert arrivals.span_s == 0.0


def test_a_steady_stream_is_its_mean() -> None:
    arrivals = seen(lambda at_s: 1_000 + 30 * at_s, 900)
    assert arrivals.rates() == {ORDERS: pytest.approx(30.0)}
    assert arrivals.span_s == 300.0


def test_a_rise_counts_as_soon_as_two_looks_show_it() -> None:
    def end(at_s: int) -> int:
        return 200 * at_s + max(at_s - 100, 0) * 2_800

    assert seen(end, 105).rates()[ORDERS] < 450
    assert seen(end, 110).rates()[ORDERS] > 2_900


def test_a_burst_of_some_seconds_passes_as_part_of_the_mean() -> None:
    arrivals = seen(lambda at_s: 12_000 * (at_s >= 100), 100)
    assert arrivals.rates()[ORDERS] == pytest.approx(200.0)
    later = seen(lambda at_s: 12_000 * (at_s >= 100), 155)
    assert later.rates()[ORDERS] == pytest.approx(200.0)


def test_few_records_are_no_rise() -> None:
    arrivals = seen(lambda at_s: max(at_s - 90, 0) // 5, 100)
    assert arrivals.rates()[ORDERS] == pytest.approx(2 / 100)


def test_a_fall_shows_within_a_minute_and_nothing_is_left_after_five() -> None:
    def end(at_s: int) -> int:
        return 100 * min(at_s, 60)

    assert seen(end, 90).rates()[ORDERS] == pytest.approx(50.0)
    assert seen(end, 125).rates()[ORDERS] < 10
    assert seen(end, 360).rates()[ORDERS] == 0.0


def test_few_records_are_counted_over_five_minutes() -> None:
    # Ten in each odd minute: over a minute that is 10 or nothing.
    def end(at_s: int) -> int:
        minutes, rest = divmod(at_s, 120)
        return 10 * minutes + min(rest // 6, 10)

    rates = [seen(end, at_s).rates()[ORDERS] for at_s in range(600, 900, 30)]
    assert max(rates) < 1.6 * min(rates)


def test_a_partition_that_is_new_counts_from_its_first_look_on() -> None:
    arrivals = seen(lambda at_s: 10 * at_s, 60)
    arrivals.note(65.0, {ORDERS: 650, OTHERS: 1_000})
    assert arrivals.rates()[OTHERS] == 0.0
    arrivals.note(70.0, {ORDERS: 700, OTHERS: 1_100})
    assert arrivals.rates()[OTHERS] == pytest.approx(20.0)


def test_a_topic_that_was_made_again_begins_anew() -> None:
    arrivals = seen(lambda at_s: 100 * at_s, 60)
    arrivals.note(65.0, {ORDERS: 5})
    assert arrivals.rates() == {ORDERS: 0.0}


def test_of_many_quick_looks_some_are_kept() -> None:
    arrivals = Arrivals()
    for tenth in range(9_000):
        arrivals.note(tenth / 10, {ORDERS: tenth})
    assert arrivals.rates()[ORDERS] == pytest.approx(10.0, rel=0.01)
    assert arrivals.span_s == pytest.approx(300.0, abs=1.1)
    assert len(arrivals._seen) < 310


def test_looks_at_one_moment_divide_by_nothing() -> None:
    arrivals = Arrivals()
    arrivals.note(1.0, {ORDERS: 0})
    arrivals.note(1.0, {ORDERS: 9})
    assert arrivals.rates() == {ORDERS: 0.0}
