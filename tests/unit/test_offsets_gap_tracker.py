"""A tenure from its first batch to its release."""

import tracemalloc

import pytest

from assignors.key_range import WHOLE, KeyRange
from offsets import GapTracker, OffsetRange, RangeProgress

LOW, HIGH = KeyRange(0, 9), KeyRange(10, 19)
MINE = KeyRange(0, 19)


def gaps(*pairs: tuple[int, int]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(first, last) for first, last in pairs)


def tracking(*offsets: int, key_hash: int = 3, end: int) -> GapTracker:
    """A tenure over MINE that has admitted these records, and seen all from 41 to below `end`."""
    tracker = GapTracker([RangeProgress(MINE, 41)])
    for offset in offsets:
        assert tracker.admit(offset, key_hash)
    tracker.cover(41, end)
    return tracker


def test_foreign_offsets_and_holes_count_as_done_inside_the_own_rectangle() -> None:
    tracker = tracking(42, 45, end=50)
    tracker.done_many([45])
    assert tracker.facts() == (RangeProgress(MINE, 42, gaps((43, 49))),)
    tracker.done_many([42])
    assert tracker.facts() == (RangeProgress(MINE, 50),)
    assert tracker.stable == 50


def test_facts_end_at_the_first_record_that_waits_above_everything_finished() -> None:
    tracker = tracking(*range(41, 1041, 2), end=1041)
    assert tracker.facts() == (RangeProgress(MINE, 41),)
    tracker.done_many([43])
    assert tracker.facts() == (RangeProgress(MINE, 41, gaps((42, 44))),)
    tracker.done_many([41])
    assert tracker.facts() == (RangeProgress(MINE, 45),)


def test_of_a_batch_that_is_not_covered_yet_facts_tell_nothing() -> None:
    tracker = tracking(end=50)
    assert tracker.admit(60, key_hash=3)
    assert tracker.facts() == (RangeProgress(MINE, 50),)
    tracker.done_many([60])
    assert tracker.facts() == (RangeProgress(MINE, 50),)


def test_what_was_told_above_everything_finished_is_told_again() -> None:
    tracker = tracking(42, end=50)
    tracker.done_many([42])
    assert tracker.facts() == (RangeProgress(MINE, 50),)
    tracker = tracking(42, 44, end=50)
    tracker.learn([RangeProgress(KeyRange(3, 3), 46)])
    assert not tracker.pending
    assert tracker.facts() == (RangeProgress(MINE, 50),)
    for offset in (51, 53):
        tracker.admit(offset, key_hash=3)
    tracker.cover(50, 60)
    assert tracker.facts() == (RangeProgress(MINE, 51),)
    tracker.release([LOW])
    assert tracker.facts() == (RangeProgress(LOW, 51), RangeProgress(HIGH, 60))


def test_a_straggler_holds_the_stable_offset_but_not_the_facts() -> None:
    tracker = tracking(*range(41, 50), end=50)
    for offset in range(42, 50):
        tracker.done_many([offset])
    assert tracker.facts() == (RangeProgress(MINE, 41, gaps((42, 49))),)


def test_a_jump_of_the_fetch_position_is_never_a_hole() -> None:
    tracker = tracking(end=50)
    with pytest.raises(ValueError, match=r"I10: a batch of \[51, 60\) leaves \[50, 51\) unseen"):
        tracker.cover(51, 60)
    assert tracker.seen_to == 50


def test_a_batch_that_overlaps_what_was_seen_is_taken() -> None:
    tracker = tracking(end=50)
    tracker.cover(45, 48)
    assert tracker.seen_to == 50
    tracker.cover(50, 53)
    assert tracker.facts() == (RangeProgress(MINE, 53),)


def test_a_record_below_what_was_seen_is_refused() -> None:
    with pytest.raises(ValueError, match="I10: offset 49 is below 50"):
        tracking(end=50).admit(49, key_hash=3)


def test_a_record_done_before_is_not_admitted_as_long_as_facts_lie_ahead() -> None:
    tracker = GapTracker([RangeProgress(LOW, 41, gaps((43, 43))), RangeProgress(HIGH, 44)])
    assert tracker.ahead
    assert [o for o in range(41, 45) if tracker.admit(o, key_hash=5)] == [41, 42, 44]
    assert not GapTracker([RangeProgress(HIGH, 44), RangeProgress(LOW, 41)]).admit(43, key_hash=12)
    tracker.cover(41, 45)
    assert not tracker.ahead


def test_pieces_melt_together_once_the_stable_offset_passes_what_was_inherited() -> None:
    tracker = GapTracker([RangeProgress(LOW, 41), RangeProgress(HIGH, 44)])
    assert tracker.admit(42, key_hash=5)
    assert tracker.admit(45, key_hash=15)
    tracker.cover(41, 47)
    tracker.admit(47, key_hash=5)
    tracker.cover(47, 48)
    tracker.done_many([47])
    low = RangeProgress(LOW, 42, gaps((43, 44), (46, 47)))
    assert tracker.facts() == (low, RangeProgress(HIGH, 45, gaps((46, 47))))
    tracker.done_many([42])
    assert tracker.facts() == (RangeProgress(MINE, 45, gaps((46, 47))),)


