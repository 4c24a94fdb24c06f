"""The size of fetched batches: small where handlers are slow, and large as soon as they are not."""

from __future__ import annotations

from coop_consumer.kafka.batch_size import (
    BATCH_BYTES_MAX,
    BATCH_MAX,
    BATCH_MIN,
    SLOW_MIN,
    BatchSize,
)


def after(rate: float, seconds: float, bytes_each: float = 700) -> int:
    """The size once so many messages a second have been handed on for a while."""
    sizes, now_s = BatchSize(0.0), 0.0
    while now_s < seconds:
        now_s += sizes.size / rate
        sizes.note(sizes.size, now_s, bytes_each)
    return sizes.size


def test_where_handlers_are_slow_a_batch_is_small() -> None:
    assert after(rate=80, seconds=5) == SLOW_MIN


def test_where_they_are_not_it_is_worth_its_wait_for_the_interpreter() -> None:
    assert after(rate=12_800, seconds=1) == BATCH_MIN


def test_where_they_are_quick_it_is_what_is_wanted_in_10_ms() -> None:
    assert 1_000 <= after(rate=120_000, seconds=1) <= 1_500
    assert after(rate=1e6, seconds=1) == BATCH_MAX


def test_after_a_rest_it_is_small_and_doubles() -> None:
    sizes = BatchSize(0.0)
    sizes.note(10_000, 0.05, 700)
    sizes.note(1, 60.0, 700)
    assert sizes.size == SLOW_MIN
    assert [sizes.note(sizes.size, 60.001, 700) for _ in range(5)] == [16, 32, 64, 128, 256]


def test_of_large_messages_a_batch_has_few_and_one_at_least() -> None:
    assert after(rate=12_800, seconds=1, bytes_each=100_000) == round(BATCH_BYTES_MAX / 100_000)
    assert after(rate=12_800, seconds=1, bytes_each=50_000_000) == 1
