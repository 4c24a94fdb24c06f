"""The judge of the integration tests convicts what is wrong, and nothing else."""

from __future__ import annotations

from tests.support.journal import Row, begun_too_early, came_again, lost, out_of_order, repeated


def row(offset: int, started: int, ended: int, key: str = "k") -> Row:
    return Row(0, offset, key, started, ended, "m", 1)


def test_one_after_the_other_is_in_order() -> None:
    rows = [row(3, 0, 10), row(7, 10, 20), row(4, 5, 15, key="other")]
    assert out_of_order(rows) == []


def test_a_record_that_comes_again_after_a_crash_is_in_order() -> None:
    assert out_of_order([row(3, 0, 10), row(7, 10, 20), row(3, 30, 40), row(7, 40, 50)]) == []


def test_two_handlers_of_a_key_at_once_are_convicted() -> None:
    [breach, *_] = out_of_order([row(3, 0, 10), row(7, 9, 20)])
    assert "overlaps" in breach


def test_a_short_handler_inside_a_long_one_does_not_hide_the_next_overlap() -> None:
    breaches = out_of_order([row(3, 0, 100), row(3, 10, 20), row(3, 30, 40)])
    assert len(breaches) == 2


def test_a_record_jumped_over_is_convicted_though_nothing_overlaps() -> None:
    [breach] = out_of_order([row(7, 0, 10), row(3, 20, 30)])
    assert "began before an earlier offset" in breach


def test_what_is_missing_and_what_came_again_are_counted() -> None:
    rows = [row(3, 0, 1), row(3, 2, 3), row(3, 4, 5), row(4, 0, 1)]
    assert lost(rows, [(0, 3), (0, 4), (0, 5)]) == {(0, 5)}
    assert repeated(rows) == 2


def plain(offset: int, started: int) -> Row:
    return Row(0, offset, "k", started, started + 1, "plain", 1)


def test_a_plain_consumer_that_begins_with_what_was_unfinished_may_repeat_what_is_behind() -> None:
    ours = [row(3, 0, 10), row(5, 0, 10), row(6, 0, 10)]
    rows = [plain(4, 20), plain(5, 22), plain(6, 24)]
    assert came_again([*ours, *rows]) == [(rows[1], ours[1]), (rows[2], ours[2])]
    assert begun_too_early([*ours, *rows], ["plain"]) == []
    assert begun_too_early([*ours, *rows[1:]], ["plain"]) == [rows[1]]


def test_a_plain_consumer_that_goes_on_is_not_convicted_nor_one_that_repeats_a_plain_one() -> None:
    rows = [row(3, 0, 1), plain(3, 4), plain(4, 6), plain(3, 8)]
    assert begun_too_early(rows, ["plain"]) == [rows[1]]
    assert begun_too_early(rows[1:], ["plain"]) == []