def test_learned_facts_drop_what_a_predecessor_finished() -> None:
    tracker = tracking(42, end=50)
    assert tracker.admit(50, key_hash=4)
    tracker.cover(50, 51)
    drained = RangeProgress(KeyRange(3, 3), 46, gaps((60, 61)))
    assert tracker.learn([drained]) == [42]
    assert list(tracker.pending) == [50]
    assert tracker.ahead
    tracker.cover(51, 60)
    assert not tracker.admit(60, key_hash=3)
    assert tracker.admit(60, key_hash=4)
    tracker.check()


def test_learned_facts_about_other_hashes_change_nothing() -> None:
    tracker = tracking(42, end=50)
    told = tracker.facts()
    assert tracker.learn([RangeProgress(KeyRange(20, 30), 46)]) == []
    assert tracker.facts() == told


def test_learned_facts_that_make_two_pieces_equal_take_nothing_back() -> None:
    tracker = GapTracker([RangeProgress(LOW, 41), RangeProgress(HIGH, 41, gaps((43, 44)))])
    tracker.admit(42, key_hash=5)
    tracker.admit(45, key_hash=15)
    tracker.cover(41, 46)
    tracker.done_many([45])
    assert RangeProgress(HIGH, 46) in tracker.facts()
    tracker.learn([RangeProgress(LOW, 41, gaps((43, 44)))])
    assert RangeProgress(HIGH, 46) in tracker.facts()


def test_what_is_learned_above_what_was_seen_is_told() -> None:
    tracker = tracking(end=50)
    tracker.learn([RangeProgress(MINE, 50, gaps((60, 61)))])
    assert tracker.facts() == (RangeProgress(MINE, 50, gaps((60, 61))),)


def test_release_freezes_the_facts_and_drops_what_waits() -> None:
    tracker = tracking(42, 44, end=50)
    assert tracker.admit(50, key_hash=12)
    assert tracker.admit(51, key_hash=13)
    tracker.cover(50, 53)
    tracker.done_many([51])
    frozen = tracker.release([LOW])
    assert frozen == (RangeProgress(LOW, 42, gaps((43, 43), (45, 52))),)
    assert tracker.pending == {50: 12}
    assert tracker.held == (HIGH,)
    assert tracker.done_many([42]) == [42]
    tracker.cover(53, 60)
    assert tracker.facts() == (*frozen, RangeProgress(HIGH, 50, gaps((51, 59))))
    tracker.check()


def test_a_range_is_released_except_the_hashes_with_a_running_handler_then_each_of_those() -> None:
    tracker = GapTracker([RangeProgress(MINE, 41)])
    for offset, key_hash in ((41, 3), (42, 8), (43, 15)):
        tracker.admit(offset, key_hash)
    tracker.cover(41, 44)
    tracker.release([KeyRange(0, 2), KeyRange(4, 14), KeyRange(16, 19)])
    assert tracker.held == (KeyRange(3, 3), KeyRange(15, 15))
    tracker.done_many([43])
    assert tracker.release([KeyRange(15, 15)]) == (RangeProgress(KeyRange(15, 15), 44),)
    tracker.done_many([41])
    tracker.release([KeyRange(3, 3)])
    assert not tracker.held
    told = {str(fact) for fact in tracker.facts()}
    assert told == {"[0, 3] stable 44", "[4, 14] stable 42", "[15, 19] stable 44"}
    tracker.check()


def test_what_is_not_held_cannot_be_released() -> None:
    tracker = tracking(end=50)
    with pytest.raises(ValueError, match=r"cannot release \[20, 25\]: the tenure holds \[0, 19\]"):
        tracker.release([KeyRange(15, 25)])


def test_a_tenure_needs_a_range_and_one_fact_a_hash() -> None:
    with pytest.raises(ValueError, match="at least one range"):
        GapTracker([])
    with pytest.raises(ValueError, match=r"facts overlap: \[0, 9\] and \[5, 5\]"):
        GapTracker([RangeProgress(LOW, 1), RangeProgress(KeyRange(5, 5), 2)])


@pytest.mark.parametrize("window", [1_370, 21_850])  # just beyond where a dict doubles
def test_a_record_in_flight_costs_at_most_a_hundred_bytes(window: int) -> None:
    """Besides its offset and hash, which are the record's own; however long the tenure lasts."""
    records = [(10**12 + number, number * 7_919) for number in range(4 * window)]
    tracker = GapTracker([RangeProgress(WHOLE, 10**12)])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number, (offset, key_hash) in enumerate(records):
            tracker.admit(offset, key_hash)
            tracker.cover(offset, offset + 1)
            if number < window:
                continue
            tracker.done_many([records[number - window][0]])
            if number % 256 == 0:
                tracker.facts()
                held = tracemalloc.get_traced_memory()[0] - before
                assert held <= 100 * window + 5_000
    finally:
        tracemalloc.stop()
    assert list(tracker.pending.items()) == records[-window:]
